//! All far memory of this process: shards, frames, regions.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard};

use outboard_contract::memory::Buffer;

use super::children::Children;
use super::chunks::{ChunkKey, Pool, SeatFrame, SeatId, Shard, SizeClass};
use super::config::{PagingError, check_chunk};
use super::fingerprint::{Fingerprint, FingerprintKey, PAGE};
use super::in_place::Left;
use super::recording::{RecordedRegion, Recorder, Recording};
use super::region::PagedRegion;
use super::space::{FrameSpan, PageSpace, ProcessAddress};
use super::stats::Tally;
use super::stripes::Stripes;
use super::waiting::Waiting;
use super::{PagingConfig, RegionSpec};

/// The frames of one size.
pub(super) struct Notes {
    pages: usize,
    fingerprints: Vec<Fingerprint>,
}

impl Notes {
    /// The fingerprints of the pages of a frame.
    pub(super) fn of(&mut self, slot: u32) -> &mut [Fingerprint] {
        let at = slot as usize * self.pages;
        &mut self.fingerprints[at..at + self.pages]
    }
}

/// Number of size classes, with room to spare.
const CLASSES: usize = 32;

/// A shard with what is remembered of its frames.
pub struct Cell {
    pub(super) shard: Shard,
    pub(super) notes: [Option<Notes>; CLASSES],
    /// How many bytes are promised to stay.
    pub(super) pinned: usize,
}

impl Cell {
    pub(super) fn new(shard: Shard) -> Self {
        Self { shard, notes: [const { None }; CLASSES], pinned: 0 }
    }

    /// The state of its chunks.
    pub fn shard(&self) -> &Shard {
        &self.shard
    }
}

/// A shard and its frames.
pub(super) struct Shelf {
    cell: Mutex<Cell>,
    /// Set while the lock is given back, read without it.
    chores: AtomicU8,
    /// All frames of each size, which links fill and read from.
    frames: [OnceLock<Buffer>; CLASSES],
}

/// The work in a shard besides faults. Fault threads look at every shard in every turn, mostly in vain, and
/// must not wait for each other's locks to find that out.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub(super) enum Chore {
    /// Faults wait for seats.
    Unpark = 1,
    /// Changed chunks wait to be saved.
    Save = 2,
    /// Chunks should leave.
    MakeRoom = 4,
    /// A chunk should leave to see whether it is used.
    Sample = 8,
    /// Chunks are divided, and the rest of one may be wanted.
    Gather = 16,
}

impl Shelf {
    pub(super) fn lock(&self) -> CellGuard<'_> {
        let cell = self.cell.lock().unwrap_or_else(PoisonError::into_inner);
        CellGuard { cell, chores: &self.chores }
    }

    /// Whether there was such a thing to do when the shard was last let go.
    pub(super) fn has(&self, chore: Chore) -> bool {
        self.chores.load(Ordering::Acquire) & chore as u8 != 0
    }

    /// Where a seat's frame lies. Frames are made before any chunk of their size can be asked for.
    pub(super) fn frame(&self, SeatFrame { class, slot }: SeatFrame) -> FrameSpan<'_> {
        let buffer = self.frames[usize::from(class.0)].get();
        let buffer = buffer.expect("frames are made before regions are mapped");
        FrameSpan::new(buffer, slot as usize * class.bytes(), class.bytes())
    }

    /// The frame of a seat of its shard.
    pub(super) fn frame_of(&self, cell: &Cell, seat: SeatId) -> FrameSpan<'_> {
        self.frame(cell.shard.frame(seat))
    }
}

/// A locked shard; says what is left to do there when it is let go.
pub struct CellGuard<'a> {
    cell: MutexGuard<'a, Cell>,
    chores: &'a AtomicU8,
}

impl Deref for CellGuard<'_> {
    type Target = Cell;

    fn deref(&self) -> &Cell {
        &self.cell
    }
}

impl DerefMut for CellGuard<'_> {
    fn deref_mut(&mut self) -> &mut Cell {
        &mut self.cell
    }
}

impl Drop for CellGuard<'_> {
    fn drop(&mut self) {
        let shard = &mut self.cell.shard;
        shard.settle();
        let chores = (u8::from(shard.parked() > 0) * Chore::Unpark as u8)
            | (u8::from(shard.unsaved() > 0) * Chore::Save as u8)
            | (u8::from(shard.wants_room()) * Chore::MakeRoom as u8)
            | (u8::from(shard.wants_sample()) * Chore::Sample as u8)
            | (u8::from(shard.has_divided()) * Chore::Gather as u8);
        self.chores.store(chores, Ordering::Release);
    }
}

/// All far memory of this process. Fault threads and the application share it.
pub struct Pages<S> {
    pub(super) config: PagingConfig,
    pub(super) space: S,
    pub(super) key: Box<FingerprintKey>,
    pub(super) fingerprint_of_zeros: Fingerprint,
    /// The common state of all shards.
    pub(super) pool: Arc<Pool>,
    /// Held while the size of the buffer is changed.
    pub(super) resizing: Mutex<()>,
    pub(super) shelves: Box<[Shelf]>,
    regions: RwLock<Vec<Arc<PagedRegion>>>,
    /// Held while regions are marked as lost.
    pub(super) losing: Mutex<()>,
    next_number: AtomicU32,
    /// How many regions have been mapped, so that each is made known to all peers.
    pub(super) arrived: AtomicU32,
    /// How many regions have been lost or closed, so that jobs that wait for them are found.
    pub(super) departed: AtomicU32,
    pub(super) tally: Tally,
    /// How many fault threads have a link to each memory server.
    pub(super) server_links: Box<[AtomicU32]>,
    /// Which servers people have been told to be away.
    pub(super) is_away: Box<[AtomicBool]>,
    /// How many want to be told of what is lost.
    pub listeners: AtomicU32,
    /// How many threads wait for a chunk without touching it.
    pub tries: AtomicU32,
    /// How many threads wait until a region is open.
    pub openers: AtomicU32,
    /// Whether there was no seat for the last chunk that a thread wanted without touching it.
    pub(super) had_no_seat: AtomicBool,
    /// How many threads have read from the kernel and not looked whether it tells of ranges that were taken away.
    pub(super) hearing: AtomicU32,
    /// How many bytes were asked for in advance that no thread has looked at yet.
    pub(super) awaited_ahead: AtomicUsize,
    /// The work that threads that answer their own faults leave to fault threads.
    pub(super) left: Left,
    pub(super) waiting: Waiting,
    pub(super) recorder: Option<Recorder>,
    /// When write-backs that a server had no room for may be sent again, in nanoseconds.
    pub(super) saves_again_at: AtomicU64,
    /// Whether a write-back costs hardly more than the copy of its bytes.
    pub(super) saves_are_cheap: AtomicBool,
    /// The children that see far memory as it was when they were forked.
    pub(super) children: Children,
}

impl<S: PageSpace> Pages<S> {
    /// Far memory without regions.
    pub fn new(config: PagingConfig, space: S, key: Box<FingerprintKey>) -> Result<Arc<Self>, PagingError> {
        config.check(space.page_bytes())?;
        let shards = config.shards();
        let pool = Arc::new(Pool::new(config.buffer, config.buffer_max, shards));
        let shelf = || Shelf {
            chores: AtomicU8::new(0),
            cell: Mutex::new(Cell::new(Shard::of(Arc::clone(&pool)))),
            frames: [const { OnceLock::new() }; CLASSES],
        };
        let servers = config.servers.max(1);
        let server_links = std::iter::repeat_with(AtomicU32::default).take(servers).collect();
        let is_away = std::iter::repeat_with(AtomicBool::default).take(servers).collect();
        Ok(Arc::new(Self {
            shelves: std::iter::repeat_with(shelf).take(shards).collect(),
            pool,
            resizing: Mutex::new(()),
            waiting: Waiting::new(config.may_look),
            recorder: Recorder::new(config.recorded),
            children: Children::new(config.snapshots),
            config,
            space,
            fingerprint_of_zeros: key.of_zeros(),
            key,
            regions: RwLock::new(Vec::new()),
            losing: Mutex::new(()),
            next_number: AtomicU32::new(0),
            arrived: AtomicU32::new(0),
            departed: AtomicU32::new(0),
            tally: Tally::default(),
            server_links,
            is_away,
            listeners: AtomicU32::new(0),
            tries: AtomicU32::new(0),
            openers: AtomicU32::new(0),
            had_no_seat: AtomicBool::new(false),
            hearing: AtomicU32::new(0),
            awaited_ahead: AtomicUsize::new(0),
            left: Left::default(),
            saves_again_at: AtomicU64::new(0),
            saves_are_cheap: AtomicBool::new(true),
        }))
    }

    /// The settings it was made with.
    pub fn config(&self) -> &PagingConfig {
        &self.config
    }

    /// The touches so far, if they are recorded.
    pub fn recording(&self) -> Option<Recording> {
        let _uninterrupted = self.space.uninterrupted();
        self.recorder.as_ref().map(Recorder::recording)
    }

    /// The memory that it works on.
    pub fn space(&self) -> &S {
        &self.space
    }

    /// Its shards, locked one after the other.
    pub fn cells(&self) -> impl Iterator<Item = CellGuard<'_>> {
        self.shelves.iter().map(Shelf::lock)
    }

    /// Where the frame of a seat of a shard lies.
    pub fn frame(&self, shard: usize, frame: SeatFrame) -> FrameSpan<'_> {
        self.shelves[shard].frame(frame)
    }

    /// Whether a region of this size and with these chunks can be mapped.
    pub fn check(&self, bytes: u64, chunk: usize) -> Result<(), PagingError> {
        check_chunk(chunk, self.space.page_bytes())?;
        if bytes == 0 {
            return Err(PagingError::Empty);
        }
        self.has_room_for(chunk)
    }

    /// Gives an object its place among this process's addresses. Its parts are regions of one size of chunks, in order.
    pub fn map(&self, parts: Vec<RegionSpec>) -> Result<Vec<Arc<PagedRegion>>, PagingError> {
        let _uninterrupted = self.space.uninterrupted();
        let _making = self.children.map(|| self.space.give_way());
        let Some(class) = parts.first().map(|spec| spec.class) else { return Err(PagingError::Empty) };
        let chunk = class.bytes();
        let size = parts.iter().fold(0_u64, |sum, spec| sum.saturating_add(spec.grant.size));
        self.check(size, chunk)?;
        if !is_whole(&parts, size) {
            return Err(PagingError::NotWhole { name: parts[0].name.clone() });
        }
        let writable = parts.iter().any(|spec| spec.writable);
        if writable && !self.space.stops_stores() {
            return Err(PagingError::CannotWrite);
        }
        let page = self.page_class();
        self.make_frames(class, writable)?;
        self.make_frames(page, writable)?;
        let len = usize::try_from(size).unwrap_or(usize::MAX).next_multiple_of(chunk);
        let range = self
            .space
            .make_range(len)
            .map_err(|source| PagingError::NoMemory { what: "no addresses for a region", source })?;
        let range = Arc::new(range);
        let window = self.config.ahead.min(self.config.buffer_max / 8) / chunk;
        let region = |spec| {
            let number = self.next_number.fetch_add(1, Ordering::Relaxed);
            let name = (Arc::clone(&self.pool), number);
            let snapshots = self.children.is_used;
            Arc::new(PagedRegion::new(name, spec, Arc::clone(&range), (page, window as u32), snapshots))
        };
        let parts: Vec<_> = parts.into_iter().map(region).collect();
        let mut regions = self.regions.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(part) = parts.iter().find(|part| regions.iter().any(|other| clash(part, other))) {
            return Err(PagingError::AlreadyOpen { name: part.spec.name.clone() });
        }
        let at = regions.partition_point(|other| other.span.start < range.span().start);
        // The buffer may have shrunk meanwhile; from now on it does not shrink below what these chunks need.
        self.has_room_for(chunk)?;
        if let Some(recorder) = &self.recorder {
            parts.iter().for_each(|part| {
                recorder.region(RecordedRegion { number: part.number, class, chunks: part.chunks() });
            });
        }
        regions.splice(at..at, parts.iter().cloned());
        self.arrived.fetch_add(1, Ordering::AcqRel);
        Ok(parts)
    }

    fn make_frames(&self, class: SizeClass, writable: bool) -> Result<(), PagingError> {
        let frames = self.pool.most_of_shard() / class.bytes();
        for shelf in &self.shelves {
            let mut cell = shelf.lock();
            let buffer = &shelf.frames[usize::from(class.0)];
            if buffer.get().is_none() {
                let made = self.space.make_frames(class.bytes(), frames).map_err(|source| {
                    PagingError::NoMemory { what: "no addresses for the buffer", source }
                })?;
                cell.shard.prepare(class);
                // The lock is held: no other thread has made it meanwhile.
                let _ = buffer.set(made);
            }
            let notes = &mut cell.notes[usize::from(class.0)];
            if writable && notes.is_none() {
                let pages = class.bytes() / PAGE;
                *notes = Some(Notes { pages, fingerprints: vec![Fingerprint::default(); frames * pages] });
            }
        }
        Ok(())
    }

    /// No more chunks of an object are fetched or saved.
    pub fn begin_closing(&self, parts: &[Arc<PagedRegion>]) {
        for part in parts {
            part.begin_closing();
            self.departed.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Drops the chunks of an object whose parts are closing. Returns how many are still under way; when they have ended,
    /// ask again.
    pub fn forget(&self, parts: &[Arc<PagedRegion>]) -> usize {
        let _uninterrupted = self.space.uninterrupted();
        let of_shelf = |(shard, shelf): (usize, &Shelf)| {
            let mut cell = shelf.lock();
            let under_way = parts.iter().map(|part| cell.shard.forget(part.number)).sum::<usize>();
            self.discard_frames(&mut cell, shard);
            under_way
        };
        self.shelves.iter().enumerate().map(of_shelf).sum()
    }

    /// Takes the place of an object back, whose chunks were [forgotten](Self::forget) as far as that was possible.
    pub fn unmap(&self, parts: &[Arc<PagedRegion>]) {
        let _uninterrupted = self.space.uninterrupted();
        parts.iter().for_each(|part| part.begin_closing());
        // A place that was found before is used under its lock, and none is found afterwards.
        self.shelves.iter().for_each(|shelf| drop(shelf.lock()));
        let mut regions = self.regions.write().unwrap_or_else(PoisonError::into_inner);
        regions.retain(|other| !parts.iter().any(|part| Arc::ptr_eq(other, part)));
        drop(regions);
        parts.iter().for_each(|part| part.unmap());
        // Threads that wait there against all rules find that nothing is mapped.
        if let Some(part) = parts.first() {
            self.space.wake(part.span);
        }
    }

    pub(super) fn regions(&self) -> RwLockReadGuard<'_, Vec<Arc<PagedRegion>>> {
        self.regions.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The region that an address belongs to, and the chunk.
    pub(super) fn find(&self, address: ProcessAddress) -> Option<(Arc<PagedRegion>, u32)> {
        let regions = self.regions();
        let at = regions.partition_point(|region| region.span.start <= address).checked_sub(1)?;
        // The last part of the object.
        let region = &regions[at];
        let (offset, stripes) = (address.since(region.span.start), region.spec.stripes);
        if offset >= region.span.len {
            return None;
        }
        let first = (at + 1).checked_sub(stripes.parts as usize)?;
        let region = &regions[first + stripes.part_of(offset as u64) as usize];
        let index = region.spec.stripes.chunk(offset as u64, region.chunk_bytes());
        Some((Arc::clone(region), index))
    }

    /// The region of a number.
    pub(super) fn region(&self, number: u32) -> Option<Arc<PagedRegion>> {
        self.regions().iter().find(|region| region.number == number).cloned()
    }

    /// The size of pages.
    fn page_class(&self) -> SizeClass {
        SizeClass(self.space.page_bytes().trailing_zeros() as u8)
    }

    /// Which shard a chunk belongs to, and with it its pages. Of as many neighbours as there are shards each belongs to another one, and the order
    /// differs from one such row to the next, so that chunks at equal distances do not all belong to one.
    pub(super) fn shard_of(&self, key: ChunkKey) -> usize {
        let (index, shards) = (key.index as usize, self.shelves.len());
        let row = (index / shards) as u64 ^ u64::from(key.region) << 32;
        let turn = row.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        (index + turn as usize) % shards
    }
}

/// Whether these are all parts of an object of this size, in order. What servers say of sizes decides about addresses.
fn is_whole(parts: &[RegionSpec], size: u64) -> bool {
    parts.iter().zip(0..).all(|(spec, part)| {
        let stripes = Stripes { bytes: spec.stripes.bytes, parts: parts.len() as u32, part };
        let is_even = stripes.bytes > 0 && stripes.bytes.is_multiple_of(spec.class.bytes() as u64);
        is_even
            && spec.stripes == stripes
            && spec.class == parts[0].class
            && stripes.size(size) == spec.grant.size
    })
}

/// Whether two regions are the same, and one of them would write.
fn clash(ours: &PagedRegion, theirs: &PagedRegion) -> bool {
    let is_closing = theirs.is_closing();
    let (ours, theirs) = (&ours.spec, &theirs.spec);
    let is_same = ours.server == theirs.server && ours.grant.region == theirs.grant.region;
    is_same && (ours.writable || theirs.writable) && !is_closing
}
