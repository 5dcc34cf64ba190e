//! Runs that wait with their bytes until their next hops take something.

use std::collections::{HashMap, VecDeque};

use outboard_wire::routing::{JobKey, Run};

/// How many bytes of runs one worker keeps for next hops that take nothing, before the senders have to wait.
const BYTES_MAX: usize = 64 << 20;
/// How many of them every job may have: one whose ranks take nothing has only itself wait.
const BYTES_OWN: usize = 64 << 10;
/// What a run takes at least, however short it is.
const RUN_BYTES_MIN: usize = 256;

/// A run that waits.
pub(super) struct Blocked {
    pub(super) job: JobKey,
    pub(super) run: Run,
    pub(super) bytes: Vec<u8>,
}

impl Blocked {
    fn footprint(&self) -> usize {
        (self.bytes.len() + Run::LEN).max(RUN_BYTES_MIN)
    }
}

/// The runs that wait at one worker.
#[derive(Default)]
pub(super) struct Backlog {
    runs: VecDeque<Blocked>,
    bytes: usize,
    by_job: HashMap<JobKey, usize>,
    /// How much had been freed when the latest look through all of them began, and how many are left to look at.
    looked_at: u64,
    left: usize,
}

impl Backlog {
    /// A run has to wait.
    pub(super) fn push(&mut self, blocked: Blocked) {
        self.bytes += blocked.footprint();
        *self.by_job.entry(blocked.job).or_default() += blocked.footprint();
        self.runs.push_back(blocked);
    }

    fn own(&self, job: JobKey) -> usize {
        self.by_job.get(&job).copied().unwrap_or(0)
    }

    /// Whether so much waits that nothing more of this job should come.
    pub(super) fn is_overfull(&self, job: JobKey) -> bool {
        self.bytes > BYTES_MAX && self.own(job) > BYTES_OWN
    }

    /// Whether more has come of this job than if those who send had waited. What other agents had under way is less.
    pub(super) fn is_flooded(&self, job: JobKey) -> bool {
        self.own(job) > 2 * BYTES_MAX
    }

    /// There may be room that was not there before, if so much has been freed.
    pub(super) fn begin_look(&mut self, freed: u64) {
        if self.looked_at != freed {
            (self.looked_at, self.left) = (freed, self.runs.len());
        }
    }

    /// Whether there are runs to look at.
    pub(super) fn has_more(&self) -> bool {
        self.left > 0
    }

    /// How many runs wait.
    pub(super) fn len(&self) -> usize {
        self.runs.len()
    }

    /// The next one to look at. It goes back if it still has to wait.
    pub(super) fn next(&mut self) -> Option<Blocked> {
        self.left = self.left.checked_sub(1)?;
        let blocked = self.runs.pop_front()?;
        self.bytes -= blocked.footprint();
        if let Some(own) = self.by_job.get_mut(&blocked.job) {
            *own -= blocked.footprint();
            if *own == 0 {
                self.by_job.remove(&blocked.job);
            }
        }
        Some(blocked)
    }
}

#[cfg(test)]
mod tests {
    use outboard_wire::routing::Form;
    use outboard_wire::{JobId, Rank};

    use super::*;

    fn blocked(job: u64, len: usize) -> Blocked {
        let (source, destination, form) = (Rank(0), Rank(1), Form::Messages);
        let run = Run { source, destination, number: 0, at: None, len: len as u32, space: 0, form };
        Blocked { job: JobKey { job: JobId(job), roster: 0 }, run, bytes: vec![0; len] }
    }

    fn job(number: u64) -> JobKey {
        JobKey { job: JobId(number), roster: 0 }
    }

    #[test]
    fn a_job_whose_ranks_take_nothing_has_only_itself_wait() {
        let mut backlog = Backlog::default();
        while !backlog.is_overfull(job(1)) {
            backlog.push(blocked(1, 1 << 20));
        }
        assert!(!backlog.is_overfull(job(2)) && !backlog.is_flooded(job(1)));
        backlog.push(blocked(2, 1 << 10));
        assert!(!backlog.is_overfull(job(2)), "a little is every job's own");
        while !backlog.is_flooded(job(1)) {
            backlog.push(blocked(1, 1 << 20));
        }
        assert!(backlog.bytes < 3 * BYTES_MAX && !backlog.is_flooded(job(2)));
    }

    #[test]
    fn short_runs_are_bounded_too() {
        let mut backlog = Backlog::default();
        while !backlog.is_overfull(job(1)) {
            backlog.push(blocked(1, 0));
        }
        assert!(backlog.runs.len() <= BYTES_MAX / RUN_BYTES_MIN + 1);
    }

    #[test]
    fn each_is_looked_at_once_until_there_is_room_again() {
        let mut backlog = Backlog::default();
        (0..3).for_each(|number| backlog.push(blocked(number, 10)));
        backlog.begin_look(1);
        let first = backlog.next().unwrap();
        backlog.push(first);
        backlog.begin_look(1);
        let jobs = [backlog.next(), backlog.next()].map(|blocked| blocked.unwrap().job);
        assert_eq!((jobs, backlog.has_more()), ([job(1), job(2)], false));
        assert!(backlog.next().is_none() && backlog.runs.len() == 1);
        backlog.begin_look(2);
        assert_eq!(backlog.next().map(|blocked| blocked.job), Some(job(0)));
        assert!(backlog.bytes == 0 && backlog.by_job.is_empty());
    }
}
