//! The file of a region that was saved: a header, the parts that are not zero, and an end, each with a checksum.

use thiserror::Error;

use outboard_wire::{CHUNK_LOG2_MAX, CHUNK_LOG2_MIN};

use crate::checksum::checksum_of;
use crate::cursor::Cursor;

/// The version of the format that this build writes, and the only one that it reads.
pub const DUMP_FORMAT: u32 = 1;

/// How long the header is.
pub const DUMP_HEADER_LEN: usize = 32;

/// How long the head of a piece is.
pub const PIECE_HEAD_LEN: usize = 16;

/// The most bytes that a piece has.
pub const PIECE_MAX: usize = 1 << 20;

const MAGIC: [u8; 8] = *b"OUTBREGN";

/// Why a file cannot be read as a saved region.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum DumpError {
    /// It does not begin as one.
    #[error("it is no region that was saved")]
    NoDump,
    /// A build with another format has written it.
    #[error("it has format {found}, and this build reads format {DUMP_FORMAT}: use the build that wrote it")]
    Format {
        /// The format that it has.
        found: u32,
    },
    /// It is not as it was written.
    #[error("it is damaged at byte {at}")]
    Damaged {
        /// Where, in the file.
        at: u64,
    },
    /// It has bytes behind its end.
    #[error("it has bytes behind its end, at byte {at}")]
    TooLong {
        /// Where, in the file.
        at: u64,
    },
}

/// What a saved region is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DumpHeader {
    /// How many bytes it has.
    pub size: u64,
    /// The unit in which it moves, as a power of two.
    pub chunk_log2: u8,
}

impl DumpHeader {
    /// As it begins a file.
    pub fn encode(&self) -> [u8; DUMP_HEADER_LEN] {
        let mut bytes = [0; DUMP_HEADER_LEN];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&DUMP_FORMAT.to_le_bytes());
        bytes[12] = self.chunk_log2;
        bytes[16..24].copy_from_slice(&self.size.to_le_bytes());
        let sum = checksum_of(&[&bytes[..28]]);
        bytes[28..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Reads the beginning of a file.
    pub fn decode(bytes: &[u8; DUMP_HEADER_LEN]) -> Result<Self, DumpError> {
        if bytes[..8] != MAGIC {
            return Err(DumpError::NoDump);
        }
        let format = u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]);
        if bytes[28..] != checksum_of(&[&bytes[..28]]).to_le_bytes() {
            return Err(DumpError::Damaged { at: 0 });
        }
        if format != DUMP_FORMAT {
            return Err(DumpError::Format { found: format });
        }
        let mut rest = Cursor(&bytes[12..28]);
        let damaged = |_| DumpError::Damaged { at: 12 };
        let chunk_log2 = rest.u8().map_err(damaged)?;
        let unused = u32::from(rest.u8().map_err(damaged)?) | u32::from(rest.u16().map_err(damaged)?);
        let size = rest.u64().map_err(damaged)?;
        let unused = unused | rest.u32().map_err(damaged)?;
        let has_unit = (CHUNK_LOG2_MIN..=CHUNK_LOG2_MAX).contains(&chunk_log2);
        if unused != 0 || size == 0 || !has_unit {
            return Err(DumpError::Damaged { at: 12 });
        }
        Ok(Self { size, chunk_log2 })
    }
}

/// The head of a piece of so many bytes.
pub fn piece_head(offset: u64, content: &[u8]) -> [u8; PIECE_HEAD_LEN] {
    let mut head = [0; PIECE_HEAD_LEN];
    head[..8].copy_from_slice(&offset.to_le_bytes());
    head[8..12].copy_from_slice(&(content.len() as u32).to_le_bytes());
    let sum = checksum_of(&[&head[..12], content]);
    head[12..].copy_from_slice(&sum.to_le_bytes());
    head
}

/// The end of a file whose pieces have `written` bytes together.
pub fn end_of_dump(header: &DumpHeader, written: u64) -> [u8; PIECE_HEAD_LEN] {
    let mut end = [0; PIECE_HEAD_LEN];
    end[..8].copy_from_slice(&header.size.to_le_bytes());
    let sum = checksum_of(&[&end[..12], &written.to_le_bytes()]);
    end[12..].copy_from_slice(&sum.to_le_bytes());
    end
}

/// A piece whose content is to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DumpPiece {
    /// Where it belongs in the region.
    pub offset: u64,
    /// How many bytes it has.
    pub len: usize,
    head: [u8; PIECE_HEAD_LEN],
}

/// Checks a file as it is read, piece after piece.
#[derive(Clone, Debug)]
pub struct DumpCheck {
    header: DumpHeader,
    /// Where the next piece may begin in the region.
    next: u64,
    /// How many bytes the pieces have had.
    written: u64,
    /// Where in the file we are.
    at: u64,
}

impl DumpCheck {
    /// Behind the header.
    pub fn new(header: DumpHeader) -> Self {
        Self { header, next: 0, written: 0, at: DUMP_HEADER_LEN as u64 }
    }

    /// How many bytes the pieces have had.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// A file that ends here was cut short.
    pub fn cut_short(&self) -> DumpError {
        DumpError::Damaged { at: self.at }
    }

    /// Bytes that come behind the end.
    pub fn too_long(&self) -> DumpError {
        DumpError::TooLong { at: self.at }
    }

    /// Reads the head of a piece; none at the end of the file.
    pub fn head(&mut self, head: [u8; PIECE_HEAD_LEN]) -> Result<Option<DumpPiece>, DumpError> {
        let damaged = self.cut_short();
        let mut fields = Cursor(&head);
        let (Ok(offset), Ok(len)) = (fields.u64(), fields.u32()) else { return Err(damaged) };
        if len == 0 {
            let is_end = head == end_of_dump(&self.header, self.written);
            self.at += PIECE_HEAD_LEN as u64;
            return if is_end { Ok(None) } else { Err(damaged) };
        }
        let end = offset.checked_add(len.into()).filter(|end| *end <= self.header.size);
        if offset < self.next || end.is_none() || len as usize > PIECE_MAX {
            return Err(damaged);
        }
        Ok(Some(DumpPiece { offset, len: len as usize, head }))
    }

    /// Checks the content of a piece.
    pub fn content(&mut self, piece: &DumpPiece, content: &[u8]) -> Result<(), DumpError> {
        if piece_head(piece.offset, content) != piece.head {
            return Err(self.cut_short());
        }
        self.next = piece.offset + content.len() as u64;
        self.written += content.len() as u64;
        self.at += (PIECE_HEAD_LEN + content.len()) as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: DumpHeader = DumpHeader { size: 1 << 30, chunk_log2: 16 };

    fn dump() -> Vec<u8> {
        let mut bytes = HEADER.encode().to_vec();
        for (offset, content) in [(0, &b"begin"[..]), (77, b"middle"), ((1 << 30) - 3, b"end")] {
            bytes.extend_from_slice(&piece_head(offset, content));
            bytes.extend_from_slice(content);
        }
        bytes.extend_from_slice(&end_of_dump(&HEADER, 14));
        bytes
    }

    fn read(bytes: &[u8]) -> Result<Vec<(u64, Vec<u8>)>, DumpError> {
        let (start, mut rest) = bytes.split_first_chunk().ok_or(DumpError::NoDump)?;
        let mut check = DumpCheck::new(DumpHeader::decode(start)?);
        let mut pieces = Vec::new();
        loop {
            let (head, behind) = rest.split_first_chunk().ok_or(check.cut_short())?;
            let Some(piece) = check.head(*head)? else {
                return if behind.is_empty() { Ok(pieces) } else { Err(check.too_long()) };
            };
            let (content, behind) = behind.split_at_checked(piece.len).ok_or(check.cut_short())?;
            check.content(&piece, content)?;
            pieces.push((piece.offset, content.to_vec()));
            rest = behind;
        }
    }

    #[test]
    fn what_was_saved_is_read_and_nothing_else() {
        let bytes = dump();
        let pieces = read(&bytes).unwrap();
        assert_eq!(pieces.len(), 3);
        assert_eq!(pieces[2], ((1 << 30) - 3, b"end".to_vec()));
        for cut in 0..bytes.len() {
            assert!(read(&bytes[..cut]).is_err(), "cut at {cut}");
        }
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut changed = bytes.clone();
                changed[at] ^= 1 << bit;
                assert!(read(&changed).is_err(), "bit {bit} of byte {at}");
            }
        }
        assert!(matches!(read(&[&bytes[..], &[0]].concat()), Err(DumpError::TooLong { .. })));
        let twice =
            [&bytes[..DUMP_HEADER_LEN], &bytes[DUMP_HEADER_LEN..53], &bytes[DUMP_HEADER_LEN..]].concat();
        assert!(matches!(read(&twice), Err(DumpError::Damaged { .. })));
    }
}
