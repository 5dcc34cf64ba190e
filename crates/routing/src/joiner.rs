//! Long messages, put together again.

use std::collections::HashMap;

use outboard_wire::routing::Fragment;
use thiserror::Error;

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
    /// More long messages are begun than a source may have.
    #[error("{max} long messages are begun and none is finished")]
    TooMany {
        /// How many may be.
        max: usize,
    },
}

/// How many long messages of one source can be incomplete at once.
const BEGUN_MAX: usize = 256;

#[derive(Clone, Debug)]
struct Begun {
    bytes: Vec<u8>,
    left: u64,
}

/// Puts the long messages of one source together.
#[derive(Clone, Debug, Default)]
pub struct Joiner {
    begun: HashMap<u64, Begun>,
}

impl Joiner {
    /// Nothing is begun.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a part of a message. Returns the message if that was the last.
    pub fn add(&mut self, fragment: Fragment, part: &[u8], max: usize) -> Result<Option<Vec<u8>>, JoinError> {
        let Fragment { message, total, offset } = fragment;
        let len = usize::try_from(total).ok().filter(|len| *len <= max);
        let len = len.ok_or(JoinError::TooLong { total, max })?;
        if self.begun.len() >= BEGUN_MAX && !self.begun.contains_key(&message) {
            return Err(JoinError::TooMany { max: BEGUN_MAX });
        }
        let begun = self.begun.entry(message).or_insert_with(|| Begun { bytes: vec![0; len], left: total });
        let end = offset as usize + part.len();
        if begun.bytes.len() != len || end > len || part.len() as u64 > begun.left {
            return Err(JoinError::Disagree);
        }
        begun.bytes[offset as usize..end].copy_from_slice(part);
        begun.left -= part.len() as u64;
        let is_whole = begun.left == 0;
        Ok(if is_whole { self.begun.remove(&message).map(|begun| begun.bytes) } else { None })
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
        let mut joiner = Joiner::new();
        let mut whole = vec![None; messages.len()];
        for (fragment, part) in parts {
            if let Some(bytes) = joiner.add(fragment, part, MAX).unwrap() {
                assert!(whole[fragment.message as usize].replace(bytes).is_none());
            }
        }
        assert_eq!(whole.into_iter().map(Option::unwrap).collect::<Vec<_>>(), messages);
    }

    #[test]
    fn nonsense_is_refused_before_memory_is_reserved() {
        let mut joiner = Joiner::new();
        let huge = Fragment { message: 0, total: u64::MAX, offset: 0 };
        assert_eq!(joiner.add(huge, &[0], MAX), Err(JoinError::TooLong { total: u64::MAX, max: MAX }));
        let first = Fragment { message: 0, total: 100, offset: 0 };
        assert_eq!(joiner.add(first, &[0; 60], MAX), Ok(None));
        assert_eq!(joiner.add(Fragment { total: 90, ..first }, &[0; 30], MAX), Err(JoinError::Disagree));
        assert_eq!(joiner.add(first, &[0; 60], MAX), Err(JoinError::Disagree), "more than there is");
    }
}
