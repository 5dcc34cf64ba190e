//! The journal by which a memory server finds its regions again after a restart: records, checksums, and the state that they
//! add up to; and the file of a region that was saved. It does no I/O; the memory server writes and reads the bytes.
//!
//! A journal begins with a header that has the version of its format. Behind it are records, each with its number and two
//! checksums, one of its head and one of its content. So a journal that a crash has cut short is told from one that was damaged:
//! of the first, the records before the cut count; the second is refused as a whole, for what comes after the damage may have
//! been acknowledged.
#![forbid(unsafe_code)]

mod checksum;
mod cursor;
mod dump;
mod journal;
mod record;
mod state;
#[cfg(test)]
mod tests;

pub use dump::{
    DUMP_FORMAT, DUMP_HEADER_LEN, DumpCheck, DumpError, DumpHeader, DumpPiece, PIECE_HEAD_LEN, PIECE_MAX,
    end_of_dump, piece_head,
};
pub use journal::{FORMAT, HEADER_LEN, JournalError, JournalReading, RECORD_MAX, append, header, read};
pub use record::{JournalRecord, KeptHolder, KeptRegion, ServerLife, StorePlace};
pub use state::KeptState;
