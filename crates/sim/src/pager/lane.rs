//! One fault thread: its link to the server, and what waits for it.

use std::collections::VecDeque;

use outboard_driver::LinkId;
use outboard_link::OpenRegion;

use super::jobs::{Errand, Job};

/// One fault thread.
#[derive(Default)]
pub(super) struct Lane {
    pub(super) link: Option<LinkId>,
    /// Mappings that the server was asked for, and those that it has opened.
    pub(super) openings: Vec<(u32, Option<OpenRegion>)>,
    demand: VecDeque<Job>,
    ahead: VecDeque<Job>,
    /// The job whose last pieces found no room.
    pub(super) partial: Option<u32>,
    /// Mappings whose write-backs wait for a fence, and whether the server has been asked for it.
    pub(super) fences: Vec<(u32, bool)>,
}

impl Lane {
    pub(super) fn open(&self, number: u32) -> Option<OpenRegion> {
        self.openings.iter().find(|(known, _)| *known == number)?.1
    }

    pub(super) fn push(&mut self, job: Job) {
        match job.errand {
            Errand::Demand => self.demand.push_back(job),
            _ => self.ahead.push_back(job),
        }
    }

    pub(super) fn has_demand(&self) -> bool {
        !self.demand.is_empty()
    }

    /// The next fetch whose region is open: those that a thread waits for first.
    pub(super) fn pop(&mut self) -> Option<Job> {
        let openings = &self.openings;
        let is_open =
            |job: &Job| openings.iter().any(|(number, region)| *number == job.key.region && region.is_some());
        for queue in [&mut self.demand, &mut self.ahead] {
            if let Some(at) = queue.iter().position(is_open) {
                return queue.remove(at);
            }
        }
        None
    }

    /// Takes the jobs that wait for a mapping.
    pub(super) fn drain(&mut self, number: u32) -> Vec<Job> {
        let waiting: Vec<Job> = self.demand.drain(..).chain(self.ahead.drain(..)).collect();
        let (taken, left) = waiting.into_iter().partition(|job| job.key.region == number);
        let left: Vec<Job> = left;
        left.into_iter().for_each(|job| self.push(job));
        taken
    }

    pub(super) fn is_idle(&self) -> bool {
        self.demand.is_empty() && self.ahead.is_empty() && self.fences.is_empty()
    }
}
