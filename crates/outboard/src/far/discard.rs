//! Bytes that a program needs no longer: zero from now on, and without memory anywhere.

use std::ops::Range;
use std::ptr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use outboard_driver::paging::{PagedRegion, Remaining};

use super::memory::Shared;
use super::parts::Part;
use super::{FarError, FarMapping};
use crate::client::AskError;

/// How long is waited before it is looked again whether something has ended.
const LOOK: Duration = Duration::from_millis(2);
/// How often a server is asked that has begun another write epoch meanwhile.
const TRIES: u32 = 100;

/// Write-backs of chunks that wait, until this is dropped.
struct Hold<'a> {
    shared: &'a Shared,
    region: &'a Arc<PagedRegion>,
    chunks: Range<u32>,
}

impl<'a> Hold<'a> {
    fn new(shared: &'a Shared, region: &'a Arc<PagedRegion>, chunks: &Range<u32>) -> Self {
        shared.pages.begin_discard(region, chunks);
        Self { shared, region, chunks: chunks.clone() }
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        self.shared.pages.end_discard(self.region, &self.chunks);
        // Faults of other threads may wait for places that chunks had which could not be saved, or that were given up: no answer
        // of a server tells the fault threads of them.
        self.shared.threads.look();
    }
}

impl FarMapping {
    /// Makes the bytes of `span` zero. What of it are whole chunks takes no memory afterwards, neither here nor at the server,
    /// until it is written again; nothing of it is written back. No other thread may use them meanwhile. After an error each of
    /// them is zero or as it was.
    pub fn discard(&mut self, span: Range<usize>) -> Result<(), FarError> {
        // SAFETY: the object is borrowed for this alone, so no reference into it lives.
        unsafe { self.discard_unused(span) }
    }

    /// Discards bytes of an object of which other bytes are used meanwhile, as [`discard`](Self::discard) does.
    ///
    /// # Safety
    ///
    /// Nothing uses these bytes, and no reference to them lives.
    pub unsafe fn discard_unused(&self, span: Range<usize>) -> Result<(), FarError> {
        let (chunk, len) = (self.chunk(), self.len());
        self.shared().check_here(self.name())?;
        self.chunks(&span)?;
        if !self.is_writable() {
            return Err(FarError::ReadOnly { name: self.name().to_owned() });
        }
        // The last chunk of an object may be cut short.
        let end = if span.end == len { len } else { span.end / chunk * chunk };
        let start = span.start.next_multiple_of(chunk).min(span.end);
        if start >= end {
            // SAFETY: by the contract above.
            return unsafe { self.clear(span) };
        }
        for (part, chunks) in self.chunks(&(start..end))? {
            if !chunks.is_empty() {
                // SAFETY: by the contract above.
                unsafe { self.discard_chunks(part, &chunks)? };
            }
        }
        // SAFETY: by the contract above.
        unsafe {
            self.clear(span.start..start)?;
            self.clear(end..span.end)
        }
    }

    /// How many bytes are in chunks that were touched and not discarded since. Only of memory that is reserved without a name
    /// more is known than zero.
    pub fn touched(&self) -> u64 {
        self.regions().iter().map(|part| part.chunks_touched() * self.chunk() as u64).sum()
    }

    /// Whether the chunk that has the byte at `offset` may hold anything but zeros.
    ///
    /// # Panics
    ///
    /// If there is no such byte.
    pub fn is_touched(&self, offset: usize) -> bool {
        assert!(offset < self.len(), "{offset} is behind the end of “{}”", self.name());
        let (region, index) = self.chunk_at(offset);
        region.is_touched(index)
    }

    /// Discards chunks of a part.
    ///
    /// # Safety
    ///
    /// As for [`discard_unused`](Self::discard_unused).
    unsafe fn discard_chunks(&self, part: usize, chunks: &Range<u32>) -> Result<(), FarError> {
        let (shared, region) = (self.shared(), &self.regions()[part]);
        let hold = Hold::new(shared, region, chunks);
        let patience = shared.pages.config().grace + shared.deadline;
        let deadline = Instant::now() + patience;
        let (server, name) = (&shared.servers[region.spec().at], self.name().to_owned());
        let late = || FarError::NotDiscarded { server: server.clone(), name: name.clone(), waited: patience };
        while !shared.pages.can_discard(region, chunks) || !shared.pages.may_be_discarded(region, chunks) {
            if Instant::now() > deadline || region.is_lost() {
                return Err(late());
            }
            shared.threads.look();
            shared.pages.space().wait_for_news(LOOK);
        }
        // What the server never had is not asked for, so it may be away.
        let is_blank = shared.pages.are_blank(region, chunks);
        let asked = if is_blank { Ok(()) } else { shared.discard_at_server(self.part(part), region, chunks) };
        if let Err(error) = asked {
            // Whether it was done is not known, or whether it will be.
            std::mem::forget(hold);
            shared.threads.fence(region, chunks.clone());
            return Err(error);
        }
        let mut cleared = Vec::new();
        loop {
            match shared.pages.discarded(region, chunks, &cleared) {
                Remaining::Nothing => return Ok(()),
                Remaining::Kept(index) => {
                    let bytes = region.whole_addresses_of(index);
                    let start = bytes.start.since(region.start());
                    // SAFETY: by the contract above: the chunk is one of them.
                    unsafe { self.clear(start..start + bytes.len)? };
                    cleared.push(index);
                }
                Remaining::UnderWay if Instant::now() > deadline || region.is_lost() => return Err(late()),
                Remaining::UnderWay => shared.pages.space().wait_for_news(LOOK),
            }
        }
    }

    /// Fills bytes with zeros that cannot be given up.
    ///
    /// # Safety
    ///
    /// As for [`discard_unused`](Self::discard_unused).
    unsafe fn clear(&self, span: Range<usize>) -> Result<(), FarError> {
        self.check_span(&span)?;
        if span.is_empty() {
            return Ok(());
        }
        // SAFETY: inside the region, which is mapped as long as the object and may be written; by the contract above nothing else
        // uses these bytes.
        self.with_writable(&span, || unsafe {
            ptr::write_bytes(self.as_ptr().as_ptr().add(span.start), 0, span.len());
        })
    }
}

impl Shared {
    /// Has the server discard chunks, in the epoch that stands.
    fn discard_at_server(
        &self,
        part: &Part,
        region: &PagedRegion,
        chunks: &Range<u32>,
    ) -> Result<(), FarError> {
        let mut tries = 0;
        loop {
            let epoch = self.pages.ask_to_discard(region);
            let asked = self
                .server(part.at)
                .and_then(|mut server| Ok(server.discard(&part.far, epoch, region.bytes_of(chunks))?));
            let now = match &asked {
                Err(FarError::Ask(AskError::StaleEpoch { now, .. })) => Some(*now),
                _ => None,
            };
            self.pages.was_asked_to_discard(region, now);
            match asked {
                // A fault thread has begun another, or a fence of ours that a lost link still carried.
                Err(FarError::Ask(AskError::StaleEpoch { .. })) if tries < TRIES => {
                    tries += 1;
                    self.pages.space().wait_for_news(LOOK);
                }
                asked => return asked,
            }
        }
    }
}
