//! Numbers as people read them.

use std::time::Duration;

/// A number of bytes: `1.5 GiB`.
pub(crate) fn bytes(bytes: u64) -> String {
    const UNITS: [(&str, u32); 4] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    match UNITS.iter().find(|(_, log2)| bytes >> log2 > 0) {
        None => format!("{bytes} B"),
        Some((unit, log2)) => {
            let value = bytes as f64 / (1u64 << log2) as f64;
            format!("{} {unit}", short(value))
        }
    }
}

/// So many bytes in a second: `1.50 GB/s`.
pub(crate) fn bandwidth(bytes: u64, took: Duration) -> String {
    const UNITS: [(&str, f64); 3] = [("GB/s", 1e9), ("MB/s", 1e6), ("kB/s", 1e3)];
    let rate = bytes as f64 / took.as_secs_f64().max(1e-9);
    let (unit, size) = UNITS.iter().find(|(_, size)| rate >= *size).copied().unwrap_or(("B/s", 1.0));
    format!("{} {unit}", short(rate / size))
}

/// A short time: `12.3 µs`.
pub(crate) fn time(time: Duration) -> String {
    const UNITS: [(&str, f64); 3] = [("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)];
    let seconds = time.as_secs_f64();
    let (unit, size) = UNITS.iter().find(|(_, size)| seconds >= *size).copied().unwrap_or(("ns", 1e-9));
    format!("{} {unit}", short(seconds / size))
}

/// A long time: `2 h 5 min`.
pub(crate) fn uptime(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds @ 60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        seconds @ 3600..86_400 => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        seconds => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

/// Three digits that count, and none after the point of a whole number.
fn short(value: f64) -> String {
    let is_whole = (value - value.round()).abs() < 1e-6;
    match value {
        ..10.0 if !is_whole => format!("{value:.2}"),
        ..100.0 if !is_whole => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shown_at_their_size() {
        assert_eq!((bytes(0), bytes(1023), bytes(1 << 10)), ("0 B".into(), "1023 B".into(), "1 KiB".into()));
        assert_eq!((bytes(3 << 29), bytes(12_345_678)), ("1.50 GiB".into(), "11.8 MiB".into()));
        assert_eq!(bandwidth(3_000_000_000, Duration::from_secs(2)), "1.50 GB/s");
        assert_eq!(time(Duration::from_nanos(12_345)), "12.3 µs");
        assert_eq!(
            (time(Duration::from_nanos(7)), time(Duration::from_secs(3))),
            ("7 ns".into(), "3 s".into())
        );
        let uptimes = [5, 61, 3661, 90_000].map(|seconds| uptime(Duration::from_secs(seconds)));
        assert_eq!(uptimes, ["5 s", "1 min 1 s", "1 h 1 min", "1 d 1 h"]);
    }
}
