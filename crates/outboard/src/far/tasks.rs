//! Far memory for tasks of an executor: futures that wait for chunks, in place of threads that do.

use std::future::poll_fn;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use outboard_driver::paging::{PageProtection, ThreadsError};
use outboard_link::memory::copy::{copy_from_shared, copy_to_shared};

use super::memory::Shared;
use super::{FarError, FarMapping};

/// The futures that wait for chunks, and the thread that wakes them: wakers are others' code, which fault threads must not run.
/// It starts with the first future that has to wait, and ends with far memory.
#[derive(Default)]
pub(super) struct WakerThread {
    queue: Arc<Queue>,
}

#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    wakers: Vec<Waker>,
    /// The oldest news that any of them has seen.
    news: Option<u64>,
    has_thread: bool,
    is_over: bool,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for futures that wait, and takes them. None when far memory has ended.
    fn next(&self) -> Option<(u64, Vec<Waker>)> {
        let mut waiting = self.lock();
        loop {
            if waiting.is_over {
                return None;
            }
            if let Some(news) = waiting.news.take() {
                return Some((news, std::mem::take(&mut waiting.wakers)));
            }
            waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn run(&self, far: &Weak<Shared>) {
        while let Some((news, wakers)) = self.next() {
            if let Some(far) = far.upgrade() {
                far.threads.wait_for_arrival(news);
            }
            for waker in wakers {
                // An executor that panics must not keep those of others waiting.
                let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
            }
        }
    }
}

impl Drop for WakerThread {
    fn drop(&mut self) {
        self.queue.lock().is_over = true;
        self.queue.changed.notify_all();
    }
}

impl Shared {
    /// Wakes a future when there is other news than this, or a moment later.
    fn wake_later(self: &Arc<Self>, waker: &Waker, news: u64) -> Result<(), FarError> {
        let queue = &self.wakers.queue;
        let mut waiting = queue.lock();
        if !waiting.has_thread {
            let (queue, far) = (Arc::clone(queue), Arc::downgrade(self));
            let thread = std::thread::Builder::new().name("outboard-wakers".to_owned());
            let thread = thread.spawn(move || queue.run(&far));
            thread.map_err(|error| FarError::of_threads(ThreadsError::from(error)))?;
            waiting.has_thread = true;
        }
        waiting.wakers.push(waker.clone());
        waiting.news = Some(waiting.news.map_or(news, |other| other.min(news)));
        queue.changed.notify_all();
        Ok(())
    }
}

impl FarMapping {
    /// As [`try_read`](Self::try_read), for a task of an executor: what is not here is fetched while its thread goes on with other
    /// tasks. Any executor will do. A future that is dropped has read a part of it, or nothing.
    pub async fn read_async(
        &self,
        start: usize,
        into: &mut [u8],
        deadline: Duration,
    ) -> Result<(), FarError> {
        let span = self.span(start, into.len())?;
        self.allows(&span, PageProtection::can_read)?;
        self.await_each(span, deadline, |place, done, len| {
            let into = &mut into[done..done + len];
            // SAFETY: the chunk is here and stays while this runs. Others may write it, for which this copy is made; `into`
            // is the caller's alone.
            unsafe { copy_from_shared(place, into.as_mut_ptr(), len) }
        })
        .await
    }

    /// As [`try_write`](Self::try_write), for a task of an executor, in the same way.
    pub async fn write_async(
        &mut self,
        start: usize,
        from: &[u8],
        deadline: Duration,
    ) -> Result<(), FarError> {
        // SAFETY: the object is borrowed for as long as the future lives, so no reference into it does.
        unsafe { self.write_async_shared(start, from, deadline) }.await
    }

    /// Writes bytes of an object of which other bytes are used meanwhile.
    ///
    /// # Safety
    ///
    /// As for [`try_write_shared`](Self::try_write_shared), as long as the future lives.
    pub(super) async unsafe fn write_async_shared(
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
        self.await_each(span, deadline, |place, done, len| {
            let from = &from[done..done + len];
            // SAFETY: the chunk is here and stays while this runs, and may be written; by the contract above no reference to these
            // bytes lives. Others may use them, for which this copy is made; no thread writes to `from` while it is borrowed.
            unsafe { copy_to_shared(from.as_ptr(), place, len) }
        })
        .await
    }

    /// Ends when the bytes of `span` are here, for a task of an executor: each of their chunks has been here since this began, and
    /// stays as long as the buffer has room.
    pub async fn prefault_async(&self, span: Range<usize>, deadline: Duration) -> Result<(), FarError> {
        self.check_span(&span)?;
        self.await_each(span, deadline, |_, _, _| ()).await
    }

    /// Calls `copy` for each chunk that the span has bytes of, when it is here.
    async fn await_each(
        &self,
        span: Range<usize>,
        deadline: Duration,
        mut copy: impl FnMut(*mut u8, usize, usize),
    ) -> Result<(), FarError> {
        let begun = Instant::now();
        let mut before = 0;
        poll_fn(move |context| {
            // What comes from here on is news.
            let news = self.shared().threads.news();
            let rest = span.start + before..span.end;
            let tried =
                self.try_each(rest, Duration::ZERO, |place, done, len| copy(place, before + done, len));
            let Err(mut error) = tried else { return Poll::Ready(Ok(())) };
            let waited = begun.elapsed();
            match &mut error {
                FarError::Lost { done, .. } | FarError::ThrownAway { done, .. } => *done += before,
                FarError::Deadline { done, waited: told, .. } => {
                    *done += before;
                    *told = waited;
                    if waited < deadline {
                        before = *done;
                        let asked = self.ask_for(span.start + before..span.end);
                        let asked = asked.and_then(|()| self.shared().wake_later(context.waker(), news));
                        return asked.map_or_else(|error| Poll::Ready(Err(error)), |()| Poll::Pending);
                    }
                }
                _ => {}
            }
            Poll::Ready(Err(error))
        })
        .await
    }

    /// Asks for the first chunk of a span, and for those behind it as far as there is room.
    fn ask_for(&self, span: Range<usize>) -> Result<(), FarError> {
        let (region, index) = self.chunk_at(span.start);
        self.shared().threads.want(region, index);
        let next = (span.start / self.chunk() + 1) * self.chunk();
        self.prefetch((next < span.end).then_some(next..span.end))
    }
}
