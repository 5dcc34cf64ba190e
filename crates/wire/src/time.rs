//! Points on a process's monotonic clock.

use core::fmt;
use core::ops::{Add, AddAssign, Sub};
use core::time::Duration;

/// A point on one process's monotonic clock, in nanoseconds since that clock began.
///
/// State machines take it as an argument and never read a clock themselves, so a simulation can supply
/// virtual time. It is meaningless in another process and never travels on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// When the clock began.
    pub const ZERO: Self = Self(0);
    /// Later than every other point: "never".
    pub const MAX: Self = Self(u64::MAX);

    /// The point `nanos` nanoseconds after the clock began.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the clock began.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// How long after `earlier` this point lies, or `None` if it lies before it.
    pub const fn checked_since(self, earlier: Self) -> Option<Duration> {
        match self.0.checked_sub(earlier.0) {
            Some(nanos) => Some(Duration::from_nanos(nanos)),
            None => None,
        }
    }

    /// How long after `earlier` this point lies; zero if it lies before it.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Time {
    type Output = Self;

    /// Saturates at [`Time::MAX`], so that an endless timeout is simply never reached.
    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl AddAssign<Duration> for Time {
    fn add_assign(&mut self, span: Duration) {
        *self = *self + span;
    }
}

impl Sub for Time {
    type Output = Duration;

    /// As [`Time::since`]: saturates at zero.
    fn sub(self, earlier: Self) -> Duration {
        self.since(earlier)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}s", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        assert_eq!(Time::MAX + Duration::from_secs(1), Time::MAX);
        assert_eq!(Time::ZERO - Time::from_nanos(5), Duration::ZERO);
        assert_eq!(Time::from_nanos(7).checked_since(Time::from_nanos(9)), None);
        assert_eq!(Time::from_nanos(9).since(Time::from_nanos(7)), Duration::from_nanos(2));
    }
}
