//! How long the turns of an event loop take, for threads that watch it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use outboard_wire::Time;

use crate::mailbox::Bell;

/// The pulse of one event loop: its own thread writes it, any other may read it.
#[derive(Debug)]
pub struct Pulse {
    /// When the turn under way began, in nanoseconds; zero while the thread sleeps.
    began_ns: AtomicU64,
    longest_ns: AtomicU64,
    /// The bell that wakes the thread, and since when it has been rung without an answer; zero if it has not.
    bell: Arc<Bell>,
    rung_ns: AtomicU64,
}

impl Pulse {
    /// The pulse of a thread that this bell wakes, and that then turns.
    pub(crate) fn new(bell: Arc<Bell>) -> Self {
        let [began_ns, longest_ns, rung_ns] = [const { AtomicU64::new(0) }; 3];
        Self { began_ns, longest_ns, bell, rung_ns }
    }

    /// Wakes a thread that sleeps. Until it turns, it counts as under way: a thread that was stopped in its sleep shows.
    pub fn ring(&self, now: Time) {
        if self.under_way(now).is_none() {
            self.rung_ns.store(now.as_nanos().max(1), Ordering::Relaxed);
            self.bell.ring();
        }
    }

    /// The turn under way is over, and the next one begins.
    #[inline]
    pub fn turn(&self, now: Time) {
        self.end(now);
        self.began_ns.store(now.as_nanos().max(1), Ordering::Relaxed);
        if self.rung_ns.load(Ordering::Relaxed) != 0 {
            self.rung_ns.store(0, Ordering::Relaxed);
        }
    }

    /// The turn under way is over, and the thread goes to sleep.
    pub fn rest(&self, now: Time) {
        self.end(now);
        self.began_ns.store(0, Ordering::Relaxed);
    }

    #[inline]
    fn end(&self, now: Time) {
        let took = since(&self.began_ns, now).unwrap_or_default().as_nanos() as u64;
        if took > self.longest_ns.load(Ordering::Relaxed) {
            self.longest_ns.store(took, Ordering::Relaxed);
        }
    }

    /// How long the turn under way has taken, or the thread has not answered the bell; `None` while it sleeps.
    #[inline]
    pub fn under_way(&self, now: Time) -> Option<Duration> {
        since(&self.began_ns, now).or_else(|| since(&self.rung_ns, now))
    }

    /// How long the longest turn has taken, the one under way included.
    pub fn longest(&self, now: Time) -> Duration {
        let ended = Duration::from_nanos(self.longest_ns.load(Ordering::Relaxed));
        ended.max(since(&self.began_ns, now).unwrap_or_default())
    }
}

#[inline]
fn since(began_ns: &AtomicU64, now: Time) -> Option<Duration> {
    match began_ns.load(Ordering::Relaxed) {
        0 => None,
        began => Some(now.since(Time::from_nanos(began))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mailbox::Mailbox;

    #[test]
    fn a_thread_that_does_not_wake_shows() {
        let at = |ms| Time::ZERO + Duration::from_millis(ms);
        let mailbox = Mailbox::<()>::new().unwrap();
        let pulse = mailbox.pulse();
        pulse.ring(at(10));
        assert!(mailbox.is_filled() && mailbox.take().is_empty());
        pulse.ring(at(500));
        assert!(!mailbox.is_filled(), "it is rung once");
        assert_eq!(pulse.under_way(at(1510)), Some(Duration::from_millis(1500)));
        pulse.turn(at(1600));
        pulse.rest(at(1601));
        assert_eq!((pulse.under_way(at(1700)), pulse.longest(at(1700))), (None, Duration::from_millis(1)));
    }

    #[test]
    fn the_longest_turn_is_known_and_sleep_is_no_turn() {
        let at = |ms| Time::ZERO + Duration::from_millis(ms);
        let pulse = Mailbox::<()>::new().unwrap().pulse();
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
