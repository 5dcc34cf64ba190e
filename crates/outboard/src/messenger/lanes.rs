//! The open bundles, one for each space and rank.

use outboard_driver::routing::Buffers;
use outboard_wire::Rank;
use outboard_wire::routing::MessageHead;

/// An open bundle: where the next message goes, and where it must end. Closed while all are zero.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lane {
    pub(super) at: usize,
    pub(super) end: usize,
    start: usize,
    buffer: u32,
}

impl Lane {
    /// Begins a bundle in a buffer.
    pub(super) fn open(buffers: &Buffers, buffer: u32) -> Self {
        let start = buffers.outgoing().start().as_ptr() as usize + buffers.offset(buffer);
        Self { at: start, end: start + buffers.bundle_bytes(), start, buffer }
    }

    /// Ends it: its buffer and how many bytes it has; none if it is closed or empty.
    pub(super) fn seal(&mut self) -> Option<(u32, u32)> {
        if self.at == self.start {
            return None;
        }
        let sealed = (self.buffer, (self.at - self.start) as u32);
        *self = Self::default();
        Some(sealed)
    }

    /// The buffer of an open bundle.
    pub(super) fn buffer(&self) -> u32 {
        self.buffer
    }

    /// How many bytes are in it.
    pub(super) fn len(&self) -> usize {
        self.at - self.start
    }

    pub(super) fn is_empty(&self) -> bool {
        self.at == self.start
    }

    /// Appends a message of which `write` writes the bytes. Returns false if it does not fit.
    #[inline(always)]
    pub(super) fn append(&mut self, rank: u32, size: usize, write: impl FnOnce(*mut u8)) -> bool {
        let next = self.at + MessageHead::stride(size);
        if next > self.end {
            return false;
        }
        let place = self.at as *mut u8;
        // SAFETY: between the beginning and the end of a buffer that this rank alone writes to, aligned to eight bytes.
        // Other processes only read it, and learn that they may when it is sealed.
        unsafe { place.cast::<u64>().write(MessageHead { size: size as u32, rank: Rank(rank) }.word()) };
        // SAFETY: the bytes behind the head lie in the buffer too.
        write(unsafe { place.add(MessageHead::LEN) });
        self.at = next;
        true
    }

    /// Fills an empty bundle with these bytes, which are no messages, and ends it.
    ///
    /// # Panics
    /// If they do not fit.
    pub(super) fn fill(&mut self, parts: &[&[u8]]) -> (u32, u32) {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        assert!(self.is_empty() && self.start + len <= self.end, "a fragment does not fit into its bundle");
        for part in parts {
            // SAFETY: inside the buffer, as was just checked; it is this rank's alone until it is sealed.
            unsafe { (self.at as *mut u8).copy_from_nonoverlapping(part.as_ptr(), part.len()) };
            self.at += part.len();
        }
        let sealed = (self.buffer, len as u32);
        *self = Self::default();
        sealed
    }
}
