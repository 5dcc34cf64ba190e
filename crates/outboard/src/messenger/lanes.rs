//! The open bundles, one for each space and rank.
//!
//! As long as all messages of a bundle are of one size, none has a head: for messages of eight bytes that is half of what is
//! written, travels and is read. The first one of another size gives all of them heads.

use outboard_routing::Buffers;
use outboard_wire::Rank;
use outboard_wire::routing::{Form, MessageHead};

/// Stands for the size of messages that have heads, and of none.
const MIXED: u32 = u32::MAX;
const NONE_YET: u32 = u32::MAX - 1;

/// An open bundle: where the next message goes, and where it must end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lane {
    at: usize,
    end: usize,
    start: usize,
    buffer: u32,
    /// The size that all messages have so far.
    size: u32,
}

impl Lane {
    /// A lane without a bundle.
    pub(super) const CLOSED: Self = Self { at: 0, end: 0, start: 0, buffer: 0, size: NONE_YET };

    /// Begins a bundle in a buffer.
    pub(super) fn open(buffers: &Buffers, buffer: u32) -> Self {
        let start = buffers.outgoing().start().as_ptr() as usize + buffers.offset(buffer);
        Self { at: start, end: start + buffers.bundle_bytes(), start, buffer, size: NONE_YET }
    }

    /// Ends it: its buffer, how many bytes it has and what they are; none if it is closed or empty.
    pub(super) fn seal(&mut self) -> Option<((u32, u32), Form)> {
        if self.at == self.start {
            return None;
        }
        let form = u16::try_from(self.size).map_or(Form::Messages, Form::Equal);
        let sealed = (self.buffer, self.len() as u32);
        *self = Self::CLOSED;
        Some((sealed, form))
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

    /// How long a message of any size can be that still fits.
    pub(super) fn remaining(&self) -> usize {
        let used = self.len() + self.missing_heads();
        (self.end - self.start).saturating_sub(used + MessageHead::LEN)
    }

    /// How many bytes the heads would take that messages of one size do not have.
    fn missing_heads(&self) -> usize {
        match u16::try_from(self.size) {
            Ok(size) => self.len() / Form::stride(size) * MessageHead::LEN,
            Err(_) => 0,
        }
    }

    /// Appends a message of which `write` writes the bytes. Returns false if it does not fit.
    #[inline(always)]
    pub(super) fn append(&mut self, rank: u32, size: usize, write: impl FnOnce(*mut u8)) -> bool {
        if self.size != size as u32 && !self.prepare(rank, size) {
            return false;
        }
        let mut place = self.at as *mut u8;
        if self.size == MIXED {
            let next = self.at + MessageHead::stride(size);
            if next > self.end {
                return false;
            }
            let head = MessageHead { size: size as u32, rank: Rank(rank) };
            // SAFETY: between the beginning and the end of a buffer that this rank alone writes to, aligned to eight bytes.
            // Other processes only read it, and learn that they may when it is sealed.
            unsafe { place.cast::<u64>().write(head.word()) };
            // SAFETY: the bytes behind the head lie in the buffer too.
            place = unsafe { place.add(MessageHead::LEN) };
            self.at = next;
        } else {
            let next = self.at + size.next_multiple_of(8);
            if next > self.end {
                return false;
            }
            self.at = next;
        }
        write(place);
        true
    }

    /// Prepares for a message that is not of the size that all others have. Returns false if there is no room for it.
    #[inline]
    fn prepare(&mut self, rank: u32, size: usize) -> bool {
        self.size == MIXED || self.begin_or_mix(rank, size)
    }

    #[cold]
    fn begin_or_mix(&mut self, rank: u32, size: usize) -> bool {
        if self.size == NONE_YET {
            let has_bundle = self.end > self.start;
            self.size = if (1..=usize::from(u16::MAX)).contains(&size) { size as u32 } else { MIXED };
            if !has_bundle {
                self.size = NONE_YET;
            }
            return has_bundle;
        }
        let Ok(each) = u16::try_from(self.size) else { return false };
        let (heads, stride) = (self.missing_heads(), Form::stride(each));
        if self.at + heads + MessageHead::stride(size) > self.end {
            return false;
        }
        let head = MessageHead { size: self.size, rank: Rank(rank) };
        for index in (0..self.len() / stride).rev() {
            let (from, to) = (index * stride, index * (MessageHead::LEN + stride));
            // SAFETY: both places lie in the buffer, because all messages fit with their heads; the last one is moved first,
            // so that none is overwritten before its turn.
            unsafe {
                let start = self.start as *mut u8;
                start.add(to + MessageHead::LEN).copy_from(start.add(from), stride);
                start.add(to).cast::<u64>().write(head.word());
            }
        }
        self.at += heads;
        self.size = MIXED;
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
        *self = Self::CLOSED;
        sealed
    }
}
