//! Sizes, durations and percentages as people write them, read and shown exactly.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use outboard_link::quantity::{Part, parse, show};

use crate::ValueError;
use crate::value::Value;

/// A number of bytes, for example `4GiB`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize(pub u64);

/// A share, for example `30%`, exact to a millionth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Percent {
    millionths: u32,
}

/// The units of a size, in bytes, all of them powers of 1024; the largest that fits is shown, of the first five.
const SIZES: [(&str, u128); 14] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("B", 1),
    ("", 1),
    ("T", 1 << 40),
    ("G", 1 << 30),
    ("M", 1 << 20),
    ("K", 1 << 10),
    ("TB", 1 << 40),
    ("GB", 1 << 30),
    ("MB", 1 << 20),
    ("KB", 1 << 10),
];

/// The units of a count.
const COUNTS: [(&str, u128); 7] = [
    ("", 1),
    ("k", 1_000),
    ("M", 1_000_000),
    ("G", 1_000_000_000),
    ("Ki", 1 << 10),
    ("Mi", 1 << 20),
    ("Gi", 1 << 30),
];

/// The units of a duration, in nanoseconds.
const DURATIONS: [(&str, u128); 8] = [
    ("h", 3_600 * NANOS_PER_SECOND),
    ("min", 60 * NANOS_PER_SECOND),
    ("s", NANOS_PER_SECOND),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
    ("µs", 1_000),
    ("m", 60 * NANOS_PER_SECOND),
];

/// The units of a share, in millionths.
const SHARES: [(&str, u128); 2] = [("%", 10_000), ("", 1_000_000)];

const NANOS_PER_SECOND: u128 = 1_000_000_000;

impl ByteSize {
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        let bytes = parse(text, &SIZES).map_err(|part| match part {
            Part::Number => "it does not begin with a number",
            Part::Unit => "its unit is not K, M, G or T, with or without iB or B (100K is 100 KiB)",
            Part::Fraction => "it is not a whole number of bytes",
            Part::Size => "it is too large",
        })?;
        u64::try_from(bytes).map(Self).map_err(|_| "it is too large")
    }
}

impl FromStr for ByteSize {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        Self::parse(text).map_err(|why| <Self as Value>::unfit(text, why))
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("0"),
            bytes => f.write_str(&show(bytes.into(), &SIZES[..5])),
        }
    }
}

impl Percent {
    /// All of it.
    pub const ALL: Self = Self::from_percent(100);

    /// So many hundredths.
    pub const fn from_percent(percent: u16) -> Self {
        Self { millionths: percent as u32 * 10_000 }
    }

    /// As a number: 0.3 for 30 %.
    pub fn as_fraction(self) -> f64 {
        f64::from(self.millionths) / 1e6
    }

    /// This share of `whole`, rounded down.
    pub fn of(self, whole: u64) -> u64 {
        let part = u128::from(whole) * u128::from(self.millionths) / 1_000_000;
        u64::try_from(part).unwrap_or(u64::MAX)
    }

    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        let millionths = parse(text, &SHARES).map_err(|part| match part {
            Part::Number => "it does not begin with a number",
            Part::Unit => "what follows the number is not %",
            Part::Fraction => "it is finer than a millionth",
            Part::Size => "it is too large",
        })?;
        if !text.ends_with('%') && millionths > 1_000_000 {
            return Err("it is over 1 and has no %");
        }
        u32::try_from(millionths).map(|millionths| Self { millionths }).map_err(|_| "it is too large")
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.millionths / 10_000, self.millionths % 10_000);
        if rest == 0 {
            return write!(f, "{whole}%");
        }
        let decimals = format!("{rest:04}");
        write!(f, "{whole}.{}%", decimals.trim_end_matches('0'))
    }
}

/// How many of something: `100000`, `100k`, `2M` or `2Mi`.
pub fn parse_count(text: &str) -> Result<u64, &'static str> {
    let count = parse(text, &COUNTS).map_err(|part| match part {
        Part::Number => "it is no number, such as 1000, 20k, 4M or 4Mi",
        Part::Unit => "its unit is not k, M, G, Ki, Mi or Gi",
        Part::Fraction => "it is not a whole number",
        Part::Size => "it is too large",
    })?;
    u64::try_from(count).map_err(|_| "it is too large")
}

pub(crate) fn parse_duration(text: &str) -> Result<Duration, &'static str> {
    let nanos = parse(text, &DURATIONS).map_err(|part| match part {
        Part::Number => "it does not begin with a number",
        Part::Unit => "its unit is not ns, us, ms, s, min or h",
        Part::Fraction => "it is finer than a nanosecond",
        Part::Size => "it is too long",
    })?;
    let seconds = u64::try_from(nanos / NANOS_PER_SECOND).map_err(|_| "it is too long")?;
    Ok(Duration::new(seconds, (nanos % NANOS_PER_SECOND) as u32))
}

pub(crate) fn show_duration(duration: Duration) -> String {
    match duration {
        Duration::ZERO => "0s".to_owned(),
        duration => show(duration.as_nanos(), &DURATIONS[..6]),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sizes_are_read_in_the_units_that_people_use() {
        for (text, bytes) in [
            ("4GiB", 4 << 30),
            ("64 KiB", 1 << 16),
            ("1.5MiB", 3 << 19),
            ("4096", 4096),
            ("10GB", 10 << 30),
            ("0", 0),
            ("16777215TiB", 16_777_215 << 40),
            ("100kib", 100 << 10),
            ("100KIB", 100 << 10),
            ("100kb", 100 << 10),
            ("100KB", 100 << 10),
            ("100k", 100 << 10),
            ("100K", 100 << 10),
            ("1M", 1 << 20),
            ("1.5g", 3 << 29),
            ("2T", 2 << 40),
        ] {
            assert_eq!(ByteSize::parse(text), Ok(ByteSize(bytes)), "{text}");
        }
        for text in
            ["", "GiB", "4X", "4 iB", "4Gb2", "1.3B", "-1", "1.", ".5GiB", "1e3", "16777216TiB", "1.2.3MiB"]
        {
            assert!(ByteSize::parse(text).is_err(), "{text}");
        }
        assert_eq!(ByteSize(3 << 19).to_string(), "1536KiB");
        assert_eq!(ByteSize(0).to_string(), "0");
    }

    #[test]
    fn counts_have_units_of_two_kinds_in_small_and_capital_letters() {
        let texts = ["0", "17", "2K", "100k", "2Ki", "2ki", "3M", "3m", "3Mi", "1.5M", "1Gi"];
        let counts = texts.map(|text| parse_count(text).unwrap());
        assert_eq!(
            counts,
            [0, 17, 2000, 100_000, 2048, 2048, 3_000_000, 3_000_000, 3 << 20, 1_500_000, 1 << 30]
        );
        for text in ["", "M", "-1", "1.5", "0.0001k", "3 apples", "99999999999G", "1kB"] {
            assert!(parse_count(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations_are_read_in_the_units_that_people_use() {
        for (text, nanos) in [
            ("500ms", 500_000_000),
            ("2s", 2_000_000_000),
            ("1.5 us", 1_500),
            ("20µs", 20_000),
            ("1m", 60_000_000_000),
            ("0s", 0),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_nanos(nanos)), "{text}");
        }
        for text in ["", "5", "s", "0.5ns", "-1s", "1d", "99999999999999999999s"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
        assert_eq!(show_duration(Duration::from_secs(90)), "90s");
        assert_eq!(show_duration(Duration::from_secs(7200)), "2h");
    }

    #[test]
    fn shares_are_read_as_percents_and_as_fractions() {
        for (text, millionths) in [("30%", 300_000), ("0.3", 300_000), ("12.5 %", 125_000), ("1", 1_000_000)]
        {
            assert_eq!(Percent::parse(text), Ok(Percent { millionths }), "{text}");
        }
        assert_eq!(Percent::parse("250%"), Ok(Percent::from_percent(250)));
        for text in ["", "%", "30", "1.5", "30 percent", "0.0000001", "-1%", "999999%"] {
            assert!(Percent::parse(text).is_err(), "{text}");
        }
        assert_eq!(Percent::from_percent(30).of(10), 3);
        assert_eq!(Percent::from_percent(200).of(u64::MAX), u64::MAX);
    }

    proptest! {
        #[test]
        fn a_size_is_read_as_it_is_shown(bytes in any::<u64>(), shift in 0..64u32) {
            for size in [ByteSize(bytes), ByteSize(bytes << shift), ByteSize(bytes >> shift)] {
                prop_assert_eq!(ByteSize::parse(&size.to_string()), Ok(size));
            }
        }

        #[test]
        fn a_duration_is_read_as_it_is_shown(seconds in any::<u64>(), nanos in 0..1_000_000_000u32) {
            for duration in [Duration::new(seconds, nanos), Duration::from_secs(seconds), Duration::new(0, nanos)] {
                prop_assert_eq!(parse_duration(&show_duration(duration)), Ok(duration));
            }
        }

        #[test]
        fn a_share_is_read_as_it_is_shown(millionths in any::<u32>()) {
            let share = Percent { millionths };
            prop_assert_eq!(Percent::parse(&share.to_string()), Ok(share));
        }

        #[test]
        fn no_text_makes_a_reader_panic(text in "[0-9.%a-zA-Zµ +-]{0,40}") {
            let _ = (ByteSize::parse(&text), parse_duration(&text), Percent::parse(&text));
        }
    }
}
