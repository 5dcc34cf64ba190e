//! One process's far memory.

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

use outboard_driver::FrontDeskConfig;
use outboard_driver::WorkerConfig;
use outboard_driver::paging::{
    self, Mover, PagedRegion, PagerThreads, Pages, PagingStats, Peers, RegionSpec, SpaceConfig,
};
use outboard_link::Address;
use outboard_wire::Rights;

use super::array::{FarSlice, FarVec, Plain};
use super::control::Control;
use super::mapping::FarMapping;
use super::parts::Part;
use super::{FarError, FarOptions, RegionOptions};
use crate::memory::Memory;

/// One process's far memory: a memory server's regions behind plain pointers, with one buffer for all of them.
/// Clones are the same far memory. It ends, with its threads, when the last clone and the last object in it are
/// dropped.
#[derive(Clone)]
pub struct FarMemory {
    pub(super) shared: Arc<Shared>,
}

pub(super) struct Shared {
    pub(super) pages: Arc<Pages>,
    pub(super) threads: PagerThreads,
    /// The memory servers, in the order of stripes.
    controls: Vec<Control>,
    pub(super) servers: Vec<Address>,
    pub(super) stripe: usize,
    /// At which server the next object begins.
    pub(super) next_server: AtomicUsize,
    /// How pages are to get in and out, if that was said.
    mover: Option<Mover>,
    has_agent: bool,
    pub(super) patience: Duration,
}

impl Shared {
    /// A memory server, for questions.
    pub(super) fn server(&self, at: usize) -> Result<MutexGuard<'_, Memory>, FarError> {
        self.controls[at].server()
    }

    /// Gives an object its place among our addresses, and waits until every fault thread can reach its parts.
    pub(super) fn map(&self, parts: Vec<RegionSpec>) -> Result<Vec<Arc<PagedRegion>>, FarError> {
        let parts = self.pages.map(parts)?;
        let opened = parts.iter().try_for_each(|part| self.threads.open(part, self.patience));
        if let Err(error) = opened {
            self.threads.unmap(&parts, Duration::ZERO);
            return Err(error.into());
        }
        Ok(parts)
    }

    /// Gives the regions of an object back. A server that is gone has nothing to give back.
    pub(super) fn release(&self, parts: Vec<Part>) {
        for Part { at, far, .. } in parts {
            let _ = self.server(at).map(|mut server| server.release(far));
        }
    }

    /// Waits until the servers have everything that was written to an object before.
    pub(super) fn flush(&self, parts: &[Arc<PagedRegion>]) -> Result<(), FarError> {
        if !parts.iter().any(|part| part.spec().writable) {
            return Ok(());
        }
        parts.iter().for_each(|part| self.pages.begin_flush(part));
        let patience = self.pages.config().grace + self.patience;
        let deadline = Instant::now() + patience;
        loop {
            // All of them, so that no server waits for another.
            let unsaved: Vec<usize> = parts.iter().map(|part| self.pages.write_back(part)).collect();
            let late = || parts.iter().zip(&unsaved).filter(|(_, unsaved)| **unsaved > 0);
            let Some(mut worst) = late().next() else { return Ok(()) };
            worst = late().find(|(part, _)| part.is_lost()).unwrap_or(worst);
            if worst.0.is_lost() || Instant::now() > deadline {
                let (spec, unsaved) = (worst.0.spec(), *worst.1);
                let server = self.servers[spec.at].clone();
                return Err(FarError::NotFlushed { server, name: spec.name.clone(), unsaved, patience });
            }
            self.threads.look();
            self.pages.space().wait_for_news(Duration::from_millis(2));
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
    /// The far memory of this process as the configuration file and the environment say, or else at the memory server that
    /// this user has started by `outboard up` or `outboard memory`.
    pub fn find() -> Result<Self, FarError> {
        Self::connect(FarOptions::find()?)
    }

    /// Connects to the memory servers, and to an agent if one is named, and starts the threads that answer faults.
    pub fn connect(options: FarOptions) -> Result<Self, FarError> {
        // What makes no sense, and what this machine cannot do, is said before anybody is disturbed.
        options.check()?;
        let space = SpaceConfig { mover: options.mover, node: options.node };
        let pages = paging::open(options.paging(), space)?;
        let servers: Vec<Address> = options.servers().cloned().collect();
        let controls = servers.iter().map(|server| Control::connect(server, &options));
        let controls = controls.collect::<Result<Vec<_>, _>>()?;
        refuse_same(&controls)?;
        let peers = Peers {
            servers: servers.clone(),
            agent: options.agent.clone(),
            identity: options.identity.clone(),
            desk: FrontDeskConfig {
                shm: options.link.shm(),
                tcp: options.link.tcp(),
                ofi: options.link.ofi(),
                ..FrontDeskConfig::default()
            },
            worker: WorkerConfig { spin: options.spin, server_wire: options.wire, ..WorkerConfig::default() },
        };
        let patience = options.link.deadline;
        let threads = PagerThreads::start(&pages, &peers, patience)?;
        let has_agent = peers.agent.is_some();
        let (stripe, next_server) = (options.stripe, AtomicUsize::new(0));
        let mover = options.mover;
        let shared =
            Shared { pages, threads, controls, servers, stripe, next_server, mover, has_agent, patience };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Allocates `len` elements, all zero.
    pub fn allocate<T: Plain>(&self, len: usize) -> Result<FarVec<T>, FarError> {
        self.allocate_with(len, &RegionOptions::default())
    }

    /// The same, with options.
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
        self.map(parts, options, true)
    }

    /// Opens a named region to read it, together with other readers.
    pub fn open<T: Plain>(&self, name: &str, options: &RegionOptions) -> Result<FarSlice<T>, FarError> {
        self.check(1, options)?;
        let parts = self.shared.open(name, Rights::READ, options.chunk)?;
        FarSlice::new(self.map(parts, &named(name, options), false)?)
    }

    /// Opens a named region as its only writer.
    pub fn open_writable<T: Plain>(
        &self,
        name: &str,
        options: &RegionOptions,
    ) -> Result<FarVec<T>, FarError> {
        self.check(1, options)?;
        let parts = self.shared.open(name, Rights::READ.and(Rights::WRITE), options.chunk)?;
        FarVec::whole(self.map(parts, &named(name, options), true)?)
    }

    /// Opens a file below the server's data directory to read it, together with other readers. The server loads it
    /// unless it has already. Of several servers it is the first, which has all of it.
    pub fn open_file<T: Plain>(&self, path: &str, options: &RegionOptions) -> Result<FarSlice<T>, FarError> {
        self.check(1, options)?;
        let region = self.shared.server(0)?.load(path, Rights::READ, options.patience)?;
        FarSlice::new(self.map(vec![Part::whole(region)], &named(path, options), false)?)
    }

    /// The same as its only writer. [`FarVec::sync`] brings what was written to the file.
    pub fn open_file_writable<T: Plain>(
        &self,
        path: &str,
        options: &RegionOptions,
    ) -> Result<FarVec<T>, FarError> {
        self.check(1, options)?;
        let rights = Rights::READ.and(Rights::WRITE);
        let region = self.shared.server(0)?.load(path, rights, options.patience)?;
        FarVec::whole(self.map(vec![Part::whole(region)], &named(path, options), true)?)
    }

    /// Waits until the agent has said what it will do with every region that may go by it; one that is to have a copy
    /// of a region has it then. Returns whether it has; nothing needs this to work.
    pub fn wait_for_agent(&self, patience: Duration) -> bool {
        if !self.shared.has_agent {
            return false;
        }
        let deadline = Instant::now() + patience;
        while !self.shared.pages.is_settled_with_agent() {
            if Instant::now() > deadline {
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

    /// What it has done so far.
    pub fn stats(&self) -> PagingStats {
        self.shared.pages.stats()
    }

    /// How many faults have brought bytes from afar, which costs less to ask than all of [`stats`](Self::stats).
    pub fn fetches(&self) -> u64 {
        self.shared.pages.fetches()
    }

    /// How many bytes of far memory may be here at once.
    pub fn buffer(&self) -> usize {
        self.shared.pages.config().buffer
    }

    /// What was chosen and why, for people.
    pub fn explain(&self) -> Vec<String> {
        let pages = &self.shared.pages;
        let mut lines = vec![format!(
            "pages are {}; faults come through {}{}",
            match (pages.space().mover(), self.shared.mover) {
                (Mover::Move, _) => "moved",
                (Mover::Copy, None) => "copied: this kernel cannot move them",
                (Mover::Copy, Some(_)) => "copied, as configured",
            },
            pages.space().route(),
            if pages.space().serves_the_kernel() {
                ""
            } else {
                ": system calls given far memory that is not here fail with EFAULT, so prefault or pin it"
            }
        )];
        lines.extend(pages.explain());
        lines
    }

    /// Refuses what cannot be before any data moves.
    fn check(&self, bytes: u64, options: &RegionOptions) -> Result<(), FarError> {
        Ok(self.shared.pages.check(bytes, options.chunk)?)
    }

    fn map(&self, parts: Vec<Part>, options: &RegionOptions, writable: bool) -> Result<FarMapping, FarError> {
        let name = options.name.clone().unwrap_or_else(|| parts[0].to_string());
        match self.shared.map(self.shared.specs(&name, &parts, options, writable)) {
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
