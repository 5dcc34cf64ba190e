//! How fast bytes move while they move.

use core::fmt;
use core::time::Duration;

use outboard_steering::{Estimate, Signal, SteeringConfig};
use outboard_wire::Time;

/// Bytes over this are one sample: single transfers are too short to be timed well.
const SAMPLE_BYTES: u64 = 256 << 10;
/// The bytes that costs are given for: the usual chunk.
const UNIT_BYTES: f64 = 65536.0;

/// How long bytes have been moving, however many transfers were under way at once.
#[derive(Clone, Copy, Debug, Default)]
pub struct BusyTime {
    bytes: u64,
    busy: Duration,
    under_way: u32,
    since: Time,
}

impl BusyTime {
    /// A transfer begins.
    pub fn begin(&mut self, now: Time) {
        if self.under_way == 0 {
            self.since = now;
        }
        self.under_way += 1;
    }

    /// A transfer of so many bytes ends; of none if it failed.
    pub fn end(&mut self, now: Time, bytes: u64) {
        self.under_way = self.under_way.saturating_sub(1);
        self.busy += now.since(self.since);
        self.since = now;
        self.bytes += bytes;
    }

    /// The bytes and the time since this was asked last.
    pub fn take(&mut self) -> (u64, Duration) {
        (core::mem::take(&mut self.bytes), core::mem::take(&mut self.busy))
    }
}

/// How fast bytes move while any do.
#[derive(Clone, Debug)]
pub struct ServerMeter {
    signal: Signal,
    bytes: u64,
    busy: Duration,
}

/// Bytes per second.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct ByteRate(pub f64);

impl fmt::Display for ByteRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            rate if rate >= 1e9 => write!(f, "{:.1} GB/s", rate / 1e9),
            rate if rate >= 1e6 => write!(f, "{:.0} MB/s", rate / 1e6),
            rate => write!(f, "{:.0} kB/s", rate / 1e3),
        }
    }
}

impl ServerMeter {
    /// A meter that has measured nothing.
    pub fn new(config: &SteeringConfig) -> Self {
        Self { signal: Signal::new(config), bytes: 0, busy: Duration::ZERO }
    }

    /// So many bytes have moved, and it took so long.
    pub fn add(&mut self, now: Time, bytes: u64, busy: Duration) {
        self.bytes += bytes;
        self.busy += busy;
        if self.bytes >= SAMPLE_BYTES {
            let ns = self.busy.as_nanos() as f64 * UNIT_BYTES / self.bytes as f64;
            self.signal.observe(now, ns.max(1.0));
            (self.bytes, self.busy) = (0, Duration::ZERO);
        }
    }

    /// How long 64 KiB take, in nanoseconds; `None` before enough were moved.
    pub fn cost(&self) -> Option<Estimate> {
        self.signal.estimate()
    }

    /// How many bytes move in a second; `None` before enough were moved.
    pub fn bandwidth(&self) -> Option<ByteRate> {
        self.cost().map(|cost| ByteRate(UNIT_BYTES * 1e9 / cost.value.max(1.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_in_which_nothing_moves_does_not_count() {
        let mut meter = ServerMeter::new(&SteeringConfig::default());
        assert_eq!(meter.bandwidth(), None);
        let (mut now, mut busy) = (Time::ZERO, BusyTime::default());
        for _ in 0..1000 {
            // Two at once for a tenth of the time: 128 KiB in 64 µs.
            busy.begin(now);
            busy.begin(now);
            now += Duration::from_micros(32);
            busy.end(now, 65536);
            now += Duration::from_micros(32);
            busy.end(now, 65536);
            now += Duration::from_micros(600);
            let (bytes, took) = busy.take();
            meter.add(now, bytes, took);
        }
        let ByteRate(rate) = meter.bandwidth().unwrap();
        assert!((rate / 2.048e9 - 1.0).abs() < 0.01, "{rate}");
        assert_eq!(ByteRate(rate).to_string(), "2.0 GB/s");
    }
}
