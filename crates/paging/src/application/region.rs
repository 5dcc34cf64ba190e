//! A region of far memory in this process.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use outboard_limits::show_bytes;
use outboard_wire::paging::CacheMode;
use outboard_wire::{Grant, Incarnation, Rights, Time};

use super::bypass::Bypass;
use super::chunks::{ChunkKey, SizeClass};
use super::losses::LossReason;
use super::pages::Cell;
use super::readahead::{Ahead, ReadAhead};
use super::route::{Route, RouteChooser};
use super::space::{AddressRange, Place, Span};
use super::stats::{RegionTally, RegionTraffic};
use super::stripes::Stripes;

/// What a region is to be.
#[derive(Clone, Debug)]
pub struct RegionSpec {
    /// What people call it.
    pub name: String,
    /// What people call the object that it is a part of, or all of.
    pub object: String,
    /// What the server gave.
    pub grant: Grant,
    /// Which of the memory servers has it.
    pub at: usize,
    /// Which life of the server.
    pub server: Incarnation,
    /// Which part of an object it is.
    pub stripes: Stripes,
    /// The server's write epoch.
    pub epoch: u64,
    /// The size of chunks.
    pub class: SizeClass,
    /// Whether it may be written.
    pub writable: bool,
    /// Whether it outlives this process.
    pub is_kept: bool,
    /// By which way its chunks go.
    pub path: Path,
    /// What the agent is asked to do with them.
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

/// How the application says that it will use a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// As it turns out.
    Normal,
    /// From one end to the other.
    Sequential,
    /// Without order.
    Random,
}

/// By which way a chunk goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
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

/// A region of far memory in this process.
#[derive(Debug)]
pub struct PagedRegion {
    /// Its number in this process.
    pub(super) number: u32,
    pub(super) spec: RegionSpec,
    /// The addresses of the object that it is a part of, all of them.
    range: Mutex<Option<Arc<AddressRange>>>,
    pub(super) span: Span,
    ahead: Mutex<ReadAhead>,
    window_max: u32,
    chooser: Mutex<RouteChooser>,
    pub(super) tally: RegionTally,
    /// On how many links it is open.
    pub(super) opened: AtomicU64,
    /// How many fault threads know from their agent what it will do with the region.
    pub(super) answered_by_agents: AtomicU64,
    /// Whether an agent has said last that it knows no such memory server.
    pub(super) is_unknown_to_agent: AtomicBool,
    lost: OnceLock<LossReason>,
    is_closing: AtomicBool,
    /// Pages were forbidden because somebody wrote to them.
    pub(super) has_forbidden: AtomicBool,
    /// Pages that it should have here were found to be thrown away.
    pub(super) has_hole: AtomicBool,
    /// Changed chunks were given up, for nobody will ever take them.
    pub(super) has_given_up: AtomicBool,
    /// What is written past the agent.
    pub(super) bypass: Bypass,
    /// How many threads wait until the server has fenced an agent off; write-backs wait for them.
    pub(super) fencing: AtomicU32,
}

impl PagedRegion {
    pub(super) fn new(number: u32, spec: RegionSpec, range: Arc<AddressRange>, window_max: u32) -> Self {
        let chunks = chunks(&spec);
        Self {
            number,
            span: range.span(),
            ahead: Mutex::new(ReadAhead::new(chunks, window_max)),
            window_max,
            chooser: Mutex::new(RouteChooser::new(Time::ZERO)),
            tally: RegionTally::default(),
            opened: AtomicU64::new(0),
            answered_by_agents: AtomicU64::new(0),
            is_unknown_to_agent: AtomicBool::new(false),
            lost: OnceLock::new(),
            is_closing: AtomicBool::new(false),
            has_forbidden: AtomicBool::new(false),
            has_hole: AtomicBool::new(false),
            has_given_up: AtomicBool::new(false),
            bypass: Bypass::new(spec.epoch),
            fencing: AtomicU32::new(0),
            range: Mutex::new(Some(range)),
            spec,
        }
    }

    /// Its number in this process, by which its chunks are called.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// What it was made from.
    pub fn spec(&self) -> &RegionSpec {
        &self.spec
    }

    /// Where the object that it is a part of begins among this process's addresses.
    pub fn start(&self) -> usize {
        self.span.start
    }

    /// The addresses of the object that it is a part of.
    pub fn addresses(&self) -> std::ops::Range<usize> {
        self.span.start..self.span.start + self.span.len
    }

    /// What of it has crossed links so far.
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

    /// What its chunks are called.
    pub(super) fn key(&self, index: u32) -> ChunkKey {
        ChunkKey { region: self.number, index }
    }

    /// Where a chunk lies among this process's addresses.
    pub fn addresses_of(&self, index: u32) -> Span {
        let start = self.span.start + self.spec.stripes.place(self.offset(index).0) as usize;
        Span { start, len: self.chunk_bytes() }
    }

    /// Where a chunk lies, to move pages there or away, unless the region is closing.
    pub(super) fn place<'a>(&self, index: u32, cell: &'a Cell) -> Option<Place<'a>> {
        (!self.is_closing()).then(|| Place::new(self.addresses_of(index), cell))
    }

    /// Where a chunk lies in the region, and how many of its bytes are inside it.
    pub(super) fn offset(&self, index: u32) -> (u64, usize) {
        let offset = index as u64 * self.chunk_bytes() as u64;
        (offset, (self.size() - offset).min(self.chunk_bytes() as u64) as usize)
    }

    pub(super) fn touched(&self, index: u32) -> Option<Ahead> {
        self.ahead().touched(index)
    }

    fn ahead(&self) -> MutexGuard<'_, ReadAhead> {
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_pattern(&self, pattern: Pattern) {
        let window_max = match pattern {
            Pattern::Normal => self.window_max,
            Pattern::Sequential => self.window_max.saturating_mul(2),
            Pattern::Random => 0,
        };
        self.ahead().set_window_max(window_max);
    }

    pub(super) fn chooser(&self) -> MutexGuard<'_, RouteChooser> {
        self.chooser.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// By which way the next write-back goes, if there is an agent that knows the region: the same as most fetches.
    pub(super) fn saves_by_agent(&self, now: Time) -> bool {
        match self.spec.path {
            Path::Direct => false,
            Path::Agent => true,
            Path::Auto => self.chooser().explain(now).chosen == Route::Agent,
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
        format!("{}: {size} in chunks of {chunk}, {why}", spec.name)
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

    pub(super) fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::Acquire)
    }

    /// Takes its place away. Whoever touches it afterwards touches memory that is not mapped.
    pub(super) fn unmap(&self) {
        self.range.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    pub(super) fn begin_closing(&self) {
        self.is_closing.store(true, Ordering::Release);
    }
}
