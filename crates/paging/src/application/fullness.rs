//! Whether the memory server of a region has no room left for chunks that were never written before.
//!
//! Nothing is lost by that: chunks that are refused stay here as they are, changed, and are sent again after a while. Threads that
//! need their places in the buffer wait until the server has room.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use outboard_wire::{Time, mutant};

use super::pages::Pages;
use super::region::PagedRegion;
use super::space::PageSpace;

/// How long until what was refused is sent again.
const RETRY_AFTER: Duration = Duration::from_millis(50);

/// How much room the memory server has for one region, as far as its answers tell.
#[derive(Debug, Default)]
pub(super) struct Fullness {
    /// Something was refused, and nothing was taken since.
    is_full: AtomicBool,
    /// When the next write-back may be sent, in nanoseconds.
    retry_at: AtomicU64,
    /// People have been told.
    is_told: AtomicBool,
}

impl Fullness {
    /// Whether write-backs may be sent now.
    pub(super) fn lets_save(&self, now: Time) -> bool {
        now.as_nanos() >= self.retry_at.load(Ordering::Relaxed)
    }
}

impl<S: PageSpace> Pages<S> {
    /// A write-back was refused because the server has no room for it.
    pub(super) fn was_refused_room(&self, region: &PagedRegion, now: Time) {
        let fullness = &region.fullness;
        fullness.is_full.store(true, Ordering::Release);
        if !mutant("paging.refused-room-asked-for-at-once") {
            let retry_at = (now + RETRY_AFTER).as_nanos();
            fullness.retry_at.store(retry_at, Ordering::Relaxed);
            self.saves_again_at.fetch_max(retry_at, Ordering::Relaxed);
        }
        if !fullness.is_told.swap(true, Ordering::AcqRel) {
            let name = &region.spec.name;
            self.space.say(&format!(
                "outboard: the memory server has no room for more of far memory “{name}”: what was changed stays here, and threads \
                 that need its place wait; free regions there, or start it with more --capacity\n"
            ));
        }
        self.space.announce();
    }

    /// A write-back was taken.
    pub(super) fn was_given_room(&self, region: &PagedRegion) {
        region.fullness.is_full.store(false, Ordering::Release);
    }

    /// When write-backs that were refused may be sent again.
    pub(super) fn saves_again_at(&self, now: Time) -> Option<Time> {
        let again_at = self.saves_again_at.load(Ordering::Relaxed);
        (again_at > now.as_nanos()).then(|| Time::from_nanos(again_at))
    }
}

impl PagedRegion {
    /// Whether the memory server has refused what was written last, having no room for it.
    pub fn is_refused_room(&self) -> bool {
        self.fullness.is_full.load(Ordering::Acquire)
    }
}
