//! How fast a wire is, and how people write it.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;
use std::time::Duration;

use thiserror::Error;

use crate::quantity::{self, Part};

/// How much a wire carries in a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bandwidth(NonZeroU64);

/// A wire to imitate, for example `10gbit,5us`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Wire {
    /// How much it carries, in one direction.
    pub bandwidth: Bandwidth,
    /// How long a byte is under way, in one direction.
    pub latency: Duration,
}

/// Why a text describes no wire.
#[derive(Clone, PartialEq, Eq, Error)]
#[error("“{text}” is no wire: {why}; write bandwidth,latency, for example 10gbit,5us or 1.5GB,800ns")]
pub struct WireError {
    text: String,
    why: &'static str,
}

outboard_wire::debug_with_causes!(WireError);

/// The units of a bandwidth, in bits a second.
const BANDWIDTHS: [(&str, u128); 8] = [
    ("gbit", 1_000_000_000),
    ("mbit", 1_000_000),
    ("kbit", 1_000),
    ("bit", 1),
    ("GB", 8_000_000_000),
    ("MB", 8_000_000),
    ("kB", 8_000),
    ("B", 8),
];

/// The units of a latency, in nanoseconds.
const LATENCIES: [(&str, u128); 5] =
    [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1), ("µs", 1_000)];

const NANOS_PER_SECOND: u128 = 1_000_000_000;

impl Bandwidth {
    /// A wire that carries `bytes` in a second; `None` if that is nothing.
    pub const fn from_bytes_per_second(bytes: u64) -> Option<Self> {
        match NonZeroU64::new(bytes) {
            Some(bytes) => Some(Self(bytes)),
            None => None,
        }
    }

    /// How many bytes it carries in a second.
    pub const fn bytes_per_second(self) -> u64 {
        self.0.get()
    }

    /// How long `bytes` take, without the latency.
    pub fn time_for(self, bytes: u64) -> Duration {
        let nanos = u128::from(bytes) * NANOS_PER_SECOND / u128::from(self.0.get());
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

impl FromStr for Wire {
    type Err = WireError;

    fn from_str(text: &str) -> Result<Self, WireError> {
        let error = |why| WireError { text: text.to_owned(), why };
        let (bandwidth, latency) = text.split_once(',').ok_or_else(|| error("the latency is missing"))?;
        Ok(Self {
            bandwidth: parse_bandwidth(bandwidth.trim()).map_err(error)?,
            latency: parse_latency(latency.trim()).map_err(error)?,
        })
    }
}

fn parse_bandwidth(text: &str) -> Result<Bandwidth, &'static str> {
    let bits = quantity::parse(text, &BANDWIDTHS).map_err(|part| match part {
        Part::Number => "its bandwidth does not begin with a number",
        Part::Unit => "its bandwidth is not in bit, kbit, mbit, gbit, B, kB, MB or GB",
        Part::Fraction => "its bandwidth is not a whole number of bytes a second",
        Part::Size => "its bandwidth is too large",
    })?;
    if bits % 8 != 0 {
        return Err("its bandwidth is not a whole number of bytes a second");
    }
    let bytes = u64::try_from(bits / 8).map_err(|_| "its bandwidth is too large")?;
    Bandwidth::from_bytes_per_second(bytes).ok_or("its bandwidth is zero")
}

fn parse_latency(text: &str) -> Result<Duration, &'static str> {
    let nanos = quantity::parse(text, &LATENCIES).map_err(|part| match part {
        Part::Number => "its latency does not begin with a number",
        Part::Unit => "its latency is not in ns, us, ms or s",
        Part::Fraction => "its latency is finer than a nanosecond",
        Part::Size => "its latency is too long",
    })?;
    u64::try_from(nanos).map(Duration::from_nanos).map_err(|_| "its latency is too long")
}

impl fmt::Display for Bandwidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&quantity::show(u128::from(self.0.get()) * 8, &BANDWIDTHS))
    }
}

impl fmt::Display for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.bandwidth, quantity::show(self.latency.as_nanos(), &LATENCIES))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn wires_are_read_in_the_units_that_people_use() {
        for (text, bytes, nanos) in [
            ("10gbit,5us", 1_250_000_000, 5_000),
            ("1.5GB,800ns", 1_500_000_000, 800),
            ("2.5gbit, 1.25ms", 312_500_000, 1_250_000),
            ("8bit,0s", 1, 0),
            ("100 MB,3 µs", 100_000_000, 3_000),
            ("10Gbit,5US", 1_250_000_000, 5_000),
        ] {
            let wire: Wire = text.parse().unwrap();
            assert_eq!(wire.bandwidth.bytes_per_second(), bytes, "{text}");
            assert_eq!(wire.latency, Duration::from_nanos(nanos), "{text}");
        }
        assert_eq!("1250MB,5000ns".parse::<Wire>().unwrap().to_string(), "10gbit,5us");
    }

    #[test]
    fn what_is_no_wire_says_why() {
        for (text, why) in [
            ("10gbit", "latency is missing"),
            ("gbit,5us", "does not begin with a number"),
            ("1.gbit,5us", "does not begin with a number"),
            ("1.2.3gbit,5us", "does not begin with a number"),
            ("10gib,5us", "not in bit, kbit"),
            ("10,5us", "not in bit, kbit"),
            ("12bit,5us", "whole number of bytes"),
            ("0gbit,5us", "is zero"),
            ("99999999999999999999999GB,5us", "too large"),
            ("99999999999999999999999999999999999999999B,5us", "too large"),
            ("10gbit,5", "not in ns, us"),
            ("10gbit,-5us", "does not begin with a number"),
            ("10gbit,0.1ns", "finer than a nanosecond"),
            ("10gbit,99999999999s", "too long"),
        ] {
            let error = text.parse::<Wire>().unwrap_err().to_string();
            assert!(error.contains(why) && error.contains("10gbit,5us"), "{error}");
        }
    }

    #[test]
    fn bytes_take_their_time() {
        let bandwidth = Bandwidth::from_bytes_per_second(1_250_000_000).unwrap();
        assert_eq!(bandwidth.time_for(1_250), Duration::from_micros(1));
        assert_eq!(bandwidth.time_for(u64::MAX / 2).as_secs(), u64::MAX / 2 / 1_250_000_000);
    }

    proptest! {
        #[test]
        fn a_wire_is_read_as_it_is_shown(bytes in 1..=u64::MAX, nanos in any::<u64>(), even in any::<bool>()) {
            let bytes = if even { (bytes / 1_000_000).max(1) * 1_000 } else { bytes };
            let bandwidth = Bandwidth::from_bytes_per_second(bytes).unwrap();
            let wire = Wire { bandwidth, latency: Duration::from_nanos(nanos) };
            prop_assert_eq!(wire.to_string().parse::<Wire>(), Ok(wire));
        }

        #[test]
        fn no_text_makes_the_reader_panic(text in "[0-9.,a-zµ ]{0,24}") {
            let _ = text.parse::<Wire>();
        }
    }
}
