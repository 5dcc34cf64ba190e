//! Reading and writing far memory for code that wants to live on when a memory server is lost: errors, never signals.

use std::ops::Range;
use std::time::{Duration, Instant};

use outboard_driver::paging::{Missing, PageProtection, PagedRegion, Span};
use outboard_link::memory::copy::{copy_from_shared, copy_to_shared};
use zerocopy::IntoBytes;

use super::array::{FarSlice, Plain};
use super::home::FarHome;
use super::vec::FarVec;
use super::{FarError, FarMapping};

impl FarMapping {
    /// Copies bytes from `start` on out of far memory. What is not here is fetched, for which `deadline` is how long that
    /// may take in all; with none, only what is here can be read.
    ///
    /// It never raises a signal. What is here can be read whatever became of its memory server; what is not, and is lost,
    /// is [`FarError::Lost`], and what does not come in time is [`FarError::Deadline`]. Both say how many bytes were copied
    /// before.
    pub fn try_read(&self, start: usize, into: &mut [u8], deadline: Duration) -> Result<(), FarError> {
        let span = self.span(start, into.len())?;
        self.allows(&span, PageProtection::can_read)?;
        self.try_each(span, deadline, |place, done, len| {
            let into = &mut into[done..done + len];
            // SAFETY: the chunk is here and stays while this runs. Others may write it, for which this copy is made; `into`
            // is the caller's alone.
            unsafe { copy_from_shared(place, into.as_mut_ptr(), len) }
        })
    }

    /// Copies bytes into far memory from `start` on, in the same way. What is written to an object whose memory server is
    /// lost stays here and can be read, but never reaches a server.
    pub fn try_write(&mut self, start: usize, from: &[u8], deadline: Duration) -> Result<(), FarError> {
        // SAFETY: the object is borrowed for this alone, so no reference into it lives.
        unsafe { self.try_write_shared(start, from, deadline) }
    }

    /// As [`try_write`](Self::try_write), for threads that share an object and divide its bytes among themselves.
    ///
    /// # Safety
    ///
    /// As for a store by [pointer](Self::as_ptr): no reference to these bytes lives, and meanwhile other threads access them only
    /// by [`try_read`](Self::try_read), by this, or as they may access bytes that another process writes.
    pub unsafe fn try_write_shared(
        &self,
        start: usize,
        from: &[u8],
        deadline: Duration,
    ) -> Result<(), FarError> {
        if !self.is_writable() {
            return Err(FarError::ReadOnly { name: self.name().to_owned() });
        }
        let span = self.span(start, from.len())?;
        self.allows(&span, PageProtection::can_write)?;
        self.try_each(span, deadline, |place, done, len| {
            let from = &from[done..done + len];
            // SAFETY: the chunk is here and stays while this runs, and may be written; by the contract above no reference to
            // these bytes lives. Others may use them, for which this copy is made; no thread writes to `from` while it is
            // borrowed.
            unsafe { copy_to_shared(from.as_ptr(), place, len) }
        })
    }

    pub(super) fn span(&self, start: usize, len: usize) -> Result<Range<usize>, FarError> {
        let (end, size) = (start.saturating_add(len), self.len());
        if end > size {
            return Err(FarError::OutOfBounds { start, end, size });
        }
        Ok(start..end)
    }

    /// Calls `copy` for each chunk that the span has bytes of, while it is here: with the address, how many bytes of the span
    /// were before, and how many these are.
    pub(super) fn try_each(
        &self,
        span: Range<usize>,
        deadline: Duration,
        mut copy: impl FnMut(*mut u8, usize, usize),
    ) -> Result<(), FarError> {
        let until = Instant::now().checked_add(deadline);
        // No program waits for so long.
        let until = until.unwrap_or_else(|| Instant::now() + Duration::from_secs(1 << 32));
        let (chunk, first) = (self.chunk(), self.regions()[0].start());
        let mut at = span.start;
        let mut asked = span.start;
        while at < span.end {
            let len = (chunk - at % chunk).min(span.end - at);
            if at >= asked && !deadline.is_zero() {
                asked = self.ask_ahead(at + len..span.end);
            }
            let (region, index) = self.chunk_at(at);
            let (addresses, done) = (Span { start: first.plus(at), len }, at - span.start);
            let place = addresses.start.get() as *mut u8;
            let threads = &self.shared().threads;
            let used = threads.with_chunk((region, index), addresses, until, || copy(place, done, len));
            used.map_err(|missing| self.missing(missing, at..at + len, done, deadline))?;
            at += len;
        }
        Ok(())
    }

    /// Has the next chunks of a span fetched in the background, and says up to where.
    fn ask_ahead(&self, span: Range<usize>) -> usize {
        let pages = &self.shared().pages;
        let window = pages.config().ahead.min(pages.buffer() / 8).max(self.chunk());
        let end = span.end.min(span.start.saturating_add(window));
        if span.start < end
            && let Ok(parts) = self.chunks(&(span.start..end))
        {
            self.fetch_parts(&parts);
        }
        end
    }

    fn missing(&self, missing: Missing, span: Range<usize>, done: usize, deadline: Duration) -> FarError {
        let (region, _) = self.chunk_at(span.start);
        let server = self.shared().servers[region.spec().at].clone();
        let (name, Range { start, end }) = (self.name().to_owned(), span);
        match (missing, PagedRegion::lost_because(region)) {
            (Missing::Lost, Some(why)) => FarError::Lost { server, name, start, end, done, why: why.clone() },
            (Missing::Parent { process }, _) => FarError::OfParent { name, process },
            (Missing::ThrownAway, _) => FarError::ThrownAway { name, start, end, done },
            _ => FarError::Deadline { server, name, start, end, done, waited: deadline },
        }
    }
}

macro_rules! tries {
    (($($generics:tt)+) $array:ty) => {
        impl<$($generics)+> $array {
            /// Copies elements from `start` on into `into`, as [`FarMapping::try_read`] does with bytes: with an error where
            /// plain reading would raise a signal.
            pub fn try_read(&self, start: usize, into: &mut [T], deadline: Duration) -> Result<(), FarError> {
                let start = self.byte(start, into.len())?;
                self.region().0.try_read(start, into.as_mut_bytes(), deadline)
            }

            /// As [`try_read`](Self::try_read), for a task of an executor, whose thread goes on with other tasks meanwhile.
            pub async fn read_async(
                &self,
                start: usize,
                into: &mut [T],
                deadline: Duration,
            ) -> Result<(), FarError> {
                let start = self.byte(start, into.len())?;
                self.region().0.read_async(start, into.as_mut_bytes(), deadline).await
            }

            /// As [`prefault`](Self::prefault), for a task of an executor: ends when the elements of `span` are here. As long as the
            /// buffer has room for them, touching them does not stop its thread then.
            pub async fn prefault_async(
                &self,
                span: Range<usize>,
                deadline: Duration,
            ) -> Result<(), FarError> {
                let start = self.byte(span.start, span.len())?;
                self.region().0.prefault_async(start..start + span.len() * size_of::<T>(), deadline).await
            }

            /// Where elements begin in the region, which all have to be in this array.
            pub(super) fn byte(&self, start: usize, count: usize) -> Result<usize, FarError> {
                let (element, end) = (size_of::<T>(), start.saturating_add(count));
                if end > self.count() {
                    let byte = |at: usize| at.saturating_mul(element);
                    let (start, end, size) = (byte(start), byte(end), byte(self.count()));
                    return Err(FarError::OutOfBounds { start, end, size });
                }
                Ok(self.region().1 + start * element)
            }
        }
    };
}

tries!((T: Plain, H: FarHome) FarVec<T, H>);
tries!((T: Plain) FarSlice<T>);

impl<T: Plain, H: FarHome> FarVec<T, H> {
    /// Copies elements to where `start` is, as [`FarMapping::try_write`] does with bytes: with an error where a plain store
    /// would raise a signal.
    pub fn try_write(&mut self, start: usize, from: &[T], deadline: Duration) -> Result<(), FarError> {
        let start = self.byte(start, from.len())?;
        // SAFETY: these bytes are elements of this array, which is borrowed for this alone.
        unsafe { self.region().0.try_write_shared(start, from.as_bytes(), deadline) }
    }

    /// As [`try_write`](Self::try_write), for a task of an executor, whose thread goes on with other tasks meanwhile.
    pub async fn write_async(
        &mut self,
        start: usize,
        from: &[T],
        deadline: Duration,
    ) -> Result<(), FarError> {
        let start = self.byte(start, from.len())?;
        // SAFETY: these bytes are elements of this array, which is borrowed for as long as the future lives.
        unsafe { self.region().0.write_async_shared(start, from.as_bytes(), deadline) }.await
    }
}
