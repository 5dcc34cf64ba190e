//! A daemon as a whole: listeners, front desk, workers, status page, metrics.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use outboard_driver::{
    Dial, FrontDesk, FrontDeskConfig, Listener, Service, Worker, WorkerConfig, WorkerHandle,
};
use outboard_limits::{Allowance, growth, show_bytes};
use outboard_link::{Address, Clock, ConnectError, Exports, Identity, shm};
use outboard_rendezvous::Rendezvous;
use outboard_settings::{Reasons, Settings};
use outboard_wire::{RefusalReason, Role, ServerId, StoreId};
use rustix::io::Errno;
use thiserror::Error;

use crate::agent_service::{AgentService, SharedAgent};
use crate::counts::Counts;
use crate::echo::trial_region;
use crate::files::DataDirectory;
use crate::keep::{Keep, KeepError, KeptRegions};
use crate::memory_service::{MemoryService, SharedStore};
use crate::metrics::MetricsEndpoint;
use crate::paging::{self, Numbers};
use crate::routing::{AgentHost, config_of, share_routing};
use crate::status::StatusPage;
use crate::store::{RegionStore, StoreConfig};
use crate::threads::Threads;
use crate::watchdog::Watchdog;

/// Why a daemon could not be started.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StartError {
    /// It cannot listen there.
    #[error(transparent)]
    Listen(#[from] ConnectError),
    /// The operating system refused.
    #[error("the operating system refused: {0}")]
    System(#[from] Errno),
    /// A thread could not be made.
    #[error("no thread could be started: {0}")]
    Thread(std::io::Error),
    /// The metrics endpoint cannot listen there.
    #[error("no metrics on {address}: {source}; choose another address")]
    Metrics {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// Regions cannot be kept where they are to be.
    #[error(transparent)]
    Keep(#[from] KeepError),
    /// Regions that were kept cannot be had again.
    #[error("the regions that were kept cannot be had again: {0}")]
    Kept(String),
    /// The data directory cannot be used.
    #[error("the data directory {path} cannot be used: {source}")]
    DataDirectory {
        /// Which one.
        path: String,
        /// Why.
        source: Errno,
    },
}

/// Threads of a daemon that did not end when they were asked to.
#[derive(Debug, Error)]
#[error("threads that did not end within {} s: {}", STOP_WITHIN.as_secs(), .threads.join(", "))]
pub struct StopError {
    /// Their names.
    pub threads: Vec<String>,
}

/// How long the threads of a daemon have to end.
const STOP_WITHIN: Duration = Duration::from_secs(5);

/// A daemon that runs in threads of this process.
pub struct Daemon {
    identity: Identity,
    page: Arc<StatusPage>,
    counts: Arc<Counts>,
    metrics: Option<MetricsEndpoint>,
    listening: Vec<Address>,
    about: String,
    reasons: Reasons,
    stop: Box<dyn Fn(&str) + Send>,
    threads: Threads,
    /// Its end stops the watchdog.
    watch: Sender<()>,
    /// Where a memory server keeps its regions, and what stops the thread that brings them to the disk.
    keep: Option<(Arc<Keep>, Sender<()>)>,
}

/// What both kinds of daemon are made of before their threads start.
struct Parts {
    identity: Identity,
    exports: Arc<Exports>,
    page: Arc<StatusPage>,
    counts: Arc<Counts>,
    desk: FrontDeskConfig,
    listeners: Vec<Listener>,
    clock: Clock,
}

impl Parts {
    fn new(
        identity: Identity,
        workers: usize,
        listen: &[Address],
        settings: &Settings,
    ) -> Result<Self, StartError> {
        // Others decide how much it has to keep for them.
        growth().watch();
        let (role, name) = (identity.role, identity.name.as_str());
        let page = Arc::new(StatusPage::create(role, name)?);
        let exports = Exports::new();
        exports.add(page.export());
        exports.add(trial_region()?);
        let desk = FrontDeskConfig { links: settings.link.configs(), ..FrontDeskConfig::default() };
        let bind =
            |address: &Address| Listener::bind_for_workers(address, workers, &identity, &exports, &desk);
        let listeners: Vec<Listener> =
            listen.iter().map(bind).collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect();
        for listener in listeners.iter().filter(|listener| listener.worker().is_none()) {
            if let Some(protection) = listener.protection() {
                tracing::info!("connections at {} are {protection}", listener.address());
            } else if let address @ Address::Ofi(_) = listener.address() {
                tracing::info!("connections at {address} are not encrypted, as no fabric is");
            }
        }
        let counts = Arc::new(Counts::new(&page));
        page.gauge("descriptors_max").set(descriptors_max());
        page.gauge("idle_client_max_bytes").set(idle_client_max_bytes(&desk.links.shm));
        Ok(Self { identity, exports, page, counts, desk, listeners, clock: Clock::start() })
    }

    fn start<S: Service + Send + 'static>(
        self,
        services: Vec<S>,
        config: WorkerConfig,
        (dials, settings): (Vec<Dial>, &Settings),
        announce: impl FnOnce(Vec<WorkerHandle<S::Note>>),
    ) -> Result<Daemon, StartError> {
        let mut threads = Threads::new();
        let mut handles = Vec::new();
        let mut workers = Vec::new();
        for service in services {
            let (worker, handle) = Worker::new(config, self.clock, service)?;
            workers.push(worker);
            handles.push(handle);
        }
        announce(handles.clone());
        let shown = self.listeners.iter().filter(|listener| listener.worker().is_none());
        let listening = shown.map(Listener::address).collect();
        let counts = Arc::clone(&self.counts);
        let report = move |error: &ConnectError| {
            if matches!(error, ConnectError::TurnedAway { refusal, .. } if refusal.reason == RefusalReason::Busy)
            {
                counts.clients_refused_total.add(1);
            }
            counts.errors.note(error);
        };
        let desk = FrontDesk::new(self.desk, self.clock, (self.listeners, dials), handles.clone(), report)?;
        let stop_desk = desk.stopper();
        let metrics = settings.metrics.listen.map(|address| {
            MetricsEndpoint::start(address, Arc::clone(&self.page))
                .map_err(|source| StartError::Metrics { address, source })
        });
        let metrics = metrics.transpose()?;
        let mut watched = vec![("front-desk".to_owned(), desk.pulse())];
        for (index, worker) in workers.into_iter().enumerate() {
            let name = format!("worker-{index}");
            threads.spawn(&name, move || worker.run().map(drop))?;
            watched.push((name, Arc::clone(handles[index].pulse())));
        }
        threads.spawn("front-desk", move || desk.run())?;
        let (watchdog, clock) = (Watchdog::new(&self.page, watched), self.clock);
        let (watch, until) = channel();
        threads.spawn("watchdog", move || {
            watchdog.run(clock, &until);
            Ok(())
        })?;
        let stop = Box::new(move |reason: &str| {
            stop_desk();
            handles.iter().for_each(|handle| handle.stop(reason));
        });
        let Self { identity, page, counts, .. } = self;
        let (about, reasons) = (String::new(), Reasons::default());
        let keep = None;
        Ok(Daemon { identity, page, counts, metrics, listening, about, reasons, stop, threads, watch, keep })
    }
}

/// How many descriptors this process may have.
fn descriptors_max() -> u64 {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Each region is a descriptor and a mapping, and clients need some of both too: who has as many mappings as the kernel
/// allows is given no more memory at all.
fn regions_max() -> usize {
    let mappings = std::fs::read_to_string("/proc/sys/vm/max_map_count").ok();
    let mappings = mappings.and_then(|text| text.trim().parse::<u64>().ok()).unwrap_or(u64::MAX);
    usize::try_from(descriptors_max().min(mappings) / 2).unwrap_or(usize::MAX)
}

/// What a client that asks nothing costs at most: both rings or queues, if all of them were ever used, the room that is kept
/// for its answers, and what its link takes besides.
fn idle_client_max_bytes(shm: &shm::ShmConfig) -> u64 {
    2 * u64::from(shm.ring_bytes) + (128 << 10)
}

fn open_data_directory(path: &Path) -> Result<DataDirectory, StartError> {
    DataDirectory::open(path)
        .map_err(|source| StartError::DataDirectory { path: path.display().to_string(), source })
}

impl Daemon {
    /// Starts a memory server.
    pub fn memory(settings: &Settings) -> Result<Self, StartError> {
        let memory = &settings.memory;
        let plan = memory.plan(&Allowance::of_this_process());
        let mut identity = Identity::new(Role::MemoryServer, &*memory.name);
        let begin = |path: &PathBuf| Keep::begin(path, identity.incarnation, memory.keep_sync);
        let kept = memory.keep.as_ref().map(begin).transpose()?;
        identity.store = kept.as_ref().map_or(StoreId::NONE, |(_, kept)| kept.store);
        let parts = Parts::new(identity, plan.workers, &memory.listen, settings)?;
        let config = StoreConfig {
            server: server_id(&memory.name),
            incarnation: parts.identity.incarnation,
            capacity: plan.capacity,
            regions_max: regions_max(),
            linger: memory.linger,
        };
        let mut store = RegionStore::new(config, Arc::clone(&parts.exports));
        let keep = kept.map(|kept| have_again(&mut store, kept, parts.clock)).transpose()?;
        let directory = memory.data_dir.as_deref().map(open_data_directory).transpose()?;
        let page = (&*parts.page, plan.workers);
        let store = Arc::new(SharedStore::new(store, directory, page, &settings.calling));
        let service = |index| MemoryService::new(index, Arc::clone(&store), Arc::clone(&parts.counts));
        let services = (0..plan.workers).map(service).collect();
        let announce = |handles| store.set_workers(handles);
        let clock = parts.clock;
        let config = WorkerConfig {
            spin: outboard_limits::spin(WorkerConfig::default().spin),
            ..WorkerConfig::default()
        };
        let mut daemon = parts.start(services, config, (Vec::new(), settings), announce)?;
        let steered = Arc::clone(&store);
        let steer = move || {
            steered.steer(clock);
            Ok(())
        };
        daemon.threads.spawn("steering", steer)?;
        let stop = daemon.stop;
        daemon.stop = Box::new(move |reason| {
            store.rest();
            store.stop_steering();
            stop(reason);
        });
        daemon.about = format!("capacity {}", show_bytes(plan.capacity));
        if let Some(keep) = keep {
            daemon.about = format!("{}; {}", daemon.about, keep.shown());
            let (tell, until) = channel();
            let settling = Arc::clone(&keep);
            daemon.threads.spawn("keep", move || {
                settling.run(&until);
                Ok(())
            })?;
            daemon.keep = Some((keep, tell));
        }
        daemon.reasons = plan.reasons;
        Ok(daemon)
    }

    /// Starts an agent.
    pub fn agent(settings: &Settings) -> Result<Self, StartError> {
        let agent = &settings.agent;
        let plan = agent.plan(&Allowance::of_this_process());
        let identity = Identity::new(Role::Agent, &*agent.name);
        let parts = Parts::new(identity, plan.workers, &agent.listen, settings)?;
        let rendezvous = Rendezvous::new(settings.job.join_timeout);
        let shared = Arc::new(SharedAgent::new(rendezvous, &parts.page, &settings.calling));
        let known = Arc::clone(&shared);
        let config = paging::config(agent, &plan);
        let numbers = Arc::new(Numbers::new(&parts.page, config.slot_bytes()));
        let wake = move |worker| known.wake(worker);
        let paging = Arc::new(paging::shared_paging(config, &parts.exports, parts.clock, wake)?);
        let mut key = [0; 16];
        rustix::rand::getrandom(&mut key[..], rustix::rand::GetRandomFlags::empty())?;
        let known = Arc::clone(&shared);
        let wake = move |worker| known.wake_for_messages(worker);
        let host = Arc::new(AgentHost::new(&parts.page, wake));
        let routing = share_routing(config_of(agent, plan.workers), key, &parts.exports, host)?;
        let routing = Arc::new(routing);
        // Every worker has a link of its own to every memory server; to a peer, one of them has.
        let mut dials = Vec::new();
        let mut dialled = Vec::new();
        for (number, address) in agent.memory_servers.iter().chain(&agent.peers).enumerate() {
            let is_server = number < agent.memory_servers.len();
            let workers = if is_server { (0..plan.workers).map(Some).collect() } else { vec![None] };
            for worker in workers {
                let (identity, exports) = (parts.identity.clone(), Arc::clone(&parts.exports));
                dials.push(Dial { address: address.clone(), identity, exports, worker });
                dialled.push(number);
            }
        }
        let dialled: Arc<[usize]> = dialled.into();
        let service = |index| {
            let (shared, counts) = (Arc::clone(&shared), Arc::clone(&parts.counts));
            let paging = (Arc::clone(&paging), Arc::clone(&numbers));
            let rooms = (paging, Arc::clone(&routing));
            AgentService::new(index, shared, counts, rooms, Arc::clone(&dialled))
        };
        let services = (0..plan.workers).map(service).collect();
        let config = WorkerConfig {
            spin: plan.spin,
            wire: agent.wire,
            dial_wire: agent.dial_wire,
            ..WorkerConfig::default()
        };
        let daemon =
            parts.start(services, config, (dials, settings), |handles| shared.set_workers(handles))?;
        let about = format!("{} worker{}", plan.workers, if plan.workers == 1 { "" } else { "s" });
        Ok(Self { about, reasons: plan.reasons, ..daemon })
    }

    /// What it is like, in a few words.
    pub fn about(&self) -> &str {
        &self.about
    }

    /// What it has chosen on this machine, and what its user should know of what was chosen for it.
    pub fn reasons(&self) -> &Reasons {
        &self.reasons
    }

    /// Where it listens; a port that was left to the system is filled in.
    pub fn listening(&self) -> &[Address] {
        &self.listening
    }

    /// Where its metrics are.
    pub fn metrics(&self) -> Option<SocketAddr> {
        self.metrics.as_ref().map(MetricsEndpoint::address)
    }

    /// Who it says it is.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// What it counts.
    pub fn page(&self) -> &StatusPage {
        &self.page
    }

    /// Whether the last application that it served is gone, or none has ever come.
    pub fn is_unused(&self) -> bool {
        self.counts.attendance.is_over(Instant::now())
    }

    /// Says goodbye to everyone and ends all threads, or says which of them do not end.
    pub fn stop(self, reason: &str) -> Result<(), StopError> {
        (self.stop)(reason);
        drop(self.watch);
        let keep = self.keep.map(|(keep, _)| keep);
        let threads = self.threads.wait(STOP_WITHIN);
        if let Some(keep) = keep.filter(|_| threads.is_empty()) {
            keep.end();
        }
        if threads.is_empty() { Ok(()) } else { Err(StopError { threads }) }
    }
}

/// Gives a store the regions that were kept, and says how it found them.
fn have_again(
    store: &mut RegionStore,
    (keep, kept): (Arc<Keep>, KeptRegions),
    clock: Clock,
) -> Result<Arc<Keep>, StartError> {
    let (count, is_other) = (kept.regions.len(), kept.is_other);
    store.keep_in(&keep, kept, clock.now()).map_err(|(_, detail)| StartError::Kept(detail))?;
    if count > 0 {
        let used = show_bytes(store.used());
        tracing::info!("{count} region{} of {used} found again", if count == 1 { "" } else { "s" });
    }
    if let Some(why) = is_other {
        tracing::warn!("{why}: clients that were connected are told that what they had is lost");
    }
    Ok(keep)
}

/// A number for a server that stays the same over its restarts: the hash of its name (FNV-1a).
fn server_id(name: &str) -> ServerId {
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    ServerId(hash)
}
