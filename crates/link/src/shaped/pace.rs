//! When a wire is free again.

use outboard_wire::Time;

use super::Bandwidth;

/// One direction of a wire. Times are computed from the beginning of a busy spell, so that rounding to
/// nanoseconds never adds up.
#[derive(Debug)]
pub(super) struct Pace {
    bandwidth: Bandwidth,
    busy_since: Time,
    bytes: u64,
}

impl Pace {
    pub(super) fn new(bandwidth: Bandwidth) -> Self {
        Self { bandwidth, busy_since: Time::ZERO, bytes: 0 }
    }

    fn free_at(&self) -> Time {
        self.busy_since + self.bandwidth.time_for(self.bytes)
    }

    /// Whether everything has left by `now`, without rounding: bytes that take less than a nanosecond count.
    fn is_idle(&self, now: Time) -> bool {
        let passed = now.since(self.busy_since).as_nanos();
        u128::from(self.bytes) * 1_000_000_000 <= passed * u128::from(self.bandwidth.bytes_per_second())
    }

    /// Puts `bytes` on the wire as soon as it is free, not before `now`. Returns when the last has left.
    pub(super) fn occupy(&mut self, now: Time, bytes: u64) -> Time {
        if self.is_idle(now) {
            (self.busy_since, self.bytes) = (now, 0);
        }
        self.bytes = self.bytes.saturating_add(bytes);
        self.free_at()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_wire_does_not_gather_rounding_errors_and_an_idle_one_no_credit() {
        let three_a_nanosecond = Bandwidth::from_bytes_per_second(3_000_000_000).unwrap();
        let mut pace = Pace::new(three_a_nanosecond);
        let last = (0..3_000).map(|_| pace.occupy(Time::ZERO, 1)).last().unwrap();
        assert_eq!(last, Time::from_nanos(1_000));
        assert_eq!(pace.occupy(Time::from_nanos(5_000), 3), Time::from_nanos(5_001));
    }
}
