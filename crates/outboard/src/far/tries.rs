//! Reading and writing far memory for code that wants to live on when a memory server is lost: errors, never signals.

use std::ops::Range;
use std::time::{Duration, Instant};

use outboard_driver::paging::{Missing, PagedRegion};
use outboard_link::memory::copy::{copy_from_shared, copy_to_shared};
use zerocopy::IntoBytes;

use super::array::{FarSlice, FarVec, Plain};
use super::{FarError, FarMapping};

impl FarMapping {
    /// Copies bytes from `start` on out of far memory. What is not here is fetched, for which `patience` is how long that
    /// may take in all; with none, only what is here can be read.
    ///
    /// It never raises a signal. What is here can be read whatever became of its memory server; what is not, and is lost,
    /// is [`FarError::Lost`], and what does not come in time is [`FarError::Late`]. Both say how many bytes were copied
    /// before.
    pub fn try_read(&self, start: usize, into: &mut [u8], patience: Duration) -> Result<(), FarError> {
        let span = self.span(start, into.len())?;
        self.try_each(span, patience, |place, done, len| {
            let into = &mut into[done..done + len];
            // SAFETY: the chunk is here and stays while this runs. Others may write it, for which this copy is made; `into`
            // is the caller's alone.
            unsafe { copy_from_shared(place as *const u8, into.as_mut_ptr(), len) }
        })
    }

    /// Copies bytes into far memory from `start` on, in the same way. What is written to an object whose memory server is
    /// lost stays here and can be read, but never reaches a server.
    pub fn try_write(&self, start: usize, from: &[u8], patience: Duration) -> Result<(), FarError> {
        if !self.is_writable() {
            return Err(FarError::ReadOnly { name: self.name().to_owned() });
        }
        let span = self.span(start, from.len())?;
        self.try_each(span, patience, |place, done, len| {
            let from = &from[done..done + len];
            // SAFETY: the chunk is here and stays while this runs, and may be written. Others may use it, for which this
            // copy is made; nobody writes to `from` while it is borrowed.
            unsafe { copy_to_shared(from.as_ptr(), place as *mut u8, len) }
        })
    }

    fn span(&self, start: usize, len: usize) -> Result<Range<usize>, FarError> {
        let (end, size) = (start.saturating_add(len), self.len());
        if end > size {
            return Err(FarError::OutOfBounds { start, end, size });
        }
        Ok(start..end)
    }

    /// Calls `copy` for each chunk that the span has bytes of, while it is here: with the address, how many bytes of the span
    /// were before, and how many these are.
    fn try_each(
        &self,
        span: Range<usize>,
        patience: Duration,
        mut copy: impl FnMut(usize, usize, usize),
    ) -> Result<(), FarError> {
        let until = Instant::now().checked_add(patience);
        // Nobody waits for so long.
        let until = until.unwrap_or_else(|| Instant::now() + Duration::from_secs(1 << 32));
        let (chunk, first) = (self.chunk(), self.as_ptr().as_ptr() as usize);
        let mut at = span.start;
        let mut asked = span.start;
        while at < span.end {
            let len = (chunk - at % chunk).min(span.end - at);
            if at >= asked && !patience.is_zero() {
                asked = self.ask_ahead(at + len..span.end);
            }
            let (region, index) = self.chunk_at(at);
            let (place, done) = (first + at, at - span.start);
            let threads = &self.shared().threads;
            let used = threads.with_chunk((region, index), (place, len), until, || copy(place, done, len));
            used.map_err(|missing| self.missing(missing, at..at + len, done, patience))?;
            at += len;
        }
        Ok(())
    }

    /// Has the next chunks of a span fetched in the background, and says up to where.
    fn ask_ahead(&self, span: Range<usize>) -> usize {
        let config = self.shared().pages.config();
        let window = config.ahead.min(config.buffer / 8).max(self.chunk());
        let end = span.end.min(span.start.saturating_add(window));
        if span.start < end
            && let Ok(parts) = self.chunks(&(span.start..end))
        {
            for (part, chunks) in parts {
                self.shared().threads.will_need(&self.regions()[part], chunks.start, chunks.end);
            }
        }
        end
    }

    fn missing(&self, missing: Missing, span: Range<usize>, done: usize, patience: Duration) -> FarError {
        let (region, _) = self.chunk_at(span.start);
        let server = self.shared().servers[region.spec().at].clone();
        let (name, Range { start, end }) = (self.name().to_owned(), span);
        match (missing, PagedRegion::lost_because(region)) {
            (Missing::Lost, Some(why)) => FarError::Lost { server, name, start, end, done, why: why.clone() },
            (Missing::Parent { process }, _) => FarError::OfParent { name, process },
            (Missing::ThrownAway, _) => FarError::ThrownAway { name, start, end, done },
            _ => FarError::Late { server, name, start, end, done, patience },
        }
    }
}

macro_rules! tries {
    ($array:ident) => {
        impl<T: Plain> $array<T> {
            /// Copies elements from `start` on into `into`, as [`FarMapping::try_read`] does with bytes: with an error where
            /// plain reading would raise a signal.
            pub fn try_read(&self, start: usize, into: &mut [T], patience: Duration) -> Result<(), FarError> {
                let start = self.byte(start, into.len())?;
                self.mapping().try_read(start, into.as_mut_bytes(), patience)
            }

            /// Where elements begin in the region, which all have to be in this array.
            fn byte(&self, start: usize, count: usize) -> Result<usize, FarError> {
                let (element, end) = (size_of::<T>(), start.saturating_add(count));
                if end > self.len() {
                    let byte = |at: usize| at.saturating_mul(element);
                    let (start, end, size) = (byte(start), byte(end), byte(self.len()));
                    return Err(FarError::OutOfBounds { start, end, size });
                }
                Ok(start * element)
            }
        }
    };
}

tries!(FarVec);
tries!(FarSlice);

impl<T: Plain> FarVec<T> {
    /// Copies elements to where `start` is, as [`FarMapping::try_write`] does with bytes: with an error where a plain store
    /// would raise a signal.
    pub fn try_write(&mut self, start: usize, from: &[T], patience: Duration) -> Result<(), FarError> {
        let start = self.byte(start, from.len())?;
        self.mapping().try_write(start, from.as_bytes(), patience)
    }
}
