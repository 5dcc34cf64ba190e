//! Which versions of the protocol a process speaks, and which two processes agree on.
//!
//! A release that changes what travels between processes raises [`Versions::NEWEST`] by one, and goes on speaking the
//! version before it: so machines can be updated one after another. What never changes is where a handshake message says
//! who sent it ([magic](crate::Hello) and versions), so that any two builds can tell each other why they part.

use core::fmt;

use crate::{DecodeError, FrameKind, paging};

/// The messages that the version before the newest does not know, and the first version that does. A message of which every
/// version that we speak knows leaves this table, and what was sent in its place goes with it.
const YOUNG: [(FrameKind, u16); 3] = [
    (paging::DISCARD, 2),
    (crate::control::Question::RESERVE_SPARSE, 2),
    (crate::control::Question::NEXT_WRITTEN, 2),
];

/// The versions of the protocol that a process can speak: one range without gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    /// The oldest.
    pub min: u16,
    /// The newest.
    pub max: u16,
}

impl Versions {
    /// The newest version that this build speaks. Since version 2 the accepting side may answer with
    /// [`Wait`](crate::Wait), there are [`Discard`](paging::PagingRequest::Discard) and
    /// [`NoMemory`](crate::access::AccessStatus::NoMemory), regions may take room only as they are written, and a
    /// [`Welcome`](crate::Welcome) says which store a memory server goes on with.
    pub const NEWEST: u16 = 2;

    /// What this build speaks.
    pub const OURS: Self = Self::up_to(Self::NEWEST);

    /// What a build speaks whose newest version this is: that one, and the one before it.
    pub const fn up_to(newest: u16) -> Self {
        let min = if newest > 1 { newest - 1 } else { newest };
        Self { min, max: newest }
    }

    /// The newest version that both sides speak.
    pub fn common(self, other: Self) -> Option<u16> {
        let newest = self.max.min(other.max);
        (newest >= self.min.max(other.min)).then_some(newest)
    }

    /// Whether this version is one of them.
    pub fn include(self, version: u16) -> bool {
        (self.min..=self.max).contains(&version)
    }

    /// These, unless they are no range: there is no version 0, and the oldest is not newer than the newest.
    pub fn check(self) -> Result<Self, DecodeError> {
        match self.min {
            0 => Err(DecodeError::BadValue { what: "oldest version", value: 0 }),
            min if min > self.max => {
                Err(DecodeError::BadValue { what: "newest version", value: self.max.into() })
            }
            _ => Ok(self),
        }
    }

    /// Whether a side that speaks these may say what this build has no word for.
    pub(crate) fn reach_beyond_ours(self) -> bool {
        self.max > Self::NEWEST
    }
}

impl FrameKind {
    /// The first version of the protocol that has messages of this kind.
    pub fn since(self) -> u16 {
        YOUNG.iter().find(|(kind, _)| *kind == self).map_or(1, |(_, since)| *since)
    }
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.min == self.max {
            write!(f, "{}", self.min)
        } else {
            write!(f, "{}–{}", self.min, self.max)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_agree_on_the_newest_common_one() {
        let ours = Versions { min: 2, max: 5 };
        assert_eq!(ours.common(Versions { min: 1, max: 3 }), Some(3));
        assert_eq!(ours.common(Versions { min: 4, max: 9 }), Some(5));
        assert_eq!(ours.common(Versions { min: 6, max: 9 }), None);
        assert_eq!(ours.common(Versions { min: 1, max: 1 }), None);
    }

    #[test]
    fn a_release_agrees_with_the_one_before_and_the_one_after_and_no_other() {
        for newest in 1..20 {
            let build = Versions::up_to(newest);
            assert_eq!(build.common(build), Some(newest));
            for other in 1..20 {
                let common = build.common(Versions::up_to(other));
                assert_eq!(common, Versions::up_to(other).common(build), "both sides choose alike");
                let expected = (newest.abs_diff(other) <= 1).then_some(newest.min(other));
                assert_eq!(common, expected, "{newest} and {other}");
            }
        }
    }

    #[test]
    fn young_messages_are_those_that_the_version_before_does_not_know() {
        for (kind, since) in YOUNG {
            assert!(Versions::OURS.include(since), "{kind} came with version {since}, which no link has");
            assert!(since > Versions::OURS.min, "every version that we speak knows {kind}: take it out");
            assert_eq!(kind.since(), since);
        }
        assert_eq!(FrameKind::new(crate::Room::Trial, 0).since(), 1);
    }

    #[test]
    fn the_version_before_is_told_no_status_that_it_does_not_know() {
        let all = (0..).map_while(|value| crate::access::AccessStatus::try_from(value).ok());
        for status in all {
            assert_eq!(status.for_version(Versions::NEWEST), status);
            let told = status.for_version(Versions::OURS.min) as u32;
            assert!(told <= 6, "{status:?}");
        }
    }

    #[test]
    fn what_is_no_range_is_refused() {
        for wrong in [Versions { min: 0, max: 3 }, Versions { min: 5, max: 4 }, Versions { min: 0, max: 0 }] {
            assert!(wrong.check().is_err(), "{wrong}");
        }
        assert_eq!(Versions::OURS.check(), Ok(Versions::OURS));
    }
}
