//! The write epoch of a region.

use std::sync::{PoisonError, RwLock, RwLockReadGuard};

/// The epoch of a region whose keys have changed, as those see it who have the former keys.
const RETIRED: u64 = u64::MAX;

/// The write epoch of a region. Writers hold it while they write: once it has changed, nothing of an earlier epoch is
/// written any more.
#[derive(Debug)]
pub struct WriteEpoch(RwLock<u64>);

/// An epoch that does not end while this is kept.
pub struct HeldEpoch<'a>(RwLockReadGuard<'a, u64>);

impl HeldEpoch<'_> {
    /// Which.
    #[inline]
    pub fn epoch(&self) -> u64 {
        *self.0
    }
}

impl WriteEpoch {
    /// This one.
    pub fn new(epoch: u64) -> Self {
        Self(RwLock::new(epoch))
    }

    /// The present one, which may be over already.
    pub fn now(&self) -> u64 {
        *self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Holds the present epoch; none if epochs are over here.
    #[inline]
    pub fn hold(&self) -> Option<HeldEpoch<'_>> {
        let held = self.0.read().unwrap_or_else(PoisonError::into_inner);
        (*held != RETIRED).then_some(HeldEpoch(held))
    }

    /// Begins the next epoch, and returns it. Waits for those who are writing. None if epochs are over here.
    pub fn raise(&self) -> Option<u64> {
        let mut epoch = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if *epoch == RETIRED {
            return None;
        }
        *epoch = epoch.saturating_add(1).min(RETIRED - 1);
        Some(*epoch)
    }

    /// Ends epochs here, for ever, and returns the last. Waits for those who are writing.
    pub fn retire(&self) -> u64 {
        let mut epoch = self.0.write().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *epoch, RETIRED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epochs_follow_each_other_until_they_are_over() {
        let epoch = WriteEpoch::new(1);
        assert_eq!((epoch.now(), epoch.raise(), epoch.now()), (1, Some(2), 2));
        assert_eq!(epoch.hold().map(|held| held.epoch()), Some(2));
        assert_eq!(epoch.retire(), 2);
        assert!(epoch.hold().is_none() && epoch.raise().is_none(), "nothing begins where epochs are over");
    }

    #[test]
    fn a_fence_waits_for_those_who_write() {
        let epoch = WriteEpoch::new(1);
        let held = epoch.hold().unwrap();
        std::thread::scope(|scope| {
            let fence = scope.spawn(|| epoch.raise());
            while epoch.0.try_read().is_ok() && !fence.is_finished() {
                std::thread::yield_now();
            }
            assert!(!fence.is_finished(), "an epoch that is held does not end");
            drop(held);
            assert_eq!(fence.join().unwrap(), Some(2));
        });
    }
}
