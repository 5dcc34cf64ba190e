//! The least that a page-fault handler can do: the same frames move into the region and out of it for ever.
//!
//! One frame, resident and outside of the region, is always in hand. At a fault it is filled from memory that stands
//! for a server's, and moved in, which lets the application go on; only then the oldest chunk is moved out, copied
//! back if the application stores, and its frame is in hand for the next fault. So a thread that faults waits for one
//! copy and one move, and for what is left of the work on the fault before.
//!
//! One thread, not pinned by itself, sleeps in a blocking read: between one fault and the next, nothing is cheaper. There is no lock and no table but the ring of what is
//! resident; one application thread is all it can serve.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use outboard_link::memory::{Buffer, Segment};
use outboard_userfaultfd::{FaultWatch, Features, KernelMessages, Stopped, Userfaultfd, Wake};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::mm::{Advice, madvise};

use crate::BenchError;
use crate::error::Named;

/// What an application does to the region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Traffic {
    /// It loads; chunks are forgotten when they leave.
    Loads,
    /// It stores; chunks are copied back when they leave.
    Stores,
}

/// How large everything is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Bytes in a chunk, a multiple of the page size.
    pub(crate) chunk_len: usize,
    /// Chunks in the region.
    pub(crate) chunks: usize,
    /// Chunks that there is memory for, the frame in hand included.
    pub(crate) buffer: usize,
}

impl Shape {
    /// A region of `footprint` bytes and memory for a third of it.
    pub(crate) fn third(footprint: usize, chunk_len: usize) -> Self {
        let chunks = footprint / chunk_len;
        Self { chunk_len, chunks, buffer: chunks / 3 }
    }

    /// The size of the region in bytes.
    pub(crate) fn footprint(&self) -> usize {
        self.chunks * self.chunk_len
    }
}

/// A region whose faults are answered by the bare loop.
pub(crate) struct BareRecycle {
    /// The region, then the frame in hand, then a page whose fault ends the handler.
    memory: Buffer,
    shape: Shape,
    faults: Arc<AtomicU64>,
    handler: Option<JoinHandle<Result<Segment, BenchError>>>,
}

impl BareRecycle {
    /// A region that holds what `word` says for each offset, as much of it resident as there is room for.
    pub(crate) fn start(
        shape: Shape,
        traffic: Traffic,
        word: impl Fn(usize) -> u64,
    ) -> Result<Self, BenchError> {
        let footprint = shape.footprint();
        assert!(
            shape.buffer >= 2 && shape.buffer <= shape.chunks,
            "room for a chunk and for a frame in hand"
        );
        let source = Segment::create(c"outboard-bare-source", footprint).named("memfd_create")?;
        for offset in (0..footprint).step_by(8) {
            source.word(offset).store(word(offset), Ordering::Relaxed);
        }
        let len = footprint + shape.chunk_len + rustix::param::page_size();
        let memory = Buffer::allocate(len).named("mmap")?;
        let start = memory.window_mut().as_mut_ptr();
        // SAFETY: a mapping of our own that holds nothing yet.
        unsafe { madvise(start.cast(), len, Advice::LinuxNoHugepage) }.named("madvise")?;
        // SAFETY: as above.
        unsafe { madvise(start.cast(), len, Advice::LinuxDontFork) }.named("madvise")?;
        let resident = shape.buffer - 1;
        // SAFETY: both are at least that long and do not overlap.
        unsafe { start.copy_from_nonoverlapping(source.start().as_ptr(), resident * shape.chunk_len) };
        // SAFETY: the frame lies inside the mapping.
        unsafe { start.add(footprint).write_bytes(0, shape.chunk_len) };
        let faults = Arc::new(AtomicU64::new(0));
        let handler = Handler {
            userfaultfd: watch(start.addr(), len)?,
            start,
            shape,
            traffic,
            source,
            resident: (0..resident).collect(),
            oldest: 0,
            faults: Arc::clone(&faults),
        };
        let handler = std::thread::Builder::new()
            .name("bare-recycle".to_owned())
            .spawn(|| handler.run())
            .named("clone")?;
        Ok(Self { memory, shape, faults, handler: Some(handler) })
    }

    /// Where the region begins. A thread that touches it may wait for the handler.
    pub(crate) fn region(&self) -> *mut u8 {
        self.memory.window_mut().as_mut_ptr()
    }

    /// How many faults have been answered.
    pub(crate) fn faults(&self) -> u64 {
        self.faults.load(Ordering::Acquire)
    }

    /// Ends the handler, once, and says how it fared; the source has all that was stored. What is not resident reads
    /// as zeros from then on.
    pub(crate) fn stop(&mut self) -> Result<Option<Segment>, BenchError> {
        let Some(handler) = self.handler.take() else { return Ok(None) };
        let last_page = self.shape.footprint() + self.shape.chunk_len;
        // SAFETY: the page lies inside the mapping; the handler, or the kernel if there is none, answers its fault.
        unsafe { self.region().add(last_page).read_volatile() };
        let ended =
            handler.join().unwrap_or(Err(BenchError::PeerGone { awaited: "the fault handler's end" }));
        ended.map(Some)
    }
}

impl Drop for BareRecycle {
    fn drop(&mut self) {
        // No thread asks any more.
        let _ = self.stop();
    }
}

/// A userfaultfd for all faults of the memory, whose reads block.
fn watch(start: usize, len: usize) -> Result<Userfaultfd, BenchError> {
    let (userfaultfd, _) = Userfaultfd::open_best().named("userfaultfd")?;
    userfaultfd.agree(Features::MOVE).named("userfaultfd with UFFDIO_MOVE")?;
    rustix::fs::fcntl_setfl(&userfaultfd, OFlags::empty()).named("fcntl")?;
    // SAFETY: memory that the caller has just mapped, and answers for.
    unsafe { userfaultfd.register(start, len, FaultWatch::Missing) }.named("UFFDIO_REGISTER")?;
    Ok(userfaultfd)
}

/// The thread that answers faults. When it ends, its userfaultfd is closed and no thread waits any longer.
struct Handler {
    userfaultfd: Userfaultfd,
    start: *mut u8,
    shape: Shape,
    traffic: Traffic,
    source: Segment,
    /// Chunks in the order in which they came; the oldest is at `oldest`.
    resident: Vec<usize>,
    oldest: usize,
    faults: Arc<AtomicU64>,
}

// SAFETY: the memory outlives the thread, which `BareRecycle` ends before it gives the memory back.
unsafe impl Send for Handler {}

impl Handler {
    fn run(mut self) -> Result<Segment, BenchError> {
        let mut messages = KernelMessages::default();
        loop {
            self.userfaultfd.read(&mut messages).named("read")?;
            for fault in messages.faults() {
                let chunk = (fault.address - self.start.addr()) / self.shape.chunk_len;
                if chunk >= self.shape.chunks {
                    return Ok(self.settle());
                }
                self.answer(chunk)?;
            }
        }
    }

    fn answer(&mut self, chunk: usize) -> Result<(), BenchError> {
        let Shape { chunk_len, chunks, .. } = self.shape;
        let hand = self.start.wrapping_add(chunks * chunk_len);
        let home = |chunk: usize| self.source.start().as_ptr().wrapping_add(chunk * chunk_len);
        let place = |chunk: usize| self.start.addr() + chunk * chunk_len;
        // SAFETY: a chunk of the source and the frame in hand, both mapped, neither used by another thread.
        unsafe { hand.copy_from_nonoverlapping(home(chunk), chunk_len) };
        self.faults.fetch_add(1, Ordering::Release);
        self.relocate(hand.addr(), place(chunk))?;
        let oldest = core::mem::replace(&mut self.resident[self.oldest], chunk);
        self.oldest = (self.oldest + 1) % self.resident.len();
        self.relocate(place(oldest), hand.addr())?;
        if self.traffic == Traffic::Stores {
            // SAFETY: as above; the application can no longer store to what was moved out.
            unsafe { home(oldest).copy_from_nonoverlapping(hand, chunk_len) };
        }
        Ok(())
    }

    /// Copies back what is still resident.
    fn settle(self) -> Segment {
        let chunk_len = self.shape.chunk_len;
        for chunk in self.resident.iter().filter(|_| self.traffic == Traffic::Stores) {
            let at = chunk * chunk_len;
            let home = self.source.start().as_ptr().wrapping_add(at);
            // SAFETY: a chunk of both; the application waits for the handler's end.
            unsafe { home.copy_from_nonoverlapping(self.start.wrapping_add(at), chunk_len) };
        }
        self.source
    }

    fn relocate(&self, from: usize, to: usize) -> Result<(), BenchError> {
        let mut moved = 0;
        while moved < self.shape.chunk_len {
            let left = self.shape.chunk_len - moved;
            // SAFETY: both lie in the registered memory; a chunk that is absent is what the application expects.
            match unsafe { self.userfaultfd.relocate(from + moved, to + moved, left, Wake::Now) } {
                Ok(()) => break,
                Err(Stopped { done, errno: Errno::AGAIN }) => moved += done,
                Err(Stopped { errno, .. }) => return Err(errno).named("UFFDIO_MOVE"),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
