//! One process's far memory.

use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

use outboard_driver::FrontDeskConfig;
use outboard_driver::WorkerConfig;
use outboard_driver::paging::{Mover, PagedRegion, PagerThreads, Pages, PagingStats, Peers, RegionSpec};
use outboard_paging::pager::SizeClass;
use outboard_wire::Rights;
use outboard_wire::control::Sharing;

use super::array::{FarSlice, FarVec, Plain};
use super::control::Control;
use super::mapping::FarMapping;
use super::{FarError, FarOptions, RegionOptions};
use crate::memory::{FarRegion, Memory};

/// One process's far memory: a memory server's regions behind plain pointers, with one buffer for all of them.
/// Clones are the same far memory. It ends, with its threads, when the last clone and the last object in it are
/// dropped.
#[derive(Clone)]
pub struct FarMemory {
    shared: Arc<Shared>,
}

pub(super) struct Shared {
    pub(super) pages: Arc<Pages>,
    pub(super) threads: PagerThreads,
    control: Control,
    has_agent: bool,
    pub(super) patience: Duration,
}

impl Shared {
    /// The memory server, for questions.
    pub(super) fn server(&self) -> Result<MutexGuard<'_, Memory>, FarError> {
        self.control.server()
    }

    /// Gives a region its place among our addresses, and waits until every fault thread can reach it.
    pub(super) fn map(&self, spec: RegionSpec) -> Result<Arc<PagedRegion>, FarError> {
        let region = self.pages.map(spec)?;
        let opened = self.threads.open(&region, self.patience);
        if let Err(error) = opened {
            self.threads.unmap(&region, Duration::ZERO);
            return Err(error.into());
        }
        Ok(region)
    }

    /// Waits until the server has everything that was written to a region before.
    pub(super) fn flush(&self, region: &Arc<PagedRegion>) -> Result<(), FarError> {
        if !region.spec().writable {
            return Ok(());
        }
        self.pages.begin_flush(region);
        let patience = self.pages.config().grace + self.patience;
        let deadline = Instant::now() + patience;
        loop {
            let unsaved = self.pages.write_back(region);
            if unsaved == 0 {
                return Ok(());
            }
            if region.is_lost() || Instant::now() > deadline {
                let name = region.spec().name.clone();
                return Err(FarError::NotFlushed { name, unsaved, patience });
            }
            self.threads.look();
            self.pages.wait_for_news(Duration::from_millis(2));
        }
    }
}

impl FarMemory {
    /// Connects to a memory server, and to an agent if one is named, and starts the threads that answer faults.
    pub fn connect(options: FarOptions) -> Result<Self, FarError> {
        // What makes no sense, and what this machine cannot do, is said before anybody is disturbed.
        options.check()?;
        let pages = Arc::new(Pages::new(options.paging())?);
        let control = Control::connect(&options)?;
        let peers = Peers {
            server: options.server.clone(),
            agent: options.agent.clone(),
            identity: options.identity.clone(),
            desk: FrontDeskConfig {
                shm: options.link.shm(),
                tcp: options.link.tcp(),
                ofi: options.link.ofi(),
                ..FrontDeskConfig::default()
            },
            worker: WorkerConfig { spin: options.spin, ..WorkerConfig::default() },
        };
        let patience = options.link.deadline;
        let threads = PagerThreads::start(&pages, &peers, patience)?;
        let has_agent = peers.agent.is_some();
        let shared = Shared { pages, threads, control, has_agent, patience };
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
        let class = self.check(bytes, options)?;
        let name = options.name.as_deref();
        let region = self.shared.server()?.reserve_chunks(bytes, class.0, name, Sharing::Leased)?;
        self.map(region, options, true)
    }

    /// Opens a named region to read it, together with other readers.
    pub fn open<T: Plain>(&self, name: &str, options: &RegionOptions) -> Result<FarSlice<T>, FarError> {
        self.check(1, options)?;
        let region = self.shared.server()?.open(name, Rights::READ)?;
        FarSlice::new(self.map(region, &named(name, options), false)?)
    }

    /// Opens a named region as its only writer.
    pub fn open_writable<T: Plain>(
        &self,
        name: &str,
        options: &RegionOptions,
    ) -> Result<FarVec<T>, FarError> {
        self.check(1, options)?;
        let region = self.shared.server()?.open(name, Rights::READ.and(Rights::WRITE))?;
        FarVec::whole(self.map(region, &named(name, options), true)?)
    }

    /// Opens a file below the server's data directory to read it, together with other readers. The server loads it
    /// unless it has already.
    pub fn open_file<T: Plain>(&self, path: &str, options: &RegionOptions) -> Result<FarSlice<T>, FarError> {
        self.check(1, options)?;
        let region = self.shared.server()?.load(path, Rights::READ, options.patience)?;
        FarSlice::new(self.map(region, &named(path, options), false)?)
    }

    /// The same as its only writer. [`FarVec::sync`] brings what was written to the file.
    pub fn open_file_writable<T: Plain>(
        &self,
        path: &str,
        options: &RegionOptions,
    ) -> Result<FarVec<T>, FarError> {
        self.check(1, options)?;
        let rights = Rights::READ.and(Rights::WRITE);
        let region = self.shared.server()?.load(path, rights, options.patience)?;
        FarVec::whole(self.map(region, &named(path, options), true)?)
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
            self.shared.pages.wait_for_news(Duration::from_millis(5));
        }
        true
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
            "pages are {}, the userfaultfd is got by {:?}{}",
            match (pages.mover(), pages.config().mover) {
                (Mover::Move, _) => "moved",
                (Mover::Copy, None) => "copied: this kernel cannot move them",
                (Mover::Copy, Some(_)) => "copied, as configured",
            },
            pages.route(),
            if pages.serves_the_kernel() {
                ""
            } else {
                ": system calls given far memory that is not here fail with EFAULT, so prefault or pin it"
            }
        )];
        lines.extend(pages.explain());
        lines
    }

    /// Refuses what cannot be before any data moves.
    fn check(&self, bytes: u64, options: &RegionOptions) -> Result<SizeClass, FarError> {
        let class = SizeClass(options.chunk.max(1).ilog2() as u8);
        self.shared.pages.check(bytes, options.chunk)?;
        Ok(class)
    }

    fn map(&self, far: FarRegion, options: &RegionOptions, writable: bool) -> Result<FarMapping, FarError> {
        match self.try_map(&far, options, writable) {
            Ok(region) => Ok(FarMapping::new(Arc::clone(&self.shared), region, far)),
            Err(error) => {
                // The region is of no use to us; the first error is the one to tell.
                let _ = self.shared.server().map(|mut server| server.release(far));
                Err(error)
            }
        }
    }

    fn try_map(
        &self,
        far: &FarRegion,
        options: &RegionOptions,
        writable: bool,
    ) -> Result<Arc<PagedRegion>, FarError> {
        let class = self.check(far.size(), options)?;
        let spec = RegionSpec {
            name: options.name.clone().unwrap_or_else(|| format!("region {}", far.descriptor.grant.region.0)),
            grant: far.descriptor.grant,
            server: far.server(),
            epoch: far.epoch(),
            class,
            writable,
            is_kept: options.name.is_some(),
            path: options.path,
            cache: options.cache,
        };
        self.shared.map(spec)
    }
}

fn named(name: &str, options: &RegionOptions) -> RegionOptions {
    RegionOptions { name: Some(name.to_owned()), ..options.clone() }
}
