//! Blocks of any size in one reservation of far memory.
//!
//! What is known of blocks is kept in ordinary memory: taking and freeing one touches no far memory, and so causes no page fault.

mod allocator;
mod boxed;
mod packs;
mod sizes;
mod spans;

use std::alloc::Layout;
use std::fmt;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use allocator::FarAllocator;
pub use boxed::FarBox;

use super::mapping::{Advice, FarMapping};
use super::memory::FarMemory;
use super::{FarError, RegionOptions};
use outboard_driver::paging::RegionTraffic;
use outboard_limits::show_bytes;
use packs::{Block, Packs};
use spans::{Chunks, Spans, Taken};

/// Blocks cannot be aligned to more than pages, at which regions begin; no system has smaller ones.
const ALIGN_MAX: usize = 4096;

/// Many things of any size in one reservation of far memory: [`FarBox`]es, [`FarVec`](super::FarVec)s that grow, and the containers
/// of other crates by its [allocator](Self::allocator).
///
/// Reserve generously: what was never written takes memory nowhere, it only counts against the memory server's capacity. Clones are
/// the same arena; it ends when the last of them and the last thing in it are dropped. All threads may use it at once.
///
/// Blocks of up to a chunk are rounded up by a fifth at most and packed into chunks, so that what is allocated one after the other
/// comes and goes together. Longer ones take whole chunks. Where blocks are is known here alone, in ordinary memory: to take and
/// to free one causes no page fault. Chunks without blocks are discarded, here and at the memory server, when an eighth of the
/// buffer is full of them; the thread that freed the last one waits for that.
///
/// ```
/// # let _server = outboard_nearby::start();
/// use outboard::{FarBox, FarVec, Outboard, RegionOptions};
///
/// let far = Outboard::find()?.far()?;
/// let arena = far.arena(256 << 20, &RegionOptions::default())?;
/// let mut record = FarBox::new_in([0u64; 128], &arena)?;
/// record[17] = 4;
/// let mut followers = FarVec::new_in(&arena);
/// followers.extend_from_slice(&[1u32, 2, 3])?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct FarArena {
    shared: Arc<Arena>,
}

struct Arena {
    mapping: FarMapping,
    chunk: usize,
    /// Blocks of up to a chunk, by the numbers of their sizes. A thread that has one of these may wait for `spans`, never for
    /// another of these, and touches no far memory meanwhile.
    packs: Box<[Mutex<Packs>]>,
    spans: Mutex<Spans>,
    /// One thread discards at a time.
    discarding: Mutex<()>,
    /// How many stale chunks are too many.
    stale_max: AtomicUsize,
    /// How many bytes blocks have.
    allocated: AtomicU64,
}

/// A block, for those inside who know its layout.
pub(super) struct FarBlock {
    pub(super) start: NonNull<u8>,
    /// Whether all its bytes are zero.
    pub(super) is_zero: bool,
}

impl FarMemory {
    /// Reserves `bytes` bytes for things of any size.
    pub fn arena(&self, bytes: u64, options: &RegionOptions) -> Result<FarArena, FarError> {
        if let Some(name) = &options.name {
            return Err(FarError::NamedArena { name: name.clone() });
        }
        let chunk = options.chunk.max(1) as u64;
        // Chunks are counted in 32 bits.
        let whole =
            bytes.max(1).checked_next_multiple_of(chunk).filter(|whole| whole / chunk < u64::from(u32::MAX));
        let whole = whole.ok_or(FarError::TooLong { len: bytes as usize, element: 1 })?;
        let mapping = self.reserve(whole, options)?;
        let chunk = mapping.chunk();
        let pack = |number| Mutex::new(Packs::new(sizes::bytes_of(number), chunk));
        Ok(FarArena {
            shared: Arc::new(Arena {
                chunk,
                packs: (0..sizes::count(chunk)).map(pack).collect(),
                spans: Mutex::new(Spans::new((mapping.len() / chunk) as u32)),
                discarding: Mutex::new(()),
                stale_max: AtomicUsize::new(stale_usual(self.buffer(), chunk)),
                allocated: AtomicU64::new(0),
                mapping,
            }),
        })
    }
}

impl FarArena {
    /// Takes a block. What is in it is not said. It stays where it is until it is [given back](Self::dealloc), or until the arena
    /// ends. A block of no bytes is nowhere, and takes none.
    ///
    /// The memory server has the bytes whenever they are not here. What must be right for the program not to do harm, such as
    /// pointers, should be stored only if it is [trusted](Self::allocator) to give them back as they were.
    pub fn alloc(&self, layout: Layout) -> Result<NonNull<u8>, FarError> {
        Ok(self.take(layout)?.start)
    }

    /// Takes a block full of zeros, as [`alloc`](Self::alloc) takes one. Bytes that were never used are zero, and are not touched.
    pub fn alloc_zeroed(&self, layout: Layout) -> Result<NonNull<u8>, FarError> {
        let FarBlock { start, is_zero } = self.take(layout)?;
        if !is_zero {
            // SAFETY: the block has as many bytes, and no other thread knows it.
            unsafe { start.as_ptr().write_bytes(0, layout.size()) };
        }
        Ok(start)
    }

    /// Gives a block back.
    ///
    /// # Safety
    ///
    /// It was taken from this arena for such a layout (of at least as many bytes as were asked for, and at most as many as
    /// [`room`](Self::room) said), and nothing uses it any more.
    ///
    /// # Panics
    ///
    /// If it is not one that is taken, as far as that is noticed.
    pub unsafe fn dealloc(&self, block: NonNull<u8>, layout: Layout) {
        self.shared.give(block, layout);
    }

    /// How many bytes a block for `layout` has in truth, all of which may be used.
    pub fn room(&self, layout: Layout) -> usize {
        self.shared.room(layout)
    }

    /// Makes a block longer or shorter, with what is in it as far as it fits, and returns where it is now. It stays in its place
    /// where that has room: a block longer than a chunk grows into free chunks behind it. After an error it is as it was.
    ///
    /// # Safety
    ///
    /// As for [`dealloc`](Self::dealloc), with the layout that it has had.
    pub unsafe fn realloc(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<u8>, FarError> {
        if self.shared.resize_in_place(block, old, new) {
            return Ok(block);
        }
        let moved = self.alloc(new)?;
        // SAFETY: both blocks have as many bytes, and are different ones.
        unsafe { moved.copy_from_nonoverlapping(block, old.size().min(new.size())) };
        self.shared.give(block, old);
        Ok(moved)
    }

    /// Discards all chunks that have no blocks, here and at the memory server, which it waits for. They take no memory then. This
    /// happens by itself when an eighth of the buffer is full of such chunks.
    pub fn trim(&self) -> Result<(), FarError> {
        self.shared.mapping.shared().check_here(self.shared.mapping.name())?;
        for packs in &self.shared.packs {
            let mut packs = lock(packs);
            if let Some(chunks) = packs.give_up_empty() {
                lock(&self.shared.spans).give(&chunks);
            }
        }
        self.shared.discard_stale(lock(&self.shared.discarding))
    }

    /// How many bytes were reserved.
    pub fn reserved(&self) -> u64 {
        self.shared.mapping.len() as u64
    }

    /// How many bytes the blocks have that are taken.
    pub fn allocated(&self) -> u64 {
        self.shared.allocated.load(Ordering::Relaxed)
    }

    /// What of it has crossed links so far.
    pub fn traffic(&self) -> RegionTraffic {
        self.shared.mapping.traffic()
    }

    /// Says how it will be used.
    pub fn advise(&self, advice: Advice) -> Result<(), FarError> {
        self.shared.mapping.advise(0..self.shared.mapping.len(), advice)
    }

    /// What was chosen for it and why, for people: the lines of its region, and one that says how much of it is taken.
    pub fn explain(&self) -> Vec<String> {
        if !self.shared.mapping.shared().is_here() {
            return self.shared.mapping.explain();
        }
        let (free, _) = lock(&self.shared.spans).free();
        let free = u64::from(free) * self.shared.chunk as u64;
        let [allocated, reserved, free] = [self.allocated(), self.reserved(), free].map(show_bytes);
        let mut lines = self.shared.mapping.explain();
        lines.push(format!("{allocated} of {reserved} are in blocks, {free} in chunks without blocks"));
        lines
    }

    /// The region that it lies in, for what concerns addresses and bytes: what is said of a span of it is said of the blocks there.
    pub fn mapping(&self) -> &FarMapping {
        &self.shared.mapping
    }

    pub(super) fn take(&self, layout: Layout) -> Result<FarBlock, FarError> {
        self.shared.take(layout)
    }

    /// As [`dealloc`](Self::dealloc), of a block that its only owner gives up.
    pub(super) fn give(&self, start: NonNull<u8>, layout: Layout) {
        self.shared.give(start, layout);
    }

    /// Whether a block could be made to have another layout where it is, which has been done then.
    pub(super) fn resize_in_place(&self, start: NonNull<u8>, old: Layout, new: Layout) -> bool {
        self.shared.resize_in_place(start, old, new)
    }
}

impl Arena {
    fn take(&self, layout: Layout) -> Result<FarBlock, FarError> {
        self.mapping.shared().check_here(self.mapping.name())?;
        if layout.align() > ALIGN_MAX {
            return Err(FarError::TooAligned { align: layout.align(), most: ALIGN_MAX });
        }
        if layout.size() == 0 {
            return Ok(FarBlock { start: nowhere(layout.align()), is_zero: true });
        }
        let block = match sizes::number_of(layout, self.chunk) {
            Some(number) => self.take_packed(number),
            None => self.take_chunks(self.chunks_of(layout)).map(|Taken { chunks, is_zero }| Block {
                offset: u64::from(chunks.start) * self.chunk as u64,
                is_zero,
            }),
        };
        let Block { offset, is_zero } = block.ok_or_else(|| self.full(layout.size()))?;
        self.allocated.fetch_add(self.room(layout) as u64, Ordering::Relaxed);
        // SAFETY: inside the region, which is mapped as long as `self`.
        let start = unsafe { self.mapping.as_ptr().add(offset as usize) };
        Ok(FarBlock { start, is_zero })
    }

    fn take_packed(&self, number: usize) -> Option<Block> {
        let mut packs = lock(&self.packs[number]);
        if let Some(block) = packs.take() {
            return Some(block);
        }
        match lock(&self.spans).take(packs.chunks()) {
            Some(taken) => {
                packs.add(&taken);
                packs.take()
            }
            None => packs.take_any(),
        }
    }

    fn take_chunks(&self, count: u32) -> Option<Taken> {
        lock(&self.spans).take(count)
    }

    fn give(&self, start: NonNull<u8>, layout: Layout) {
        // In a child that was forked another thread may have the locks for ever, and the arena is the parent's.
        if layout.size() == 0 || !self.mapping.shared().is_here() {
            return;
        }
        let offset = (start.as_ptr() as usize - self.mapping.as_ptr().as_ptr() as usize) as u64;
        let given = match sizes::number_of(layout, self.chunk) {
            Some(number) => lock(&self.packs[number]).give(offset),
            None => {
                let first = (offset / self.chunk as u64) as u32;
                Some(first..first + self.chunks_of(layout))
            }
        };
        self.allocated.fetch_sub(self.room(layout) as u64, Ordering::Relaxed);
        if let Some(chunks) = given {
            self.give_chunks(&chunks);
        }
    }

    /// Gives chunks back, and discards those that are stale if these are too many now.
    fn give_chunks(&self, chunks: &Chunks) {
        let stale = {
            let mut spans = lock(&self.spans);
            spans.give(chunks);
            spans.stale() as usize
        };
        let stale_max = self.stale_max.load(Ordering::Relaxed);
        if stale < stale_max {
            return;
        }
        // Another thread that does so will not take long, and these can wait for the next.
        if let Ok(turn) = self.discarding.try_lock() {
            let next = match self.discard_stale(turn) {
                Ok(()) => stale_usual(self.mapping.memory().buffer(), self.chunk),
                // The server is away: it is not asked again before there is twice as much. What could not be discarded can be
                // used all the same.
                Err(_) => stale.saturating_mul(2),
            };
            self.stale_max.store(next, Ordering::Relaxed);
        }
    }

    fn discard_stale(&self, _turn: MutexGuard<'_, ()>) -> Result<(), FarError> {
        let stale = lock(&self.spans).take_stale();
        let mut result = Ok(());
        for chunks in stale {
            let bytes = chunks.start as usize * self.chunk..chunks.end as usize * self.chunk;
            // After the first that fails the others would wait for as long.
            if result.is_ok() {
                // SAFETY: no block has them, and none gets them before they are given back.
                result = unsafe { self.mapping.discard_unused(bytes) };
            }
            let mut spans = lock(&self.spans);
            if result.is_ok() { spans.give_zero(&chunks) } else { spans.give(&chunks) }
        }
        result
    }

    fn resize_in_place(&self, start: NonNull<u8>, old: Layout, new: Layout) -> bool {
        let has_bytes = old.size() > 0 && new.size() > 0;
        if !start.as_ptr().addr().is_multiple_of(new.align())
            || !has_bytes
            || !self.mapping.shared().is_here()
        {
            return false;
        }
        let numbers = [old, new].map(|layout| sizes::number_of(layout, self.chunk));
        let [before, after] = [old, new].map(|layout| self.chunks_of(layout));
        if numbers != [None, None] || before == after {
            return numbers[0] == numbers[1];
        }
        let first = ((start.as_ptr().addr() - self.mapping.as_ptr().as_ptr().addr()) / self.chunk) as u32;
        if after < before {
            self.allocated.fetch_sub(u64::from(before - after) * self.chunk as u64, Ordering::Relaxed);
            self.give_chunks(&(first + after..first + before));
            return true;
        }
        let more = first + before..first.saturating_add(after);
        let is_taken = lock(&self.spans).take_at(more).is_some();
        if is_taken {
            self.allocated.fetch_add(u64::from(after - before) * self.chunk as u64, Ordering::Relaxed);
        }
        is_taken
    }

    /// How many chunks a block takes that is longer than one.
    fn chunks_of(&self, layout: Layout) -> u32 {
        // More than there can be is more than is free.
        u32::try_from(layout.size().div_ceil(self.chunk)).unwrap_or(u32::MAX)
    }

    fn room(&self, layout: Layout) -> usize {
        match sizes::number_of(layout, self.chunk) {
            _ if layout.size() == 0 => 0,
            Some(number) => sizes::bytes_of(number),
            None => self.chunks_of(layout) as usize * self.chunk,
        }
    }

    fn full(&self, asked: usize) -> FarError {
        let (free, longest) = lock(&self.spans).free();
        let [free, longest] = [free, longest].map(|chunks| u64::from(chunks) * self.chunk as u64);
        FarError::ArenaFull { asked, reserved: self.mapping.len() as u64, free, longest }
    }
}

/// How many stale chunks are too many, as long as the memory server answers.
fn stale_usual(buffer: usize, chunk: usize) -> usize {
    (buffer / 8 / chunk).max(4)
}

/// Where things without bytes are.
pub(super) fn nowhere(align: usize) -> NonNull<u8> {
    NonNull::new(ptr::without_provenance_mut(align)).expect("alignments are not zero")
}

/// Nothing panics in the middle of a change but for blocks that are freed wrongly, before anything of others has changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for FarArena {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (reserved, allocated) = (self.reserved(), self.allocated());
        f.debug_struct("FarArena").field("reserved", &reserved).field("allocated", &allocated).finish()
    }
}
