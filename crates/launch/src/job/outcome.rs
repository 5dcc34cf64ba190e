//! What became of a job.

use std::fmt;

use crate::process::{End, signal_name};

/// What became of a job. Its `Display` is a sentence for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobOutcome {
    /// The number of the first rank.
    pub first: u32,
    /// What became of each rank, in order.
    pub ranks: Vec<RankEnd>,
    /// The rank that failed first, for which the others were ended.
    pub first_failure: Option<RankFailure>,
    /// The signal by which the user ended the job, before any rank had failed.
    pub interrupted_by: Option<i32>,
}

/// What became of one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankEnd {
    /// How it ended.
    pub end: End,
    /// Whether it was asked to end, rather than ending by itself.
    pub asked: bool,
    /// Whether it had to be killed.
    pub killed: bool,
}

/// A rank that failed by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankFailure {
    /// Which.
    pub rank: u32,
    /// How.
    pub end: End,
}

impl JobOutcome {
    /// Whether every rank ended by itself with exit code 0.
    pub fn is_success(&self) -> bool {
        let all_succeeded = self.ranks.iter().all(|rank| rank.end.is_success());
        all_succeeded && self.first_failure.is_none() && self.interrupted_by.is_none()
    }

    /// The launcher's own exit code: 0 for success, 1 for anything else.
    pub fn exit_code(&self) -> u8 {
        u8::from(!self.is_success())
    }

    fn numbers(&self, choose: impl Fn(&RankEnd) -> bool) -> Vec<String> {
        let chosen = (self.first..).zip(&self.ranks).filter(|(_, rank)| choose(rank));
        chosen.map(|(number, _)| number.to_string()).collect()
    }
}

impl fmt::Display for JobOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.first_failure, self.interrupted_by) {
            (Some(failure), _) => write!(f, "rank {} {}", failure.rank, failure.end)?,
            (None, Some(signal)) => write!(f, "interrupted by {}", signal_name(signal))?,
            (None, None) => return write!(f, "{} succeeded", ranks(&self.numbers(|_| true))),
        }
        let ended = self.numbers(|rank| rank.asked);
        if !ended.is_empty() {
            write!(f, "; ended {}", ranks(&ended))?;
        }
        let killed = self.numbers(|rank| rank.killed);
        if !killed.is_empty() {
            write!(f, "; had to kill {}", ranks(&killed))?;
        }
        let stuck = self.numbers(|rank| rank.end == End::Stuck);
        if !stuck.is_empty() {
            write!(f, "; {} did not end even so", ranks(&stuck))?;
        }
        Ok(())
    }
}

/// `rank 3`, `ranks 0, 1, 3`; of many the first few.
fn ranks(numbers: &[String]) -> String {
    const SHOWN_MAX: usize = 8;
    match numbers {
        [one] => format!("rank {one}"),
        all if all.len() <= SHOWN_MAX => format!("ranks {}", all.join(", ")),
        all => format!("{} ranks ({}, …)", all.len(), all[..SHOWN_MAX].join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DONE: RankEnd = RankEnd { end: End::Exited { code: 0 }, asked: false, killed: false };
    const ENDED: RankEnd =
        RankEnd { end: End::Signaled { signal: 15, core_dumped: false }, asked: true, killed: false };

    #[test]
    fn the_sentence_names_who_failed_and_what_was_done() {
        let mut outcome =
            JobOutcome { first: 0, ranks: vec![DONE; 3], first_failure: None, interrupted_by: None };
        assert_eq!(outcome.to_string(), "ranks 0, 1, 2 succeeded");
        assert_eq!((outcome.is_success(), outcome.exit_code()), (true, 0));

        let end = End::Signaled { signal: 11, core_dumped: true };
        outcome.ranks[2].end = end;
        outcome.first_failure = Some(RankFailure { rank: 2, end });
        assert_eq!(outcome.to_string(), "rank 2 was killed by SIGSEGV (core dumped)");
        assert_eq!((outcome.is_success(), outcome.exit_code()), (false, 1));

        outcome.ranks[0] = ENDED;
        outcome.ranks[1] = RankEnd { end: End::Stuck, asked: true, killed: true };
        let rest = "; ended ranks 0, 1; had to kill rank 1; rank 1 did not end even so";
        assert!(outcome.to_string().ends_with(rest), "{outcome}");
    }

    #[test]
    fn an_interrupted_job_has_not_succeeded_and_many_ranks_are_not_all_listed() {
        let ranks = vec![ENDED; 64];
        let outcome = JobOutcome { first: 0, ranks, first_failure: None, interrupted_by: Some(2) };
        assert!(!outcome.is_success());
        assert_eq!(outcome.to_string(), "interrupted by SIGINT; ended 64 ranks (0, 1, 2, 3, 4, 5, 6, 7, …)");
    }
}
