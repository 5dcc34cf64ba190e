//! How long the turns of an event loop take, for threads that watch it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use outboard_wire::Time;

/// The pulse of one event loop: its own thread writes it, any other may read it.
#[derive(Debug, Default)]
pub struct Pulse {
    /// When the turn under way began, in nanoseconds; zero while the thread sleeps.
    began_ns: AtomicU64,
    longest_ns: AtomicU64,
}

impl Pulse {
    /// The turn under way is over, and the next one begins.
    #[inline]
    pub fn turn(&self, now: Time) {
        self.end(now);
        self.began_ns.store(now.as_nanos().max(1), Ordering::Relaxed);
    }

    /// The turn under way is over, and the thread goes to sleep.
    pub fn rest(&self, now: Time) {
        self.end(now);
        self.began_ns.store(0, Ordering::Relaxed);
    }

    #[inline]
    fn end(&self, now: Time) {
        let took = self.under_way(now).unwrap_or_default().as_nanos() as u64;
        if took > self.longest_ns.load(Ordering::Relaxed) {
            self.longest_ns.store(took, Ordering::Relaxed);
        }
    }

    /// How long the turn under way has taken; `None` while the thread sleeps.
    #[inline]
    pub fn under_way(&self, now: Time) -> Option<Duration> {
        match self.began_ns.load(Ordering::Relaxed) {
            0 => None,
            began => Some(now.since(Time::from_nanos(began))),
        }
    }

    /// How long the longest turn has taken, the one under way included.
    pub fn longest(&self, now: Time) -> Duration {
        let ended = Duration::from_nanos(self.longest_ns.load(Ordering::Relaxed));
        ended.max(self.under_way(now).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_turn_is_known_and_sleep_is_no_turn() {
        let at = |ms| Time::ZERO + Duration::from_millis(ms);
        let pulse = Pulse::default();
        assert_eq!((pulse.under_way(at(5)), pulse.longest(at(5))), (None, Duration::ZERO));
        pulse.turn(at(10));
        pulse.turn(at(13));
        pulse.rest(at(14));
        pulse.turn(at(1000));
        assert_eq!(pulse.longest(at(1001)), Duration::from_millis(3));
        assert_eq!(pulse.under_way(at(1500)), Some(Duration::from_millis(500)));
        assert_eq!(pulse.longest(at(1500)), Duration::from_millis(500), "one that does not end counts");
    }
}
