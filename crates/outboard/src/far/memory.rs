//! One process's far memory.

use std::path::PathBuf;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use outboard_driver::FrontDeskConfig;
use outboard_driver::WorkerConfig;
use outboard_driver::paging::{
    self, Mover, PagedRegion, PagerThreads, PagingStats, Peers, ProcessPages, RegionSpec, SpaceConfig,
};
use outboard_link::Address;
use outboard_paging::application::Process;
use outboard_wire::Rights;

use super::array::{FarSlice, Plain};
use super::buffer::BufferPolicy;
use super::children::{ChildrenThread, Retired};
use super::control::Control;
use super::mapping::FarMapping;
use super::parts::{Part, Use};
use super::tasks::WakerThread;
use super::vec::FarVec;
use super::{Children, FarError, FarOptions, RegionOptions};
use crate::memory::Memory;
use crate::outboard::Outboard;

/// One process's far memory: a memory server's regions behind plain pointers, with one buffer for all of them.
/// Clones are the same far memory. It ends, with its threads, when the last clone and the last object in it are
/// dropped.
///
/// ```
/// # let _server = outboard_nearby::start();
/// use outboard::Outboard;
///
/// let outboard = Outboard::find()?; // this user's `outboard up`
/// let far = outboard.far_with(outboard.far_options().with_buffer("16MiB".parse()?))?;
/// let mut counts = far.allocate::<u64>(16 << 20)?; // 128 MiB, of which 16 are here at a time
/// for at in (0..counts.len()).step_by(1 << 16) {
///     counts[at] += at as u64; // a page fault, a fetch, and then memory like any other
/// }
/// let sum: u64 = counts.iter().step_by(1 << 16).sum();
/// assert_eq!(sum, (0..16u64 << 20).step_by(1 << 16).sum());
/// far.explain().iter().for_each(|line| println!("{line}"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct FarMemory {
    pub(super) shared: Arc<Shared>,
}

pub(super) struct Shared {
    /// Serves forked children, if they see far memory. It ends first.
    _children: Option<ChildrenThread>,
    /// The regions that were given back while children see them.
    retired: Arc<Retired>,
    pub(super) pages: Arc<ProcessPages>,
    pub(super) threads: PagerThreads,
    pub(super) buffer: Mutex<BufferPolicy>,
    /// The memory servers, in the order of stripes.
    controls: Arc<Vec<Control>>,
    pub(super) servers: Vec<Address>,
    pub(super) stripe: usize,
    /// At which server the next object begins.
    pub(super) next_server: AtomicUsize,
    /// How pages are to get in and out, if that was said.
    mover: Option<Mover>,
    /// Where to write which chunks were touched.
    record: Option<PathBuf>,
    has_agent: bool,
    pub(super) deadline: Duration,
    /// The futures that wait for chunks.
    pub(super) wakers: WakerThread,
}

impl Shared {
    /// A memory server, for questions.
    pub(super) fn server(&self, at: usize) -> Result<MutexGuard<'_, Memory>, FarError> {
        self.check_here("this far memory")?;
        self.controls[at].server()
    }

    /// Whether this is the process whose far memory it is. A child that it has forked has the threads of none, and may find
    /// their locks taken.
    pub(super) fn is_here(&self) -> bool {
        self.pages.space().is_here()
    }

    /// Refuses what takes other threads in a child that was forked.
    pub(super) fn check_here(&self, name: &str) -> Result<(), FarError> {
        match self.is_here() {
            true => Ok(()),
            false => Err(FarError::OfParent { name: name.to_owned(), process: self.pages.space().process() }),
        }
    }

    /// Gives an object its place among our addresses, and waits until every fault thread can reach its parts.
    pub(super) fn map(&self, parts: Vec<RegionSpec>) -> Result<Vec<Arc<PagedRegion>>, FarError> {
        let parts = self.pages.map(parts)?;
        let opened = parts.iter().try_for_each(|part| self.threads.open(part, self.deadline));
        if let Err(error) = opened {
            self.threads.unmap(&parts, Duration::ZERO);
            return Err(FarError::of_threads(error));
        }
        Ok(parts)
    }

    /// Gives the regions of an object back. A server that is gone has nothing to give back.
    pub(super) fn release(&self, parts: Vec<Part>) {
        let Some(parts) = self.not_retired(parts, false) else { return };
        for Part { at, far, .. } in parts {
            let _ = self.server(at).map(|mut server| server.release(far));
        }
    }

    /// Keeps regions that are given back, and whose bytes are given up too if they are freed, as long as children see them.
    /// Returns them if none does.
    pub(super) fn not_retired(&self, parts: Vec<Part>, is_freed: bool) -> Option<Vec<Part>> {
        match self.pages.youngest_snapshot() {
            None => Some(parts),
            Some(youngest) => {
                self.retired.keep(youngest, parts, is_freed);
                None
            }
        }
    }

    /// Waits until the servers have everything that was written to an object before.
    pub(super) fn flush(&self, parts: &[Arc<PagedRegion>]) -> Result<(), FarError> {
        self.check_here(&parts[0].spec().object)?;
        if !parts.iter().any(|part| part.spec().writable) {
            return Ok(());
        }
        parts.iter().for_each(|part| self.pages.begin_flush(part));
        let patience = self.pages.config().grace + self.deadline;
        let deadline = Instant::now() + patience;
        loop {
            // All of them, so that no server waits for another.
            let unsaved: Vec<usize> = parts.iter().map(|part| self.pages.write_back(part)).collect();
            let late = || parts.iter().zip(&unsaved).filter(|(_, unsaved)| **unsaved > 0);
            let Some(mut worst) = late().next() else { return Ok(()) };
            worst = late().find(|(part, _)| part.is_lost()).unwrap_or(worst);
            if let Some((part, unsaved)) = late().find(|(part, _)| part.is_refused_room() && !part.is_lost())
            {
                let (server, name) = (self.servers[part.spec().at].clone(), part.spec().name.clone());
                return Err(FarError::NoRoom { server, name, unsaved: *unsaved });
            }
            if worst.0.is_lost() || Instant::now() > deadline {
                let (spec, unsaved) = (worst.0.spec(), *worst.1);
                let server = self.servers[spec.at].clone();
                return Err(FarError::NotFlushed {
                    server,
                    name: spec.name.clone(),
                    unsaved,
                    waited: patience,
                });
            }
            self.threads.look();
            self.pages.space().wait_for_news(Duration::from_millis(2));
        }
    }
}

impl Drop for FarMemory {
    fn drop(&mut self) {
        if !self.shared.is_here() {
            // It is the parent's: its threads are not here, and its links must not be used.
            std::mem::forget(Arc::clone(&self.shared));
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let (Some(file), Some(recording)) = (&self.record, self.pages.recording())
            && let Err(error) = std::fs::write(file, recording.encode())
        {
            self.pages
                .space()
                .say(&format!("outboard: far.record: cannot write {}: {error}\n", file.display()));
        }
    }
}

/// One server may be reached by several addresses, and stripes would go to it alone.
fn refuse_same(controls: &[Control]) -> Result<(), FarError> {
    let mut known = Vec::new();
    for control in controls {
        let who = control.incarnation();
        if known.contains(&who) {
            return Err(FarError::SameServer { address: control.address().clone() });
        }
        known.push(who);
    }
    Ok(())
}

impl FarMemory {
    /// Connects to the memory servers, and to the agent if there is one, and starts the threads that answer faults.
    pub(crate) fn start(outboard: &Outboard, mut options: FarOptions) -> Result<Self, FarError> {
        // Options that make no sense, and those that this machine cannot do, are told before any daemon is disturbed.
        options.check()?;
        if options.servers.is_empty() {
            options.servers.push(outboard.server()?.clone());
        }
        let first = &options.servers[0];
        let is_near = |server: &Address| matches!(server, Address::Abstract(_) | Address::Path(_));
        let space = SpaceConfig {
            mover: options.mover,
            node: options.node_number(first),
            faults: options.faults,
            needs_links: outboard.agent.is_some()
                || options.wire.is_some()
                || !options.servers.iter().all(is_near),
            is_unprivileged: options.is_unprivileged,
            snapshots: options.children == Children::Snapshot,
        };
        let pages = paging::open(options.paging(Some(first)), space)?;
        let servers = options.servers;
        let controls = servers.iter().map(|server| Control::connect(server, outboard));
        let controls = controls.collect::<Result<Vec<_>, _>>()?;
        refuse_same(&controls)?;
        let peers = Peers {
            servers: servers.clone(),
            agent: outboard.agent.clone(),
            identity: outboard.identity.clone(),
            desk: FrontDeskConfig { links: outboard.link.configs(), ..FrontDeskConfig::default() },
            worker: WorkerConfig {
                spin: options.spin.unwrap_or_default(),
                server_wire: options.wire,
                ..WorkerConfig::default()
            },
        };
        let deadline = outboard.deadline;
        let threads = PagerThreads::start(&pages, &peers, deadline).map_err(FarError::of_threads)?;
        let controls = Arc::new(controls);
        let retired = Arc::new(Retired::new(&controls));
        let children = pages
            .has_snapshots()
            .then(|| ChildrenThread::start((&pages, &threads), outboard, &servers, &retired));
        let buffer = Mutex::new(BufferPolicy::begin(options.buffer, options.footprint, &threads)?);
        let has_agent = peers.agent.is_some();
        let (stripe, next_server) = (options.stripe, AtomicUsize::new(0));
        let (mover, record) = (options.mover, options.record);
        let shared = Shared {
            _children: children.transpose()?,
            retired,
            pages,
            threads,
            buffer,
            controls,
            servers,
            stripe,
            next_server,
            mover,
            record,
            has_agent,
            deadline,
            wakers: WakerThread::default(),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Allocates `len` elements, all zero.
    pub fn allocate<T: Plain>(&self, len: usize) -> Result<FarVec<T>, FarError> {
        self.allocate_with(len, &RegionOptions::default())
    }

    /// Allocates `len` elements with options.
    pub fn allocate_with<T: Plain>(
        &self,
        len: usize,
        options: &RegionOptions,
    ) -> Result<FarVec<T>, FarError> {
        let bytes = len.checked_mul(size_of::<T>()).filter(|bytes| *bytes <= isize::MAX as usize);
        let bytes = bytes.ok_or(FarError::TooLong { len, element: size_of::<T>() })?;
        // A region has at least one element's place, also if the array has none.
        Ok(FarVec::new(self.reserve(bytes.max(size_of::<T>()) as u64, options)?, len))
    }

    /// Allocates `bytes` bytes, all zero, for use by pointer.
    pub fn reserve(&self, bytes: u64, options: &RegionOptions) -> Result<FarMapping, FarError> {
        self.check(bytes, options)?;
        let parts = self.shared.reserve(bytes, options)?;
        self.map(parts, options, Use::Fresh)
    }

    /// Opens a named region to read it, together with other readers.
    pub fn open<T: Plain>(&self, name: &str, options: &RegionOptions) -> Result<FarSlice<T>, FarError> {
        self.check(1, options)?;
        let parts = self.shared.open(name, Rights::READ, options.chunk)?;
        FarSlice::new(self.map(parts, &named(name, options), Use::Read)?)
    }

    /// Opens a named region as its only writer.
    pub fn open_writable<T: Plain>(
        &self,
        name: &str,
        options: &RegionOptions,
    ) -> Result<FarVec<T>, FarError> {
        self.check(1, options)?;
        let parts = self.shared.open(name, Rights::READ.and(Rights::WRITE), options.chunk)?;
        FarVec::whole(self.map(parts, &named(name, options), Use::Write)?)
    }

    /// Opens a file below the server's data directory to read it, together with other readers. The server loads it
    /// unless it has already. Of several servers it is the first, which has all of it.
    pub fn open_file<T: Plain>(&self, path: &str, options: &RegionOptions) -> Result<FarSlice<T>, FarError> {
        self.check(1, options)?;
        let region = self.shared.server(0)?.load(path, Rights::READ, options.deadline)?;
        FarSlice::new(self.map(vec![Part::whole(region)], &named(path, options), Use::Read)?)
    }

    /// Opens a file below the server's data directory as its only writer. [`FarVec::sync`] brings what was written to the file.
    pub fn open_file_writable<T: Plain>(
        &self,
        path: &str,
        options: &RegionOptions,
    ) -> Result<FarVec<T>, FarError> {
        self.check(1, options)?;
        let rights = Rights::READ.and(Rights::WRITE);
        let region = self.shared.server(0)?.load(path, rights, options.deadline)?;
        FarVec::whole(self.map(vec![Part::whole(region)], &named(path, options), Use::Write)?)
    }

    /// Waits until the agent has said what it will do with every region that may go by it; one that is to have a copy
    /// of a region has it then. Returns whether it has; nothing needs this to work.
    pub fn wait_for_agent(&self, deadline: Duration) -> bool {
        if !self.shared.has_agent {
            return false;
        }
        let until = Instant::now() + deadline;
        while !self.shared.pages.is_settled_with_agent() {
            if Instant::now() > until {
                return false;
            }
            self.shared.pages.space().wait_for_news(Duration::from_millis(5));
        }
        true
    }

    /// The memory servers, by their numbers in [`FarOptions::servers`], that the agent has said it does not know. What lies
    /// there goes past it, until it does.
    pub fn servers_unknown_to_agent(&self) -> Vec<usize> {
        self.shared.pages.servers_unknown_to_agent().into_iter().collect()
    }

    /// The counts so far; none in a child that was forked.
    pub fn stats(&self) -> PagingStats {
        if !self.shared.is_here() {
            return PagingStats::default();
        }
        self.shared.pages.stats()
    }

    /// How many faults have brought bytes from afar, which costs less to ask than all of [`stats`](Self::stats).
    pub fn fetches(&self) -> u64 {
        self.shared.pages.fetches()
    }

    /// Whether system calls wait for what is not here. Where they do not, `prefault` or `pin` what they are given.
    pub fn serves_the_kernel(&self) -> bool {
        self.shared.pages.space().serves_the_kernel()
    }

    /// The choices and their reasons, for people.
    pub fn explain(&self) -> Vec<String> {
        let pages = &self.shared.pages;
        if let Err(error) = self.shared.check_here("this far memory") {
            return vec![error.to_string()];
        }
        let mut lines = vec![format!(
            "pages are {}; faults come through {} and are answered by {}{}",
            match (pages.space().mover(), self.shared.mover) {
                (Mover::Move, _) => "moved",
                (Mover::Copy, None) => "copied: this kernel cannot move them",
                (Mover::Copy, Some(_)) => "copied, as configured",
            },
            pages.space().route(),
            pages.space().faults().why,
            if pages.space().serves_the_kernel() {
                ""
            } else {
                "; system calls given far memory that is not here fail with EFAULT, so prefault or pin it"
            }
        )];
        lines.push(self.explain_buffer());
        lines.extend(pages.explain());
        lines
    }

    /// Refuses what cannot be before any data moves.
    fn check(&self, bytes: u64, options: &RegionOptions) -> Result<(), FarError> {
        Ok(self.shared.pages.check(bytes, options.chunk)?)
    }

    fn map(&self, parts: Vec<Part>, options: &RegionOptions, how: Use) -> Result<FarMapping, FarError> {
        let name = options.name.clone().unwrap_or_else(|| parts[0].to_string());
        match self.shared.map(self.shared.specs(&name, &parts, options, how)) {
            Ok(regions) => Ok(FarMapping::new(Arc::clone(&self.shared), name, regions, parts)),
            Err(error) => {
                // The regions are of no use to us; the first error is the one to tell.
                self.shared.release(parts);
                Err(error)
            }
        }
    }
}

fn named(name: &str, options: &RegionOptions) -> RegionOptions {
    RegionOptions { name: Some(name.to_owned()), ..options.clone() }
}
