//! One peer of a fault thread: the memory server, or the agent.

use std::collections::VecDeque;
use std::sync::Arc;

use outboard_contract::{LinkId, OpenRegion, Peer};
use outboard_wire::Time;
use outboard_wire::paging::CacheMode;

use super::jobs::{Errand, Job};
use super::region::PagedRegion;

/// How far a region is known to a peer.
#[derive(Clone, Copy, Debug)]
pub(super) enum OpeningState {
    /// It was asked for.
    Asked,
    /// It is open for one-sided access.
    Open(OpenRegion),
    /// The agent serves it on request.
    Attached,
    /// The agent cannot have it yet.
    Later,
    /// The peer will not have it.
    Refused,
}

pub(super) struct Opening {
    pub(super) region: Arc<PagedRegion>,
    pub(super) state: OpeningState,
    /// The write epoch in which it was asked for.
    pub(super) epoch: u64,
    /// The epoch in which it was asked for again, if there was no answer yet.
    pub(super) renewed_in: Option<u64>,
    /// The treatment of it by an agent, which may be less than was asked for.
    pub(super) mode: CacheMode,
}

/// One peer of a fault thread, and the jobs that wait for it.
#[derive(Default)]
pub(super) struct Side {
    pub(super) link: Option<LinkId>,
    pub(super) peer: Option<Peer>,
    pub(super) openings: Vec<Opening>,
    /// How many regions had arrived and departed when the openings were last in order.
    pub(super) introduced: Option<(u32, u32)>,
    demand: VecDeque<Job>,
    ahead: VecDeque<Job>,
    /// The job whose last pieces found no room.
    pub(super) partial: Option<u32>,
    /// Since when there is no link.
    pub(super) lost_since: Option<Time>,
    /// Openings that others have replaced, to be closed.
    pub(super) outdated: Vec<OpenRegion>,
    /// How many messages about chunks are unanswered, and since when none was answered.
    unanswered: u32,
    silent_since: Option<Time>,
}

impl Side {
    pub(super) fn opening(&self, region: u32) -> Option<&Opening> {
        self.openings.iter().find(|opening| opening.region.number == region)
    }

    pub(super) fn state(&self, region: u32) -> Option<OpeningState> {
        self.opening(region).map(|opening| opening.state)
    }

    /// Whether chunks of a region can be asked of the peer and sent to it.
    pub(super) fn knows(&self, region: u32) -> bool {
        matches!(self.state(region), Some(OpeningState::Open(_) | OpeningState::Attached))
    }

    pub(super) fn set_state(&mut self, region: u32, state: OpeningState) {
        if let Some(opening) = self.openings.iter_mut().find(|opening| opening.region.number == region) {
            if let OpeningState::Open(before) = std::mem::replace(&mut opening.state, state) {
                self.outdated.push(before);
            }
            opening.epoch = opening.renewed_in.take().unwrap_or(opening.epoch);
        }
    }

    /// The agent has said what it does with a region.
    pub(super) fn set_mode(&mut self, region: u32, mode: CacheMode) {
        if let Some(opening) = self.openings.iter_mut().find(|opening| opening.region.number == region) {
            opening.mode = mode;
        }
    }

    pub(super) fn push(&mut self, job: Job) {
        match job.errand {
            Errand::Demand => self.demand.push_back(job),
            _ => self.ahead.push_back(job),
        }
    }

    /// The next fetch whose region the peer knows: those that a thread waits for first.
    pub(super) fn pop(&mut self) -> Option<Job> {
        let openings = &self.openings;
        let is_ready = |job: &Job| {
            openings.iter().any(|opening| {
                opening.region.number == job.region.number
                    && matches!(opening.state, OpeningState::Open(_) | OpeningState::Attached)
            })
        };
        for queue in [&mut self.demand, &mut self.ahead] {
            if let Some(at) = queue.iter().position(is_ready) {
                return queue.remove(at);
            }
        }
        None
    }

    /// A message was sent that will be answered.
    pub(super) fn has_asked(&mut self, now: Time) {
        self.unanswered += 1;
        self.silent_since.get_or_insert(now);
    }

    /// A message was answered.
    pub(super) fn has_answered(&mut self, now: Time) {
        self.unanswered = self.unanswered.saturating_sub(1);
        self.silent_since = (self.unanswered > 0).then_some(now);
    }

    /// The link is gone, and with it what was asked.
    pub(super) fn forget_questions(&mut self) {
        (self.unanswered, self.silent_since) = (0, None);
    }

    /// Since when a peer that was asked something has been silent.
    pub(super) fn silent_since(&self) -> Option<Time> {
        self.silent_since
    }

    pub(super) fn is_idle(&self) -> bool {
        self.demand.is_empty() && self.ahead.is_empty()
    }

    pub(super) fn has_demand(&self) -> bool {
        !self.demand.is_empty()
    }

    /// Takes all jobs that wait.
    pub(super) fn drain(&mut self) -> Vec<Job> {
        let queues = [&mut self.demand, &mut self.ahead];
        queues.into_iter().flat_map(|queue| queue.drain(..)).collect()
    }
}
