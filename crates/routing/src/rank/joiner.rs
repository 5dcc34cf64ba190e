//! Long messages, put together again.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use outboard_wire::routing::Fragment;
use thiserror::Error;

use super::incoming::WINDOW;

/// Why a fragment cannot be used. Its source is to blame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum JoinError {
    /// The message is longer than messages may be.
    #[error("a message of {total} bytes is longer than the {max} that are allowed here")]
    TooLong {
        /// How long it is.
        total: u64,
        /// How long it may be.
        max: usize,
    },
    /// Parts of a message disagree about it.
    #[error("parts of a long message disagree about its length")]
    Disagree,
    /// More is begun than a source may have.
    #[error("long messages of {begun} bytes are begun and none is finished, and {max} are allowed here")]
    TooMuch {
        /// How many bytes those that are begun have in all, with the one that is refused.
        begun: usize,
        /// How many they may have.
        max: usize,
    },
    /// The system has no memory.
    #[error("there is no memory for a message of {total} bytes")]
    NoMemory {
        /// How long it is.
        total: usize,
    },
}

/// What a message that is begun counts at least, however short it claims to be: it has to be remembered.
const COST_MIN: usize = 512;

#[derive(Debug)]
struct Begun {
    total: usize,
    /// As far as parts have come; what is missing before the last of them is zero.
    bytes: Vec<u8>,
    left: usize,
}

impl Begun {
    fn new(total: usize) -> Result<Self, JoinError> {
        let mut bytes = Vec::new();
        // Only addresses: memory is used as parts are written.
        bytes.try_reserve_exact(total).map_err(|_| JoinError::NoMemory { total })?;
        Ok(Self { total, bytes, left: total })
    }

    fn write(&mut self, offset: usize, part: &[u8]) {
        let (here, end) = (self.bytes.len(), offset + part.len());
        if offset == here {
            self.bytes.extend_from_slice(part);
        } else {
            self.bytes.resize(here.max(end), 0);
            self.bytes[offset..end].copy_from_slice(part);
        }
        self.left -= part.len();
    }
}

/// Puts the long messages of one source together.
#[derive(Debug)]
pub struct Joiner {
    longest: usize,
    /// How much may be begun, and how much is.
    begun_max: usize,
    begun_bytes: usize,
    begun: HashMap<u64, Begun>,
}

impl Joiner {
    /// Nothing is begun. Messages may be as long as `longest`, and those that are begun may have `begun_max` bytes in all,
    /// whatever their source claims.
    pub fn new(longest: usize, begun_max: usize) -> Self {
        Self { longest, begun_max, begun_bytes: 0, begun: HashMap::new() }
    }

    /// What an honest source has begun at most: it sends the long messages of a space one after the other, in bundles of so
    /// many bytes. Of those only one is begun before the first run that is missing, one may end behind the last that can be
    /// under way, and all others lie between.
    pub fn most(spaces: usize, longest: usize, bundle_bytes: usize) -> usize {
        let window = bundle_bytes.saturating_mul(WINDOW as usize);
        longest.saturating_mul(2).saturating_add(window).saturating_mul(spaces)
    }

    /// How many messages are begun.
    pub fn begun(&self) -> usize {
        self.begun.len()
    }

    /// Takes a part of a message. Returns the message if that was the last.
    pub fn add(&mut self, fragment: Fragment, part: &[u8]) -> Result<Option<Vec<u8>>, JoinError> {
        let Fragment { message, total, offset } = fragment;
        let max = self.longest;
        let len = usize::try_from(total).ok().filter(|len| *len <= max);
        let total = len.ok_or(JoinError::TooLong { total, max })?;
        let begun = match self.begun.entry(message) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let (begun, max) = (self.begun_bytes.saturating_add(total.max(COST_MIN)), self.begun_max);
                if begun > max {
                    return Err(JoinError::TooMuch { begun, max });
                }
                let fresh = Begun::new(total)?;
                self.begun_bytes = begun;
                entry.insert(fresh)
            }
        };
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        let is_inside = offset.checked_add(part.len()).is_some_and(|end| end <= total);
        if begun.total != total || !is_inside || part.len() > begun.left {
            return Err(JoinError::Disagree);
        }
        begun.write(offset, part);
        if begun.left > 0 {
            return Ok(None);
        }
        self.begun_bytes -= total.max(COST_MIN);
        Ok(self.begun.remove(&message).map(|mut begun| {
            // Parts that overlap leave some out.
            begun.bytes.resize(total, 0);
            begun.bytes
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: usize = 1 << 20;

    #[test]
    fn parts_come_in_any_order_and_mixed() {
        let mut random = fastrand::Rng::with_seed(3);
        let messages: Vec<Vec<u8>> =
            (0..10).map(|n| (0..1000 * n + 17).map(|_| random.u8(..)).collect()).collect();
        let mut parts = Vec::new();
        for (number, message) in messages.iter().enumerate() {
            for (index, part) in message.chunks(97).enumerate() {
                let (message, total) = (number as u64, message.len() as u64);
                parts.push((Fragment { message, total, offset: 97 * index as u64 }, part));
            }
        }
        random.shuffle(&mut parts);
        let mut joiner = Joiner::new(MAX, 4 * MAX);
        let mut whole = vec![None; messages.len()];
        for (fragment, part) in parts {
            if let Some(bytes) = joiner.add(fragment, part).unwrap() {
                assert!(whole[fragment.message as usize].replace(bytes).is_none());
            }
        }
        assert_eq!(whole.into_iter().map(Option::unwrap).collect::<Vec<_>>(), messages);
    }

    #[test]
    fn nonsense_is_refused_before_memory_is_reserved() {
        let mut joiner = Joiner::new(MAX, 4 * MAX);
        let huge = Fragment { message: 0, total: u64::MAX, offset: 0 };
        assert_eq!(joiner.add(huge, &[0]), Err(JoinError::TooLong { total: u64::MAX, max: MAX }));
        let first = Fragment { message: 0, total: 100, offset: 0 };
        assert_eq!(joiner.add(first, &[0; 60]), Ok(None));
        assert_eq!(joiner.add(Fragment { total: 90, ..first }, &[0; 30]), Err(JoinError::Disagree));
        assert_eq!(joiner.add(first, &[0; 60]), Err(JoinError::Disagree), "more than there is");
    }

    #[test]
    fn a_source_cannot_make_others_reserve_more_than_is_allowed() {
        let mut joiner = Joiner::new(MAX, 2 * MAX);
        let begin = |message| Fragment { message, total: MAX as u64, offset: 0 };
        assert_eq!(joiner.add(begin(0), &[0]), Ok(None));
        assert_eq!(joiner.add(begin(1), &[0]), Ok(None));
        let (begun, max) = (3 * MAX, 2 * MAX);
        assert_eq!(joiner.add(begin(2), &[0]), Err(JoinError::TooMuch { begun, max }));
        // Those that are begun are not disturbed, and what they leave can be used again.
        let rest = Fragment { offset: 1, ..begin(0) };
        assert_eq!(joiner.add(rest, &[7; MAX - 1]).unwrap().unwrap().len(), MAX);
        assert_eq!(joiner.add(begin(2), &[0]), Ok(None));
        // Many that claim to be short have to be remembered too.
        let mut joiner = Joiner::new(MAX, MAX);
        let refused =
            (0..).find(|&message| joiner.add(Fragment { message, total: 2, offset: 0 }, &[0]).is_err());
        assert_eq!(refused, Some((MAX / COST_MIN) as u64));
    }

    #[test]
    fn the_last_part_may_come_first() {
        let mut joiner = Joiner::new(MAX, MAX);
        let part = |offset| Fragment { message: 3, total: 10, offset };
        assert_eq!(joiner.add(part(8), &[3; 2]), Ok(None));
        assert_eq!(joiner.add(part(0), &[1; 4]), Ok(None));
        assert_eq!(joiner.add(part(4), &[2; 4]), Ok(Some(vec![1, 1, 1, 1, 2, 2, 2, 2, 3, 3])));
    }
}
