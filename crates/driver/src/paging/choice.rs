//! Which thread answers page faults, where the settings leave it to the machine.
//!
//! It decides what becomes of system calls, so it follows from facts that stay as they are, never from how long something took.

use super::space::FaultAnswer;

/// Which thread answers page faults, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultChoice {
    /// Which: never [`FaultAnswer::Auto`].
    pub answer: FaultAnswer,
    /// The choice for people, with the reason.
    pub why: &'static str,
}

/// The facts that the choice depends on.
pub(super) struct Facts {
    /// Whether a handler of SIGBUS can answer faults on this machine.
    pub(super) can_signal: bool,
    /// Whether chunks come by links, which fault threads wait for.
    pub(super) needs_links: bool,
    /// Whether system calls can wait for fault threads.
    pub(super) serves_the_kernel: bool,
    /// Whether the thread that opens far memory has SIGBUS blocked, and so do those that it starts: they would be killed.
    pub(super) is_blocked: bool,
}

const IMPOSSIBLE: &str = "fault threads: by signals they are on x86-64 and aarch64 alone, from Linux 6.6 on";

impl FaultChoice {
    /// The choice that follows from the wish and the facts.
    pub(super) fn of(asked: FaultAnswer, facts: &Facts) -> Self {
        let threads = |why| Self { answer: FaultAnswer::Threads, why };
        let signal = |why| Self { answer: FaultAnswer::Signal, why };
        match asked {
            FaultAnswer::Threads => threads("fault threads, as configured"),
            FaultAnswer::Signal | FaultAnswer::Auto if !facts.can_signal => threads(IMPOSSIBLE),
            FaultAnswer::Signal => signal("the thread that touches what is not here, as configured"),
            FaultAnswer::Auto if facts.needs_links => {
                threads("fault threads, which wait for links: not all that is far can be copied from here")
            }
            FaultAnswer::Auto if facts.serves_the_kernel => threads(
                "fault threads, for which system calls wait too; where none is given far memory, far.faults = \"signal\" is faster",
            ),
            FaultAnswer::Auto if facts.is_blocked => {
                threads("fault threads: the thread that has opened far memory has SIGBUS blocked")
            }
            FaultAnswer::Auto => signal(
                "the thread that touches what is not here, for without privilege system calls could not wait anyway",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Facts =
        Facts { can_signal: true, needs_links: false, serves_the_kernel: false, is_blocked: false };

    fn choose(asked: FaultAnswer, facts: &Facts) -> FaultAnswer {
        FaultChoice::of(asked, facts).answer
    }

    #[test]
    fn what_is_asked_for_is_chosen_where_it_can_be() {
        let (threads, signal) = (FaultAnswer::Threads, FaultAnswer::Signal);
        let worst = Facts { needs_links: true, serves_the_kernel: true, is_blocked: true, ..ALL };
        assert_eq!([threads, signal].map(|asked| choose(asked, &worst)), [threads, signal]);
        let cannot = Facts { can_signal: false, ..ALL };
        assert_eq!([threads, signal].map(|asked| choose(asked, &cannot)), [threads; 2]);
    }

    #[test]
    fn by_itself_a_signal_is_chosen_only_where_that_takes_nothing_from_the_program() {
        assert_eq!(choose(FaultAnswer::Auto, &ALL), FaultAnswer::Signal);
        for other in [
            Facts { can_signal: false, ..ALL },
            Facts { needs_links: true, ..ALL },
            Facts { serves_the_kernel: true, ..ALL },
            Facts { is_blocked: true, ..ALL },
        ] {
            assert_eq!(choose(FaultAnswer::Auto, &other), FaultAnswer::Threads);
        }
    }
}
