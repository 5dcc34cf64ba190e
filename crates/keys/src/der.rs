//! As much of the encoding of certificates as it takes to find a name and two dates.

use time::{Date, Month, OffsetDateTime, Time};

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT: u8 = 0x06;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const VERSION: u8 = 0xa0;
/// The kind of name that a common name is: 2.5.4.3.
const COMMON_NAME: [u8; 3] = [0x55, 0x04, 0x03];

/// What follows in some bytes.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// The next value: its tag and its bytes.
    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (&tag, rest) = self.0.split_first()?;
        let (&first, mut rest) = rest.split_first()?;
        let mut len = usize::from(first);
        if first & 0x80 != 0 {
            let count = usize::from(first & 0x7f);
            let bytes = rest.get(..count).filter(|_| (1..=4).contains(&count))?;
            len = bytes.iter().fold(0, |len, byte| len << 8 | usize::from(*byte));
            rest = &rest[count..];
        }
        let value = rest.get(..len)?;
        self.0 = &rest[len..];
        Some((tag, value))
    }

    fn expect(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.next().filter(|(found, _)| *found == tag).map(|(_, value)| value)
    }
}

/// The common name of whom a certificate is for, and from when to when it is valid.
pub(crate) fn read(certificate: &[u8]) -> Option<(String, OffsetDateTime, OffsetDateTime)> {
    let mut outer = Reader(Reader(certificate).expect(SEQUENCE)?);
    let mut fields = Reader(outer.expect(SEQUENCE)?);
    if fields.0.first() == Some(&VERSION) {
        fields.next()?;
    }
    // Serial number, algorithm, issuer.
    for _ in 0..3 {
        fields.next()?;
    }
    let mut validity = Reader(fields.expect(SEQUENCE)?);
    let (from, until) = (date(validity.next()?)?, date(validity.next()?)?);
    Some((common_name(fields.expect(SEQUENCE)?), from, until))
}

/// Empty if there is none.
fn common_name(names: &[u8]) -> String {
    let mut names = Reader(names);
    while let Some(set) = names.expect(SET) {
        let mut set = Reader(set);
        while let Some(pair) = set.expect(SEQUENCE) {
            let mut pair = Reader(pair);
            if pair.expect(OBJECT) == Some(&COMMON_NAME)
                && let Some((_, value)) = pair.next()
            {
                let text = String::from_utf8_lossy(value);
                return text.chars().filter(|letter| !letter.is_control()).collect();
            }
        }
    }
    String::new()
}

/// `YYMMDDHHMMSSZ`, or with four digits for the year.
fn date((tag, text): (u8, &[u8])) -> Option<OffsetDateTime> {
    let text = std::str::from_utf8(text).ok()?.strip_suffix('Z').filter(|text| text.is_ascii())?;
    let (year, rest) = match tag {
        UTC_TIME => {
            let (year, rest) = text.split_at_checked(2)?;
            let year: i32 = year.parse().ok()?;
            (if year < 50 { 2000 + year } else { 1900 + year }, rest)
        }
        GENERALIZED_TIME => {
            let (year, rest) = text.split_at_checked(4)?;
            (year.parse().ok()?, rest)
        }
        _ => return None,
    };
    let two = |at: usize| rest.get(at..at + 2)?.parse::<u8>().ok();
    let date = Date::from_calendar_date(year, Month::try_from(two(0)?).ok()?, two(2)?).ok()?;
    let time = Time::from_hms(two(4)?, two(6)?, two(8)?).ok()?;
    Some(OffsetDateTime::new_utc(date, time))
}
