//! Memory for long messages, of which all links of this process take their share.
//!
//! Every link has a few places for short messages. Room for long ones is made when a peer begins to send them, as long
//! as there is some left; a peer that gets none sends them in short pieces, and a link that has some and does not use it
//! takes it back from its peer.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// How much of the pool is taken.
static TAKEN: AtomicUsize = AtomicUsize::new(0);
/// Whether a link that asked for room got none.
static IS_WANTED: AtomicBool = AtomicBool::new(false);

/// Whether a link got no room, so that a link that does not use its share should give it up. Says so once.
pub(super) fn take_wish() -> bool {
    IS_WANTED.load(Ordering::Relaxed) && IS_WANTED.swap(false, Ordering::Relaxed)
}

/// How much is taken.
#[cfg(test)]
pub(super) fn taken() -> usize {
    TAKEN.load(Ordering::Relaxed)
}

/// The room that a link has taken, until it is dropped.
#[derive(Debug)]
pub(super) struct Share {
    bytes: usize,
    from: &'static AtomicUsize,
}

impl Share {
    /// Takes `bytes`, if no more than `most` are taken then.
    pub(super) fn take(bytes: usize, most: usize) -> Option<Self> {
        let share = Self::take_from(&TAKEN, bytes, most);
        // No link waits for a pool that is too small for any.
        if share.is_none() && bytes <= most {
            IS_WANTED.store(true, Ordering::Relaxed);
        }
        share
    }

    fn take_from(from: &'static AtomicUsize, bytes: usize, most: usize) -> Option<Self> {
        let taken = from.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| {
            taken.checked_add(bytes).filter(|taken| *taken <= most)
        });
        taken.ok().map(|_| Self { bytes, from })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.from.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_taken_than_there_is_and_what_is_dropped_is_there_again() {
        static POOL: AtomicUsize = AtomicUsize::new(0);
        let take = |bytes| Share::take_from(&POOL, bytes, 100);
        let (first, second) = (take(60).unwrap(), take(40).unwrap());
        assert!(take(1).is_none() && take(usize::MAX).is_none());
        drop(first);
        assert!(take(61).is_none());
        let third = take(60);
        assert!(third.is_some() && take(1).is_none());
        drop((second, third));
        assert_eq!(POOL.load(Ordering::Relaxed), 0);
    }
}
