//! The bytes of a journal.

use thiserror::Error;

use crate::checksum::checksum;
use crate::cursor::Cursor;
use crate::{JournalRecord, KeptState};

/// The version of the format that this build writes, and the only one that it reads.
pub const FORMAT: u32 = 1;

/// How long the header is.
pub const HEADER_LEN: usize = 16;

/// The longest content of a record.
pub const RECORD_MAX: usize = 2 << 20;

const MAGIC: [u8; 8] = *b"OUTBKEEP";

/// The head of a record: length of its content, its number, checksum of that, checksum of the content.
const HEAD_LEN: usize = 16;

/// Why a journal cannot be read.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum JournalError {
    /// It does not begin as a journal does.
    #[error("it is no journal of a memory server")]
    NoJournal,
    /// A build with another format has written it.
    #[error("it has format {found}, and this build reads format {FORMAT}: use the build that wrote it")]
    Format {
        /// The format that it has.
        found: u32,
    },
    /// It was damaged, and not by being cut short.
    #[error(
        "it is damaged at byte {offset}: bring an intact copy of the folder back; or cut the journal off there (`truncate -s {offset}`), \
         which gives up what was noted afterwards"
    )]
    Damaged {
        /// Where.
        offset: usize,
    },
}

/// What a journal says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalReading {
    /// What its records add up to.
    pub state: KeptState,
    /// How many there are.
    pub records: u32,
    /// Where the next one belongs: what is behind it was cut short by a crash.
    pub len: usize,
}

/// How a journal begins.
pub fn header() -> [u8; HEADER_LEN] {
    let mut header = [0; HEADER_LEN];
    header[..8].copy_from_slice(&MAGIC);
    header[8..12].copy_from_slice(&FORMAT.to_le_bytes());
    let sum = checksum(&header[..12]);
    header[12..].copy_from_slice(&sum.to_le_bytes());
    header
}

/// Appends the record of this number.
pub fn append(number: u32, record: &JournalRecord, into: &mut Vec<u8>) {
    let at = into.len();
    into.resize(at + HEAD_LEN, 0);
    record.encode(into);
    let content = checksum(&into[at + HEAD_LEN..]);
    let len = (into.len() - at - HEAD_LEN) as u32;
    let head = &mut into[at..at + HEAD_LEN];
    head[..4].copy_from_slice(&len.to_le_bytes());
    head[4..8].copy_from_slice(&number.to_le_bytes());
    head[12..].copy_from_slice(&content.to_le_bytes());
    let sum = head_sum(head);
    head[8..12].copy_from_slice(&sum.to_le_bytes());
}

/// The checksum of a head, but for itself.
fn head_sum(head: &[u8]) -> u32 {
    let mut without = [0; HEAD_LEN];
    without.copy_from_slice(head);
    without[8..12].fill(0);
    checksum(&without)
}

/// One look at the bytes behind the last record.
enum Next {
    Record(JournalRecord, usize),
    /// There is none, or it was cut short.
    End,
    Damaged,
}

fn next(rest: &[u8], number: u32) -> Next {
    // Room that was taken for records to come is zero.
    if rest.len() < HEAD_LEN || rest.iter().all(|byte| *byte == 0) {
        return Next::End;
    }
    let head = &rest[..HEAD_LEN];
    let mut fields = Cursor(head);
    let (Ok(len), Ok(found), Ok(sum), Ok(content_sum)) =
        (fields.u32(), fields.u32(), fields.u32(), fields.u32())
    else {
        return Next::Damaged;
    };
    if sum != head_sum(head) || found != number || len as usize > RECORD_MAX {
        return Next::Damaged;
    }
    let Some(content) = rest[HEAD_LEN..].get(..len as usize) else { return Next::End };
    // The room behind a record that was cut short is zero from there on.
    if checksum(content) != content_sum {
        return Next::Damaged;
    }
    match JournalRecord::decode(content) {
        Ok(record) => Next::Record(record, HEAD_LEN + content.len()),
        Err(_) => Next::Damaged,
    }
}

/// Reads a journal.
///
/// # Errors
/// If it is none, has another format, or is damaged. One that was cut short is not.
pub fn read(bytes: &[u8]) -> Result<JournalReading, JournalError> {
    let Some(start) = bytes.get(..HEADER_LEN) else { return Err(JournalError::NoJournal) };
    if start[..8] != MAGIC {
        return Err(JournalError::NoJournal);
    }
    let format = u32::from_le_bytes([start[8], start[9], start[10], start[11]]);
    if start[12..] != checksum(&start[..12]).to_le_bytes() {
        return Err(JournalError::Damaged { offset: 8 });
    }
    if format != FORMAT {
        return Err(JournalError::Format { found: format });
    }
    let mut reading = JournalReading { state: KeptState::new(), records: 0, len: HEADER_LEN };
    loop {
        let damaged = JournalError::Damaged { offset: reading.len };
        match next(&bytes[reading.len..], reading.records) {
            Next::Record(record, len) => {
                reading.state.try_apply(&record).map_err(|_| damaged.clone())?;
                if matches!(record, JournalRecord::Region(_)) && !reading.state.names_differ() {
                    return Err(damaged);
                }
                (reading.records, reading.len) = (reading.records + 1, reading.len + len);
            }
            Next::End => return Ok(reading),
            Next::Damaged => return Err(damaged),
        }
    }
}
