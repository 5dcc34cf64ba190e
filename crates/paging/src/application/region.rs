//! A region of far memory in this process.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use outboard_contract::Peer;
use outboard_contract::memory::Mapping;
use outboard_limits::show_bytes;
use outboard_wire::paging::CacheMode;
use outboard_wire::{Grant, Incarnation, Rights, StoreId, Time};

use super::blanks::Blanks;
use super::bypass::Bypass;
use super::chunks::{ChunkKey, Pool, SizeClass};
use super::fullness::Fullness;
use super::grain::{Grain, Grains, RANGE};
use super::losses::LossReason;
use super::pages::Cell;
use super::patterns::Patterns;
use super::readahead::{Ahead, ReadAhead};
use super::route::{PathChooser, PathOption};
use super::space::{AddressRange, Place, ProcessAddress, Span};
use super::stats::{RegionTally, RegionTraffic};
use super::stripes::Stripes;
use super::unkept::Unkept;

/// The specification of a region.
#[derive(Clone, Debug)]
pub struct RegionSpec {
    /// Its name for people.
    pub name: String,
    /// The name for people of the object that it is a part of, or all of.
    pub object: String,
    /// The description that the server gave.
    pub grant: Grant,
    /// Which of the memory servers has it.
    pub at: usize,
    /// Which life of the server.
    pub server: Incarnation,
    /// The store that the server keeps it in over its restarts, if it does.
    pub store: StoreId,
    /// Which part of an object it is.
    pub stripes: Stripes,
    /// The server's write epoch.
    pub epoch: u64,
    /// The size of chunks.
    pub class: SizeClass,
    /// Whether it may be written.
    pub writable: bool,
    /// Whether no process has written it yet, and no other can: this process has reserved it, and leases it as its writer.
    pub is_fresh: bool,
    /// Whether it outlives this process.
    pub is_kept: bool,
    /// By which way its chunks go.
    pub path: Path,
    /// The agent's treatment of them that is asked for.
    pub cache: CacheMode,
}

/// By which way the chunks of a region go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// Between the application and the memory server.
    Direct,
    /// By the agent while it is there.
    Agent,
    /// By whichever is measured to be faster.
    Auto,
}

/// How the application says that it will use a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// As it turns out.
    Normal,
    /// From one end to the other.
    Sequential,
    /// Chunk by chunk, in whatever order.
    Whole,
    /// Without order.
    Random,
}

/// By which way a chunk goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FetchPath {
    /// From or to the memory server.
    Direct,
    /// By asking the agent.
    Agent,
    /// Read from the agent's copy, without asking.
    Copy,
}

/// How many chunks a region has.
fn chunks(spec: &RegionSpec) -> u32 {
    spec.grant.size.div_ceil(spec.class.bytes() as u64) as u32
}

/// How many pages a chunk has.
fn pages(spec: &RegionSpec, page: SizeClass) -> u16 {
    (spec.class.bytes() / page.bytes()).max(1) as u16
}

/// A region of far memory in this process.
#[derive(Debug)]
pub struct PagedRegion {
    /// The common state of all shards of its far memory, by which that is told from other far memory.
    pub(super) home: Arc<Pool>,
    /// Its number in this process.
    pub(super) number: u32,
    pub(super) spec: RegionSpec,
    /// The addresses of the object that it is a part of, all of them.
    range: Mutex<Option<Arc<AddressRange>>>,
    pub(super) span: Span,
    /// The size of its pages.
    page: SizeClass,
    ahead: Mutex<ReadAhead>,
    window_max: u32,
    grains: Grains,
    pub(super) patterns: Patterns,
    chooser: Mutex<PathChooser>,
    pub(super) tally: RegionTally,
    /// The life of the server that has it now.
    life: AtomicU64,
    /// On how many links it is open.
    pub(super) opened: AtomicU64,
    /// How many fault threads know from their agent what it will do with the region.
    pub(super) answered_by_agents: AtomicU64,
    /// Whether an agent has said last that it knows no such memory server.
    pub(super) is_unknown_to_agent: AtomicBool,
    lost: OnceLock<LossReason>,
    is_closing: AtomicBool,
    /// Pages that it should have here were found to be thrown away.
    pub(super) has_hole: AtomicBool,
    /// Changed chunks were given up, for no server will ever take them.
    pub(super) has_given_up: AtomicBool,
    /// Which of its chunks are known to be zero at the server.
    pub(super) blanks: Blanks,
    /// Which of its chunks the snapshots of forked children have no copy of.
    pub(super) unkept: Unkept,
    /// Whether its server has room for more of it.
    pub(super) fullness: Fullness,
    /// The writes past the agent.
    pub(super) bypass: Bypass,
    /// How many threads wait until the server has fenced an agent off; write-backs wait for them.
    pub(super) fencing: AtomicU32,
    /// How many threads discard chunks, and which: write-backs of those wait too.
    pub(super) discarding: AtomicU32,
    pub(super) discards: Mutex<Vec<Range<u32>>>,
    /// Where the server's bytes lie among our addresses, while a link over which they are mapped lives.
    source: RwLock<Option<Arc<Mapping>>>,
}

impl PagedRegion {
    pub(super) fn new(
        (home, number): (Arc<Pool>, u32),
        spec: RegionSpec,
        range: Arc<AddressRange>,
        (page, window_max): (SizeClass, u32),
        has_snapshots: bool,
    ) -> Self {
        let chunks = chunks(&spec);
        Self {
            home,
            number,
            span: range.span(),
            ahead: Mutex::new(ReadAhead::new(chunks, window_max)),
            window_max,
            grains: Grains::new(chunks, pages(&spec, page)),
            patterns: Patterns::default(),
            page,
            chooser: Mutex::new(PathChooser::new(Time::ZERO)),
            tally: RegionTally::default(),
            life: AtomicU64::new(spec.server.0),
            opened: AtomicU64::new(0),
            answered_by_agents: AtomicU64::new(0),
            is_unknown_to_agent: AtomicBool::new(false),
            lost: OnceLock::new(),
            is_closing: AtomicBool::new(false),
            has_hole: AtomicBool::new(false),
            has_given_up: AtomicBool::new(false),
            blanks: Blanks::new(chunks, spec.writable, spec.is_fresh),
            unkept: Unkept::new(chunks, has_snapshots && spec.writable),
            fullness: Fullness::default(),
            bypass: Bypass::new(spec.epoch),
            fencing: AtomicU32::new(0),
            discarding: AtomicU32::new(0),
            discards: Mutex::default(),
            source: RwLock::new(None),
            range: Mutex::new(Some(range)),
            spec,
        }
    }

    /// Its number in this process, by which its chunks are called.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Which life of its server has it now.
    pub fn server(&self) -> Incarnation {
        Incarnation(self.life.load(Ordering::Acquire))
    }

    /// Whether a server has it: the one that gave it to us, or a later life of that which goes on with the same store. What was
    /// acknowledged there is there then, and so are its key and its epoch.
    pub(super) fn goes_on_at(&self, server: &Peer) -> bool {
        let is_later = self.spec.store.goes_on_with(server.store());
        if is_later {
            self.life.store(server.incarnation().0, Ordering::Release);
        }
        is_later || self.server() == server.incarnation()
    }

    /// The specification that it was made from.
    pub fn spec(&self) -> &RegionSpec {
        &self.spec
    }

    /// Where the object that it is a part of begins among this process's addresses.
    pub fn start(&self) -> ProcessAddress {
        self.span.start
    }

    /// The addresses of the object that it is a part of.
    pub fn addresses(&self) -> Span {
        self.span
    }

    /// Its addresses, which stay mapped until this is dropped; none if the object was [unmapped](super::Pages::unmap).
    pub fn range(&self) -> Option<Arc<AddressRange>> {
        self.range.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Its traffic over links so far.
    pub fn traffic(&self) -> RegionTraffic {
        self.tally.read()
    }

    /// Its size in bytes.
    pub fn size(&self) -> u64 {
        self.spec.grant.size
    }

    pub(super) fn rights(&self) -> Rights {
        if self.spec.writable { Rights::READ.and(Rights::WRITE) } else { Rights::READ }
    }

    /// The size of its chunks in bytes.
    pub fn chunk_bytes(&self) -> usize {
        self.spec.class.bytes()
    }

    /// How many chunks it has.
    pub fn chunks(&self) -> u32 {
        chunks(&self.spec)
    }

    /// The keys of its chunks.
    pub(super) fn key(&self, index: u32) -> ChunkKey {
        ChunkKey::new(self.number, index)
    }

    /// Where a chunk lies among this process's addresses.
    pub fn addresses_of(&self, index: u32) -> Span {
        self.span_of(self.key(index))
    }

    /// Where a chunk, or a page of a divided one, lies among this process's addresses.
    pub fn span_of(&self, key: ChunkKey) -> Span {
        let start = self.span.start.plus(self.spec.stripes.place(self.offset(key).0) as usize);
        Span { start, len: self.class_of(key).bytes() }
    }

    /// Where a chunk or a page lies, to move pages there or away, unless the region is closing.
    pub(super) fn place<'a>(&self, key: ChunkKey, cell: &'a Cell) -> Option<Place<'a>> {
        Place::of(self, key, cell)
    }

    /// Where a chunk or a page lies in the region, and how many of its bytes are inside it.
    pub(super) fn offset(&self, key: ChunkKey) -> (u64, usize) {
        let page = u64::from(key.page.unwrap_or(0)) * self.page.bytes() as u64;
        let offset = u64::from(key.index) * self.chunk_bytes() as u64 + page;
        (offset, (self.size() - offset).min(self.class_of(key).bytes() as u64) as usize)
    }

    /// The size of a chunk, or of a page of a divided one.
    pub(super) fn class_of(&self, key: ChunkKey) -> SizeClass {
        if key.page.is_some() { self.page } else { self.spec.class }
    }

    /// How many pages a chunk has.
    pub fn pages(&self) -> u16 {
        pages(&self.spec, self.page)
    }

    /// Which page of its chunk an address belongs to.
    pub(super) fn page_at(&self, address: ProcessAddress) -> u16 {
        (address.since(self.span.start) % self.chunk_bytes() / self.page.bytes()) as u16
    }

    /// Whether a chunk can be divided into its pages: it has several, and they are all inside the region.
    pub(super) fn can_be_divided(&self, index: u32) -> bool {
        self.pages() > 1 && self.offset(self.key(index)).1 == self.chunk_bytes()
    }

    /// In what grain the bytes of a chunk come, and whether that was said by the application.
    pub(super) fn grain(&self, index: u32) -> (Grain, bool) {
        match self.patterns.of(index) {
            Pattern::Normal => (self.grains.of(index), false),
            Pattern::Sequential | Pattern::Whole => (Grain::Chunk, true),
            Pattern::Random => (Grain::Page, true),
        }
    }

    /// A thread waited for a page of a chunk. Says which chunks to ask for.
    pub(super) fn touched(&self, index: u32, page: u16) -> Option<Ahead> {
        let window_max = match self.patterns.of(index) {
            Pattern::Normal | Pattern::Whole => self.window_max,
            Pattern::Sequential => self.window_max.saturating_mul(2),
            Pattern::Random => return None,
        };
        let mut ahead = self.ahead();
        ahead.set_window_max(window_max);
        let found = ahead.touched(index);
        self.grains.learn((index, page), ahead.is_met(), ahead.is_beside());
        // A stream among touches without an order may be chance: it has to be met before it is followed.
        found.filter(|_| self.grain(index).0 == Grain::Chunk)
    }

    fn ahead(&self) -> MutexGuard<'_, ReadAhead> {
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn chooser(&self) -> MutexGuard<'_, PathChooser> {
        self.chooser.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// By which way the next write-back goes, if there is an agent that knows the region: the same as most fetches.
    pub(super) fn saves_by_agent(&self, now: Time) -> bool {
        match self.spec.path {
            Path::Direct => false,
            Path::Agent => true,
            Path::Auto => self.chooser().explain(now).chosen == PathOption::Agent,
        }
    }

    /// By which way its chunks go and why, for people.
    pub(super) fn explain(&self, now: Time) -> String {
        let spec = &self.spec;
        let why = match spec.path {
            Path::Direct => "by the direct path, as configured".to_owned(),
            Path::Agent => "by the agent, as configured".to_owned(),
            Path::Auto => format!("by {}", self.chooser().explain(now)),
        };
        let (size, chunk) = (show_bytes(self.size()), show_bytes(self.chunk_bytes() as u64));
        let grain = match self.grains.count() {
            (0, _) => String::new(),
            (pages, all) => {
                let range = show_bytes(u64::from(RANGE) * self.chunk_bytes() as u64);
                format!("; page by page in {pages} of {all} ranges of {range}, where touches have no order")
            }
        };
        format!("{}: {size} in chunks of {chunk}, {why}{grain}", spec.name)
    }

    /// Whether its server is lost for good.
    pub fn is_lost(&self) -> bool {
        self.lost.get().is_some()
    }

    /// Why its server is lost for good, if it is.
    pub fn lost_because(&self) -> Option<&LossReason> {
        self.lost.get()
    }

    /// Its server is lost for good. Returns whether that is news.
    pub(super) fn lose(&self, why: &LossReason) -> bool {
        self.lost.set(why.clone()).is_ok()
    }

    /// The server's bytes, if they are mapped here.
    pub(super) fn source(&self) -> Option<Arc<Mapping>> {
        self.source.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A link has mapped the server's bytes, or the link that did is gone.
    pub(super) fn set_source(&self, source: Option<Arc<Mapping>>) {
        *self.source.write().unwrap_or_else(PoisonError::into_inner) = source;
    }

    pub(super) fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::Acquire)
    }

    /// Takes its place away. A thread that touches it afterwards touches memory that is not mapped.
    pub(super) fn unmap(&self) {
        self.range.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    pub(super) fn begin_closing(&self) {
        self.is_closing.store(true, Ordering::Release);
    }
}
