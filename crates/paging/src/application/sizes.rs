//! How large the buffer is, and how that changes while it is in use.
//!
//! Growing takes nothing but a number: frames have addresses, and chunks have records, for the largest buffer from the start,
//! so that no fault waits for them. Shrinking has the pagers move chunks out until as many are here as may be, a few at a time
//! and after the faults that wait; the memory of their frames goes back to the system as they are emptied.

use std::sync::PoisonError;

use super::chunks::SEATS_MIN;
use super::config::PagingError;
use super::pages::{Pages, Shelf};
use super::space::PageSpace;

impl<S: PageSpace> Pages<S> {
    /// How many bytes of far memory may be here at once now.
    pub fn buffer(&self) -> usize {
        self.pool.budget()
    }

    /// How many bytes of the buffer are in use. More than [`buffer`](Self::buffer) only while it shrinks.
    pub fn buffer_used(&self) -> usize {
        self.pool.used()
    }

    /// The least that the buffer can shrink to, with the chunks and the pins that there are now.
    pub fn buffer_least(&self) -> usize {
        let _uninterrupted = self.space.uninterrupted();
        let pinned = self.most_pinned();
        let least = self.least_for(self.largest_chunk());
        if pinned == 0 { least } else { least.max(self.least_with(pinned)) }
    }

    /// Lets so many bytes be here from now on. What is here beyond that leaves by and by: have the fault threads look.
    pub fn set_buffer(&self, buffer: usize) -> Result<(), PagingError> {
        let most = self.config.buffer_max;
        if buffer > most {
            return Err(PagingError::BufferTooLarge { buffer, most });
        }
        let _uninterrupted = self.space.uninterrupted();
        let _resizing = self.resizing.lock().unwrap_or_else(PoisonError::into_inner);
        // Set first: a thread that maps a region or pins chunks meanwhile either sees the new size or is seen here.
        let before = self.pool.set_budget(buffer);
        let is_possible =
            self.has_room_for(self.largest_chunk()).and_then(|()| self.has_room_for_pins(before));
        if is_possible.is_err() {
            self.pool.set_budget(before);
        }
        is_possible
    }

    /// Whether the buffer has room for chunks of so many bytes.
    pub(super) fn has_room_for(&self, chunk: usize) -> Result<(), PagingError> {
        let (buffer, needed) = (self.buffer(), self.least_for(chunk));
        if buffer < needed { Err(PagingError::BufferTooSmall { buffer, chunk, needed }) } else { Ok(()) }
    }

    /// How many bytes of a shard may be pinned, in chunks of so many bytes.
    pub(super) fn pins_max(&self, chunk: usize) -> usize {
        let share = self.pool.share();
        // Those who use other chunks need some room too.
        let others = SEATS_MIN * chunk.max(self.config.chunk);
        (share / 2).min(share.saturating_sub(others))
    }

    /// Whether what is pinned has room in a buffer that was so large before.
    fn has_room_for_pins(&self, before: usize) -> Result<(), PagingError> {
        let (buffer, pinned) = (self.buffer(), self.most_pinned());
        if buffer >= before || pinned <= self.pins_max(self.largest_chunk()) {
            return Ok(());
        }
        Err(PagingError::BufferPinned { buffer, pinned, needed: self.least_with(pinned) })
    }

    fn least_for(&self, chunk: usize) -> usize {
        SEATS_MIN * chunk * self.shelves.len()
    }

    /// The least buffer in which a shard can have so many bytes pinned.
    fn least_with(&self, pinned: usize) -> usize {
        let others = SEATS_MIN * self.largest_chunk();
        (2 * pinned).max(pinned + others) * self.shelves.len()
    }

    fn largest_chunk(&self) -> usize {
        let chunks = self.regions().iter().map(|region| region.chunk_bytes()).max();
        chunks.unwrap_or(0).max(self.config.chunk)
    }

    /// How many bytes are pinned in the shard that has most of them.
    fn most_pinned(&self) -> usize {
        let of_shelf = |shelf: &Shelf| shelf.lock().pinned;
        self.shelves.iter().map(of_shelf).max().unwrap_or(0)
    }
}
