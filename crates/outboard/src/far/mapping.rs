//! A region of far memory, by address.

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use outboard_driver::paging::{PagedRegion, Pattern, RegionSpec, RegionTraffic};

use super::FarError;
use super::memory::Shared;
use crate::memory::FarRegion;

/// How the application will use a region, or a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// As it turns out.
    Normal,
    /// From one end to the other: more is read ahead.
    Sequential,
    /// Without order: nothing is read ahead.
    Random,
    /// Soon: it is fetched in the background.
    WillNeed,
    /// No longer: its place in the buffer is the next to be taken. What was written is not lost.
    DontNeed,
}

/// A region of far memory at an address of this process, for use by pointer. Prefer [`FarVec`](super::FarVec).
///
/// When it is dropped, what it holds is given up if it has no name, and written back if it has.
pub struct FarMapping {
    shared: Arc<Shared>,
    region: Arc<PagedRegion>,
    /// Taken when it is given back.
    far: Option<FarRegion>,
    pinned: Vec<Range<u32>>,
}

impl FarMapping {
    pub(super) fn new(shared: Arc<Shared>, region: Arc<PagedRegion>, far: FarRegion) -> Self {
        Self { shared, region, far: Some(far), pinned: Vec::new() }
    }

    /// Where it begins. Touching it may wait for the memory server; if that is lost for good, it raises SIGBUS.
    pub fn as_ptr(&self) -> NonNull<u8> {
        NonNull::new(self.region.start() as *mut u8).expect("nothing is mapped at address zero")
    }

    /// Its size in bytes.
    pub fn len(&self) -> usize {
        self.region.size() as usize
    }

    /// Whether it has none. It always has some.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What people call it.
    pub fn name(&self) -> &str {
        &self.region.spec().name
    }

    /// Whether it may be written. A store to one that may not raises SIGSEGV, as in any read-only memory.
    pub fn is_writable(&self) -> bool {
        self.region.spec().writable
    }

    /// What of it has crossed links so far.
    pub fn traffic(&self) -> RegionTraffic {
        self.region.traffic()
    }

    /// What was chosen for it and why, for people: its line of [`FarMemory::explain`](super::FarMemory::explain).
    pub fn explain(&self) -> String {
        self.shared.pages.explain_region(&self.region)
    }

    /// The size of its chunks.
    pub fn chunk(&self) -> usize {
        self.region.chunk_bytes()
    }

    /// Waits until the server has all that was written before the call. What is pinned leaves its place for a moment
    /// if it was changed.
    pub fn flush(&self) -> Result<(), FarError> {
        let flushed = self.shared.flush(&self.region);
        if flushed.is_err() {
            // What could not be sent is still here; what is pinned goes back to its place.
            for index in self.pinned.iter().cloned().flatten() {
                self.touch(index);
            }
        }
        flushed
    }

    /// Flushes, and has the server write the region to the file that it was loaded from. Returns how many bytes that
    /// has.
    pub fn sync(&self, patience: Duration) -> Result<u64, FarError> {
        self.flush()?;
        let far = self.far.as_ref().expect("it is given back only when it ends");
        Ok(self.shared.server()?.sync(far, patience)?)
    }

    /// Says how the bytes of `span` will be used. What concerns the whole region does so whatever the span.
    pub fn advise(&self, span: Range<usize>, advice: Advice) -> Result<(), FarError> {
        let chunks = self.chunks(&span)?;
        match advice {
            Advice::Normal => self.region.set_pattern(Pattern::Normal),
            Advice::Sequential => self.region.set_pattern(Pattern::Sequential),
            Advice::Random => self.region.set_pattern(Pattern::Random),
            Advice::WillNeed => self.shared.threads.will_need(&self.region, chunks.start, chunks.end),
            Advice::DontNeed => {
                self.shared.pages.dont_need(&self.region, chunks.start, chunks.end);
                self.shared.threads.look();
            }
        }
        Ok(())
    }

    /// Brings the bytes of `span` here before they are needed, as far as the buffer has room for them.
    pub fn prefault(&self, span: Range<usize>) -> Result<(), FarError> {
        let chunks = self.chunks(&span)?;
        self.shared.threads.will_need(&self.region, chunks.start, chunks.end);
        chunks.for_each(|index| self.touch(index));
        Ok(())
    }

    /// Brings the bytes of `span` here and keeps them here until [`unpin`](Self::unpin), so that system calls and
    /// devices can be given them. Half of the buffer may be pinned, or less if that leaves too little room for others.
    pub fn pin(&mut self, span: Range<usize>) -> Result<(), FarError> {
        let chunks = self.chunks(&span)?;
        let asked = chunks.len() * self.chunk();
        let reserved = self.shared.pages.reserve_pins(&self.region, chunks.clone());
        reserved.map_err(|(pinned, most)| FarError::TooMuchPinned { asked, pinned, most })?;
        for index in chunks.clone() {
            self.touch(index);
            // It may have been moved out again before it was pinned.
            while !self.shared.pages.pin(&self.region, index, true) {
                self.touch(index);
            }
        }
        self.pinned.push(chunks);
        Ok(())
    }

    /// Ends all pins of this region.
    pub fn unpin(&mut self) {
        for chunks in std::mem::take(&mut self.pinned) {
            for index in chunks.clone() {
                self.shared.pages.pin(&self.region, index, false);
            }
            self.shared.pages.release_pins(&self.region, chunks);
        }
    }

    /// Flushes, and makes it read-only from now on, which makes faults cheaper. Others stay out as before.
    pub fn freeze(mut self) -> Result<Self, FarError> {
        self.flush()?;
        self.unpin();
        self.shared.threads.unmap(&self.region, self.shared.patience);
        // What an agent has of it may be older than what was flushed past it; of an earlier epoch it keeps nothing.
        let epoch = match &mut self.far {
            Some(far) => self.shared.server()?.fence(far)?,
            None => self.region.spec().epoch,
        };
        let spec = RegionSpec { writable: false, epoch, ..self.region.spec().clone() };
        self.region = self.shared.map(spec)?;
        Ok(self)
    }

    /// Gives the region back to the server with all that is in it, whether it has a name or not.
    pub fn free(mut self) -> Result<(), FarError> {
        self.unpin();
        self.shared.threads.unmap(&self.region, self.shared.patience);
        match self.far.take() {
            Some(far) => Ok(self.shared.server()?.free(far)?),
            None => Ok(()),
        }
    }

    /// Waits until a chunk is here.
    fn touch(&self, index: u32) {
        let place = self.region.start() + index as usize * self.chunk();
        // SAFETY: inside the region, which is mapped as long as `self`; another thread may write the byte, and what it is
        // does not matter.
        unsafe { (place as *const u8).read_volatile() };
    }

    fn chunks(&self, span: &Range<usize>) -> Result<Range<u32>, FarError> {
        let size = self.len();
        if span.start > span.end || span.end > size {
            return Err(FarError::OutOfBounds { start: span.start, end: span.end, size });
        }
        Ok((span.start / self.chunk()) as u32..span.end.div_ceil(self.chunk()) as u32)
    }
}

impl Drop for FarMapping {
    fn drop(&mut self) {
        let Some(far) = self.far.take() else { return };
        self.unpin();
        let is_kept = self.region.spec().is_kept;
        if is_kept && self.is_writable() {
            // Whoever needs to know calls `flush` first; here nobody is left to tell.
            let _ = self.flush();
        }
        self.shared.threads.unmap(&self.region, self.shared.patience);
        // A server that is gone has nothing to give back.
        let _ = self.shared.server().map(|mut server| server.release(far));
    }
}
