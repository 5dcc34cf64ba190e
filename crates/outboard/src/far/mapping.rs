//! A region of far memory, by address.

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use outboard_driver::paging::{PAGE, PageProtection, PagedRegion, Pattern, RegionSpec, RegionTraffic, Span};

use super::FarError;
use super::memory::{FarMemory, Shared};
use super::parts::Part;
use super::protections::Protections;

/// How the application will use a span of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// As it turns out.
    Normal,
    /// From one end to the other: more is read ahead.
    Sequential,
    /// Without order: nothing is read ahead, and pages come one by one.
    Random,
    /// Without order too, but what is in a chunk is used together: pages do not come one by one.
    Whole,
    /// Soon: it is fetched in the background, as by [`prefetch`](FarMapping::prefetch).
    WillNeed,
    /// No longer: its place in the buffer is the next to be taken. What was written is not lost; to give it up,
    /// [discard](FarMapping::discard) it.
    DontNeed,
}

/// A region of far memory at an address of this process, for use by pointer. Prefer [`FarVec`](super::FarVec).
///
/// When it is dropped, what it holds is given up if it has no name, and written back if it has.
pub struct FarMapping {
    shared: Arc<Shared>,
    name: String,
    /// The part of each server, in the order of stripes.
    regions: Vec<Arc<PagedRegion>>,
    /// Taken when it is given back.
    parts: Option<Vec<Part>>,
    /// Which chunks of which part.
    pinned: Vec<(usize, Range<u32>)>,
    protections: Protections,
}

impl FarMapping {
    pub(super) fn new(
        shared: Arc<Shared>,
        name: String,
        regions: Vec<Arc<PagedRegion>>,
        parts: Vec<Part>,
    ) -> Self {
        let protections = Protections::new(regions[0].spec().writable);
        Self { shared, name, regions, parts: Some(parts), pinned: Vec::new(), protections }
    }

    /// Where it begins. Touching it may wait for the memory server; if that is lost for good, it raises
    /// SIGBUS, or the process ends ([`OnLoss`](crate::OnLoss)).
    pub fn as_ptr(&self) -> NonNull<u8> {
        NonNull::new(self.regions[0].start().get() as *mut u8).expect("nothing is mapped at address zero")
    }

    /// Its size in bytes.
    pub fn len(&self) -> usize {
        self.regions.iter().map(|part| part.size() as usize).sum()
    }

    /// Whether it has none. It always has some.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its name for people.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it may be written. A store to one that may not raises SIGSEGV, as in any read-only memory.
    pub fn is_writable(&self) -> bool {
        self.regions[0].spec().writable
    }

    /// Its traffic over links so far.
    pub fn traffic(&self) -> RegionTraffic {
        self.regions.iter().map(|part| part.traffic()).sum()
    }

    /// Over how many memory servers it is striped.
    pub fn servers(&self) -> usize {
        self.regions.len()
    }

    /// The choices for it and their reasons, for people: its lines of [`FarMemory::explain`](super::FarMemory::explain), one for
    /// each server that has a part of it.
    pub fn explain(&self) -> Vec<String> {
        match self.shared.check_here(&self.name) {
            Ok(()) => self.regions.iter().map(|part| self.shared.pages.explain_region(part)).collect(),
            Err(error) => vec![error.to_string()],
        }
    }

    /// The size of its chunks.
    pub fn chunk(&self) -> usize {
        self.regions[0].chunk_bytes()
    }

    /// Waits until the server has all that was written before the call. What is pinned leaves its place for a moment
    /// if it was changed.
    pub fn flush(&self) -> Result<(), FarError> {
        self.shared.check_here(&self.name)?;
        let flushed = self.shared.flush(&self.regions);
        if flushed.is_err() {
            // Chunks that could not be sent are still here; pinned ones go back to their places.
            for (part, chunks) in &self.pinned {
                chunks.clone().for_each(|index| self.touch(*part, index));
            }
        }
        flushed
    }

    /// Flushes, and has the server write the region to the file that it was loaded from. Returns how many bytes that
    /// has.
    pub fn sync(&self, deadline: Duration) -> Result<u64, FarError> {
        self.flush()?;
        let mut bytes = 0;
        for part in (0..self.regions.len()).map(|number| self.part(number)) {
            bytes += self.shared.server(part.at)?.sync(&part.far, deadline)?;
        }
        Ok(bytes)
    }

    /// Says how the bytes of `span` will be used, from now on or until it is said otherwise. The span is as long as the chunks that
    /// have bytes of it.
    pub fn advise(&self, span: Range<usize>, advice: Advice) -> Result<(), FarError> {
        self.shared.check_here(&self.name)?;
        for (part, chunks) in self.chunks(&span)? {
            let region = &self.regions[part];
            match advice {
                Advice::Normal => self.shared.pages.set_pattern(region, chunks, Pattern::Normal),
                Advice::Sequential => self.shared.pages.set_pattern(region, chunks, Pattern::Sequential),
                Advice::Whole => self.shared.pages.set_pattern(region, chunks, Pattern::Whole),
                Advice::Random => self.shared.pages.set_pattern(region, chunks, Pattern::Random),
                Advice::WillNeed => {}
                Advice::DontNeed => self.shared.pages.dont_need(region, chunks.start, chunks.end),
            }
        }
        match advice {
            Advice::WillNeed => self.prefetch([span]),
            Advice::DontNeed => {
                self.shared.threads.look();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Brings the bytes of `span` here before they are needed, as far as the buffer has room for them and they may be read.
    pub fn prefault(&self, span: Range<usize>) -> Result<(), FarError> {
        self.shared.check_here(&self.name)?;
        let parts = self.chunks(&span)?;
        self.fetch_parts(&parts);
        for (part, chunks) in parts {
            chunks.for_each(|index| self.touch(part, index));
        }
        Ok(())
    }

    /// Brings the bytes of `span` here and keeps them here until [`unpin`](Self::unpin), so that system calls and
    /// devices can be given them. Half of the buffer may be pinned, or less if that leaves too little room for others.
    pub fn pin(&mut self, span: Range<usize>) -> Result<(), FarError> {
        self.shared.check_here(&self.name)?;
        let parts = self.chunks(&span)?;
        self.allows(&span, PageProtection::can_read)?;
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
                let region = &self.regions[*part];
                let (chunk, first) = (region.addresses_of(index), region.start());
                let start = chunk.start.max(first.plus(span.start));
                let len = chunk.end().min(first.plus(span.end)).since(start);
                self.touch(*part, index);
                // It may have been moved out again before it was pinned.
                while !pages.pin((region, index), Span { start, len }, true) {
                    self.touch(*part, index);
                }
            }
        }
        self.pinned.extend(parts);
        Ok(())
    }

    /// Ends all pins of this region.
    pub fn unpin(&mut self) {
        if !self.shared.is_here() {
            return;
        }
        for (part, chunks) in std::mem::take(&mut self.pinned) {
            let region = &self.regions[part];
            for index in chunks.clone() {
                self.shared.pages.pin((region, index), region.addresses_of(index), false);
            }
            self.shared.pages.release_pins(region, chunks);
        }
    }

    /// Flushes, and makes it read-only from now on, which makes faults cheaper. Others stay out as before. It lies elsewhere then,
    /// and has no parts with other protections.
    pub fn freeze(mut self) -> Result<Self, FarError> {
        self.shared.check_here(&self.name)?;
        self.flush()?;
        self.unpin();
        self.shared.threads.unmap(&self.regions, self.shared.deadline);
        // An agent may have older bytes than those that were flushed past it; of an earlier epoch it keeps none.
        let mut specs = Vec::new();
        for (region, part) in self.regions.iter().zip(self.parts.iter_mut().flatten()) {
            let epoch = self.shared.server(part.at)?.fence(&mut part.far)?;
            specs.push(RegionSpec { writable: false, is_fresh: false, epoch, ..region.spec().clone() });
        }
        self.regions = self.shared.map(specs)?;
        self.protections = Protections::new(false);
        Ok(self)
    }

    /// Gives the region back to the server with all that is in it, whether it has a name or not.
    pub fn free(mut self) -> Result<(), FarError> {
        self.shared.check_here(&self.name)?;
        self.unpin();
        self.shared.threads.unmap(&self.regions, self.shared.deadline);
        let parts = self.parts.take().unwrap_or_default();
        let Some(parts) = self.shared.not_retired(parts, true) else { return Ok(()) };
        let mut freed = Ok(());
        // All that can be; the first error is the one to tell.
        for Part { at, far, .. } in parts {
            let part = self.shared.server(at).and_then(|mut server| Ok(server.free(far)?));
            freed = freed.and(part);
        }
        freed
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// The far memory that it is a part of.
    pub(super) fn memory(&self) -> FarMemory {
        FarMemory { shared: Arc::clone(&self.shared) }
    }

    /// The facts about the part of a server.
    pub(super) fn part(&self, number: usize) -> &Part {
        &self.parts.as_ref().expect("it is given back only when it ends")[number]
    }

    pub(super) fn part_mut(&mut self, number: usize) -> &mut Part {
        &mut self.parts.as_mut().expect("it is given back only when it ends")[number]
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

    pub(super) fn protections(&self) -> &Protections {
        &self.protections
    }

    /// Waits until a chunk is here, as far as its bytes may be read. Its pages may come one by one.
    fn touch(&self, part: usize, index: u32) {
        let (place, first) = (self.regions[part].addresses_of(index), self.regions[part].start());
        let bytes = place.start.since(first)..place.end().since(first);
        let parts = self.protections.of(bytes).into_iter();
        for (readable, _) in parts.into_iter().filter(|(_, protection)| protection.can_read()) {
            for at in readable.step_by(PAGE) {
                // SAFETY: inside the region, which is mapped as long as `self`; another thread may write the byte, and what it
                // is does not matter.
                unsafe { (first.plus(at).get() as *const u8).read_volatile() };
            }
        }
    }

    pub(super) fn check_span(&self, span: &Range<usize>) -> Result<(), FarError> {
        let (Range { start, end }, size) = (span.clone(), self.len());
        if start > end || end > size { Err(FarError::OutOfBounds { start, end, size }) } else { Ok(()) }
    }

    /// Which chunks of which parts a span has bytes of.
    pub(super) fn chunks(&self, span: &Range<usize>) -> Result<Vec<(usize, Range<u32>)>, FarError> {
        self.check_span(span)?;
        let chunks = (span.start / self.chunk()) as u32..span.end.div_ceil(self.chunk()) as u32;
        let of_part = |part: &Arc<PagedRegion>| part.spec().stripes.chunks(chunks.clone(), self.chunk());
        Ok(self.regions.iter().map(of_part).enumerate().collect())
    }
}

impl Drop for FarMapping {
    fn drop(&mut self) {
        let Some(parts) = self.parts.take() else { return };
        if !self.shared.is_here() {
            // They are the parent's, and so are the threads and links by which they would be given back.
            std::mem::forget((parts, Arc::clone(&self.shared)));
            return;
        }
        self.unpin();
        let is_kept = self.regions[0].spec().is_kept;
        if is_kept && self.is_writable() {
            // A program that needs to know calls `flush` first; here there is no caller to tell.
            let _ = self.flush();
        }
        self.shared.threads.unmap(&self.regions, self.shared.deadline);
        self.shared.release(parts);
    }
}
