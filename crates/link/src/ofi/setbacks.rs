//! When to try again what came to nothing.

use std::time::Duration;

use outboard_wire::Time;

/// How long to wait after the first setback.
const WAIT_MIN: Duration = Duration::from_secs(2);
/// How long at most.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// Setbacks in a row: after each the wait is twice as long.
#[derive(Debug)]
pub(super) struct Setbacks {
    next_try: Time,
    wait: Duration,
}

impl Setbacks {
    pub(super) const NONE: Self = Self { next_try: Time::ZERO, wait: WAIT_MIN };

    #[inline]
    pub(super) fn may_try(&self, now: Time) -> bool {
        now >= self.next_try
    }

    /// It came to nothing.
    pub(super) fn add(&mut self, now: Time) {
        self.next_try = now + self.wait;
        self.wait = (self.wait * 2).min(WAIT_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_wait_is_twice_as_long_up_to_a_minute() {
        let (mut setbacks, mut now) = (Setbacks::NONE, Time::ZERO);
        assert!(setbacks.may_try(now));
        for seconds in [2, 4, 8, 16, 32, 60, 60] {
            setbacks.add(now);
            now += Duration::from_secs(seconds);
            assert!(setbacks.may_try(now) && !setbacks.may_try(Time::from_nanos(now.as_nanos() - 1)));
        }
    }
}
