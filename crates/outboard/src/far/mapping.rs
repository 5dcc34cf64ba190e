//! A region of far memory, by address.

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use outboard_driver::paging::{PagedRegion, Pattern, RegionSpec, RegionTraffic};

use super::FarError;
use super::memory::Shared;
use super::parts::Part;

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
    name: String,
    /// What each server has of it, in the order of stripes.
    regions: Vec<Arc<PagedRegion>>,
    /// Taken when it is given back.
    parts: Option<Vec<Part>>,
    /// Which chunks of which part.
    pinned: Vec<(usize, Range<u32>)>,
}

impl FarMapping {
    pub(super) fn new(
        shared: Arc<Shared>,
        name: String,
        regions: Vec<Arc<PagedRegion>>,
        parts: Vec<Part>,
    ) -> Self {
        Self { shared, name, regions, parts: Some(parts), pinned: Vec::new() }
    }

    /// Where it begins. Touching it may wait for the memory server; if that is lost for good, it raises
    /// SIGBUS, or the process ends ([`OnLoss`](crate::OnLoss)).
    pub fn as_ptr(&self) -> NonNull<u8> {
        NonNull::new(self.regions[0].start() as *mut u8).expect("nothing is mapped at address zero")
    }

    /// Its size in bytes.
    pub fn len(&self) -> usize {
        self.regions.iter().map(|part| part.size() as usize).sum()
    }

    /// Whether it has none. It always has some.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What people call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it may be written. A store to one that may not raises SIGSEGV, as in any read-only memory.
    pub fn is_writable(&self) -> bool {
        self.regions[0].spec().writable
    }

    /// What of it has crossed links so far.
    pub fn traffic(&self) -> RegionTraffic {
        self.regions.iter().map(|part| part.traffic()).sum()
    }

    /// Over how many memory servers it is striped.
    pub fn servers(&self) -> usize {
        self.regions.len()
    }

    /// What was chosen for it and why, for people: its lines of [`FarMemory::explain`](super::FarMemory::explain), one for
    /// each server that has a part of it.
    pub fn explain(&self) -> String {
        let lines = self.regions.iter().map(|part| self.shared.pages.explain_region(part));
        lines.collect::<Vec<_>>().join("\n")
    }

    /// The size of its chunks.
    pub fn chunk(&self) -> usize {
        self.regions[0].chunk_bytes()
    }

    /// Waits until the server has all that was written before the call. What is pinned leaves its place for a moment
    /// if it was changed.
    pub fn flush(&self) -> Result<(), FarError> {
        let flushed = self.shared.flush(&self.regions);
        if flushed.is_err() {
            // What could not be sent is still here; what is pinned goes back to its place.
            for (part, chunks) in &self.pinned {
                chunks.clone().for_each(|index| self.touch(*part, index));
            }
        }
        flushed
    }

    /// Flushes, and has the server write the region to the file that it was loaded from. Returns how many bytes that
    /// has.
    pub fn sync(&self, patience: Duration) -> Result<u64, FarError> {
        self.flush()?;
        let parts = self.parts.as_ref().expect("it is given back only when it ends");
        let mut bytes = 0;
        for part in parts {
            bytes += self.shared.server(part.at)?.sync(&part.far, patience)?;
        }
        Ok(bytes)
    }

    /// Says how the bytes of `span` will be used. What concerns the whole region does so whatever the span.
    pub fn advise(&self, span: Range<usize>, advice: Advice) -> Result<(), FarError> {
        for (part, chunks) in self.chunks(&span)? {
            let region = &self.regions[part];
            match advice {
                Advice::Normal => self.shared.pages.set_pattern(region, Pattern::Normal),
                Advice::Sequential => self.shared.pages.set_pattern(region, Pattern::Sequential),
                Advice::Random => self.shared.pages.set_pattern(region, Pattern::Random),
                Advice::WillNeed => self.shared.threads.will_need(region, chunks.start, chunks.end),
                Advice::DontNeed => self.shared.pages.dont_need(region, chunks.start, chunks.end),
            }
        }
        if advice == Advice::DontNeed {
            self.shared.threads.look();
        }
        Ok(())
    }

    /// Brings the bytes of `span` here before they are needed, as far as the buffer has room for them.
    pub fn prefault(&self, span: Range<usize>) -> Result<(), FarError> {
        let parts = self.chunks(&span)?;
        for (part, chunks) in &parts {
            self.shared.threads.will_need(&self.regions[*part], chunks.start, chunks.end);
        }
        for (part, chunks) in parts {
            chunks.for_each(|index| self.touch(part, index));
        }
        Ok(())
    }

    /// Brings the bytes of `span` here and keeps them here until [`unpin`](Self::unpin), so that system calls and
    /// devices can be given them. Half of the buffer may be pinned, or less if that leaves too little room for others.
    pub fn pin(&mut self, span: Range<usize>) -> Result<(), FarError> {
        let parts = self.chunks(&span)?;
        let asked = parts.iter().map(|(_, chunks)| chunks.len()).sum::<usize>() * self.chunk();
        let pages = &self.shared.pages;
        for (number, (part, chunks)) in parts.iter().enumerate() {
            if let Err((pinned, most)) = pages.reserve_pins(&self.regions[*part], chunks.clone()) {
                for (part, chunks) in &parts[..number] {
                    pages.release_pins(&self.regions[*part], chunks.clone());
                }
                return Err(FarError::TooMuchPinned { asked, pinned, most });
            }
        }
        for (part, chunks) in &parts {
            for index in chunks.clone() {
                self.touch(*part, index);
                // It may have been moved out again before it was pinned.
                while !pages.pin(&self.regions[*part], index, true) {
                    self.touch(*part, index);
                }
            }
        }
        self.pinned.extend(parts);
        Ok(())
    }

    /// Ends all pins of this region.
    pub fn unpin(&mut self) {
        for (part, chunks) in std::mem::take(&mut self.pinned) {
            let region = &self.regions[part];
            for index in chunks.clone() {
                self.shared.pages.pin(region, index, false);
            }
            self.shared.pages.release_pins(region, chunks);
        }
    }

    /// Flushes, and makes it read-only from now on, which makes faults cheaper. Others stay out as before.
    pub fn freeze(mut self) -> Result<Self, FarError> {
        self.flush()?;
        self.unpin();
        self.shared.threads.unmap(&self.regions, self.shared.patience);
        // What an agent has of it may be older than what was flushed past it; of an earlier epoch it keeps nothing.
        let mut specs = Vec::new();
        for (region, part) in self.regions.iter().zip(self.parts.iter_mut().flatten()) {
            let epoch = self.shared.server(part.at)?.fence(&mut part.far)?;
            specs.push(RegionSpec { writable: false, epoch, ..region.spec().clone() });
        }
        self.regions = self.shared.map(specs)?;
        Ok(self)
    }

    /// Gives the region back to the server with all that is in it, whether it has a name or not.
    pub fn free(mut self) -> Result<(), FarError> {
        self.unpin();
        self.shared.threads.unmap(&self.regions, self.shared.patience);
        let mut freed = Ok(());
        // All that can be; the first error is the one to tell.
        for Part { at, far, .. } in self.parts.take().into_iter().flatten() {
            let part = self.shared.server(at).and_then(|mut server| Ok(server.free(far)?));
            freed = freed.and(part);
        }
        freed
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.shared
    }

    pub(super) fn regions(&self) -> &[Arc<PagedRegion>] {
        &self.regions
    }

    /// The part that has the byte at `offset`, and which of its chunks that is in.
    pub(super) fn chunk_at(&self, offset: usize) -> (&Arc<PagedRegion>, u32) {
        let part = self.regions[0].spec().stripes.part_of(offset as u64) as usize;
        let region = &self.regions[part];
        (region, region.spec().stripes.chunk(offset as u64, self.chunk()))
    }

    /// Waits until a chunk is here.
    fn touch(&self, part: usize, index: u32) {
        let place = self.regions[part].addresses_of(index).start;
        // SAFETY: inside the region, which is mapped as long as `self`; another thread may write the byte, and what it is
        // does not matter.
        unsafe { (place as *const u8).read_volatile() };
    }

    /// Which chunks of which parts a span has bytes of.
    pub(super) fn chunks(&self, span: &Range<usize>) -> Result<Vec<(usize, Range<u32>)>, FarError> {
        let size = self.len();
        if span.start > span.end || span.end > size {
            return Err(FarError::OutOfBounds { start: span.start, end: span.end, size });
        }
        let chunks = (span.start / self.chunk()) as u32..span.end.div_ceil(self.chunk()) as u32;
        let of_part = |part: &Arc<PagedRegion>| part.spec().stripes.chunks(chunks.clone(), self.chunk());
        Ok(self.regions.iter().map(of_part).enumerate().collect())
    }
}

impl Drop for FarMapping {
    fn drop(&mut self) {
        let Some(parts) = self.parts.take() else { return };
        self.unpin();
        let is_kept = self.regions[0].spec().is_kept;
        if is_kept && self.is_writable() {
            // Whoever needs to know calls `flush` first; here nobody is left to tell.
            let _ = self.flush();
        }
        self.shared.threads.unmap(&self.regions, self.shared.patience);
        self.shared.release(parts);
    }
}
