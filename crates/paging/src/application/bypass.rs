//! Writes past the agent, whose cache would show older bytes.
//!
//! A chunk of a region that the agent may keep is saved by the agent if its fault thread has a link to one that knows
//! the region. If it has none, because the agent died, is not connected yet or will not have the region, the chunk is saved past it; from then on nothing
//! is fetched by the agent, by any thread, until the agent has thrown away what it has: the server begins a new write
//! epoch, the region is attached anew in that epoch, and agents keep nothing of an earlier one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use outboard_wire::paging::CacheMode;
use outboard_wire::{Time, mutant};

use super::region::{PagedRegion, Path};

/// How long after the last write past it an agent is asked again, and after it has refused for the time being.
pub(super) const PAUSE: Duration = Duration::from_millis(50);

/// The writes to a region past the agent.
#[derive(Debug)]
pub(super) struct Bypass {
    state: Mutex<State>,
    /// Agents that attached the region in an earlier epoch than this may have older bytes.
    sound_from: AtomicU64,
}

#[derive(Debug)]
struct State {
    /// The write epoch of the region.
    epoch: u64,
    under_way: u32,
    last_end: Time,
}

impl Bypass {
    pub(super) fn new(epoch: u64) -> Self {
        let state = State { epoch, under_way: 0, last_end: Time::ZERO };
        Self { state: Mutex::new(state), sound_from: AtomicU64::new(0) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn spoil(&self, state: &State) {
        self.sound_from.store(state.epoch + 1, Ordering::Release);
    }

    /// Bytes are sent past the agent.
    pub(super) fn begin(&self) {
        let mut state = self.state();
        state.under_way += 1;
        self.spoil(&state);
    }

    /// They have arrived, or may have.
    pub(super) fn end(&self, now: Time) {
        let mut state = self.state();
        state.under_way -= 1;
        state.last_end = now;
        // They may have arrived in a later epoch than the one in which they were sent.
        self.spoil(&state);
    }

    /// The server has begun a new epoch.
    pub(super) fn begin_epoch(&self, epoch: u64) {
        let mut state = self.state();
        state.epoch = state.epoch.max(epoch);
        if state.under_way > 0 && !mutant("paging.sound-while-bytes-pass") {
            self.spoil(&state);
        }
    }

    /// The write epoch of the region.
    pub(super) fn epoch(&self) -> u64 {
        self.state().epoch
    }

    /// Whether an agent that attached the region in this epoch has nothing old.
    pub(super) fn is_sound(&self, attached_in: u64) -> bool {
        attached_in >= self.sound_from.load(Ordering::Acquire) || mutant("paging.old-bytes-of-the-agent")
    }

    /// Whether nothing has been written past the agent for a while.
    pub(super) fn is_quiet(&self, now: Time) -> bool {
        let state = self.state();
        state.under_way == 0 && now.since(state.last_end) >= PAUSE
    }
}

impl PagedRegion {
    /// The agent's treatment of the region that is asked for. Where the faster way is chosen, writes often pass the
    /// agent by: what it kept would be old.
    pub(super) fn cache_mode(&self) -> CacheMode {
        let is_left_out = self.spec.writable && self.spec.path != Path::Agent;
        if is_left_out { CacheMode::Off } else { self.spec.cache }
    }

    /// Whether the agent may keep bytes of the region that are written here.
    pub(super) fn is_kept_by_agent(&self) -> bool {
        self.spec.writable && self.spec.path == Path::Agent && self.spec.cache != CacheMode::Off
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_is_asked_after_all_that_passed_it_has_arrived() {
        let now = Time::ZERO + Duration::from_secs(1);
        let bypass = Bypass::new(7);
        assert!(bypass.is_sound(7));
        bypass.begin();
        assert!(!bypass.is_sound(7) && !bypass.is_quiet(now));
        // An epoch that begins while bytes are under way may see them arrive.
        bypass.begin_epoch(8);
        assert!(!bypass.is_sound(8));
        bypass.end(now);
        assert!(!bypass.is_sound(8) && !bypass.is_quiet(now));
        let later = now + PAUSE;
        assert!(bypass.is_quiet(later));
        bypass.begin_epoch(9);
        assert!(bypass.is_sound(9) && !bypass.is_sound(8));
        // A late arrival belongs to the epoch in which it arrives.
        bypass.begin();
        assert!(!bypass.is_sound(9));
        bypass.begin_epoch(10);
        bypass.end(later);
        assert!(!bypass.is_sound(10));
        assert_eq!(bypass.epoch(), 10);
    }
}
