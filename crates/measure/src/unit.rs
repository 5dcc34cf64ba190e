//! What a number counts, and which way it should move.

use serde::Serialize;

/// Which way a number should move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// A rate or a bandwidth.
    Higher,
    /// A time.
    Lower,
}

impl Better {
    /// The better of two numbers.
    pub fn of(self, one: f64, other: f64) -> f64 {
        match self {
            Self::Higher => one.max(other),
            Self::Lower => one.min(other),
        }
    }

    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Higher => "higher is better",
            Self::Lower => "lower is better",
        }
    }
}

/// What a number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Unit {
    /// Frames per second.
    #[serde(rename = "frames/s")]
    FramesPerSecond,
    /// Bytes per second.
    #[serde(rename = "bytes/s")]
    BytesPerSecond,
    /// Bytes that are taken.
    #[serde(rename = "bytes")]
    Bytes,
    /// Bytes that travel together.
    #[serde(rename = "bytes/bundle")]
    BytesPerBundle,
    /// Page faults answered in a second.
    #[serde(rename = "faults/s")]
    FaultsPerSecond,
    /// Messages that were handled in a second.
    #[serde(rename = "messages/s")]
    MessagesPerSecond,
    /// Gets, puts or look-ups that were done in a second.
    #[serde(rename = "operations/s")]
    OperationsPerSecond,
    /// One number over another.
    #[serde(rename = "ratio")]
    Ratio,
    /// One time over another.
    #[serde(rename = "ratio")]
    Slowdown,
    /// Nanoseconds.
    #[serde(rename = "ns")]
    Nanoseconds,
    /// Milliseconds.
    #[serde(rename = "ms")]
    Milliseconds,
    /// Moves of slots.
    #[serde(rename = "shifts")]
    Shifts,
    /// Processor time over time: 1 is one core that does nothing else.
    #[serde(rename = "cores")]
    Cores,
}

impl Unit {
    /// Which way numbers of this unit should move.
    pub fn better(self) -> Better {
        match self {
            Self::FramesPerSecond
            | Self::FaultsPerSecond
            | Self::MessagesPerSecond
            | Self::OperationsPerSecond
            | Self::BytesPerSecond
            | Self::BytesPerBundle
            | Self::Ratio => Better::Higher,
            Self::Nanoseconds
            | Self::Milliseconds
            | Self::Cores
            | Self::Bytes
            | Self::Slowdown
            | Self::Shifts => Better::Lower,
        }
    }

    /// A number of this unit as people read it.
    pub fn show(self, value: f64) -> String {
        let (steps, unit): (&[(f64, &str)], _) = match self {
            Self::Milliseconds => return Self::Nanoseconds.show(value * 1e6),
            Self::Ratio | Self::Slowdown => return format!("{value:.2}"),
            Self::Cores => return format!("{value:.5} cores"),
            Self::Shifts => return format!("{value:.0} shifts"),
            Self::FramesPerSecond => (&[(1e9, "G"), (1e6, "M"), (1e3, "k")], "frames/s"),
            Self::FaultsPerSecond => (&[(1e9, "G"), (1e6, "M"), (1e3, "k")], "faults/s"),
            Self::MessagesPerSecond => (&[(1e9, "G"), (1e6, "M"), (1e3, "k")], "messages/s"),
            Self::OperationsPerSecond => (&[(1e9, "G"), (1e6, "M"), (1e3, "k")], "ops/s"),
            Self::Bytes | Self::BytesPerBundle => (&[(1e9, "G"), (1e6, "M"), (1e3, "k")], "B"),
            Self::BytesPerSecond => (&[(1e9, "G"), (1e6, "M"), (1e3, "k")], "B/s"),
            Self::Nanoseconds => (&[(1e9, ""), (1e6, "m"), (1e3, "µ"), (1.0, "n")], "s"),
        };
        let step = steps.iter().find(|(size, _)| value >= *size);
        let (size, prefix) = step.copied().unwrap_or((1.0, if unit == "s" { "n" } else { "" }));
        format!("{:.2} {prefix}{unit}", value / size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shown_at_their_size() {
        assert_eq!(Unit::Nanoseconds.show(0.5), "0.50 ns");
        assert_eq!(Unit::Nanoseconds.show(12_345.0), "12.35 µs");
        assert_eq!(Unit::Nanoseconds.show(2e9), "2.00 s");
        assert_eq!(Unit::BytesPerSecond.show(2.5e9), "2.50 GB/s");
        assert_eq!(Unit::FramesPerSecond.show(12.0), "12.00 frames/s");
        assert_eq!(Unit::Milliseconds.show(0.25), "250.00 µs");
        assert_eq!(Unit::Cores.show(0.01), "0.01000 cores");
    }
}
