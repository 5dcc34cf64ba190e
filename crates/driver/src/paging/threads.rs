//! The threads that answer faults, and the one that keeps them connected.

use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use outboard_link::{Address, Exports, Identity};
use outboard_paging::application::{PagedRegion, Pager, PagerNote};
use thiserror::Error;

use super::ProcessPages;
use super::process::say;
use super::signal::Attendance;
use super::tries::Counted;
use super::uninterrupted::Uninterrupted;
use crate::{Dial, FrontDesk, FrontDeskConfig, Worker, WorkerConfig, WorkerHandle};

/// Why fault threads cannot work.
#[derive(Error)]
#[non_exhaustive]
pub enum ThreadsError {
    /// The system refused a thread or a descriptor.
    #[error("cannot start the threads that answer page faults: {0}")]
    System(#[from] std::io::Error),
    /// The memory server did not answer.
    #[error("no link to the memory server at {address} within {patience:?}: {reason}")]
    NotConnected {
        /// Where it should be.
        address: Address,
        /// How long was waited.
        patience: Duration,
        /// The latest error.
        reason: String,
    },
    /// The memory server did not open a region on all links.
    #[error("the memory server at {address} did not open region “{name}” within {patience:?}")]
    NotOpened {
        /// Where it is.
        address: Address,
        /// Which region.
        name: String,
        /// How long was waited.
        patience: Duration,
    },
}

outboard_wire::debug_with_causes!(ThreadsError);

/// The peers of fault threads.
#[derive(Clone, Debug)]
pub struct Peers {
    /// Where the memory servers are, as many as far memory was made for.
    pub servers: Vec<Address>,
    /// Where the agent is, if there is one.
    pub agent: Option<Address>,
    /// The identity that we show.
    pub identity: Identity,
    /// How links are made.
    pub desk: FrontDeskConfig,
    /// How workers wait, and which wire their links look like.
    pub worker: WorkerConfig,
}

impl Peers {
    fn dial(&self, address: &Address, worker: usize) -> Dial {
        let (address, identity) = (address.clone(), self.identity.clone());
        Dial { address, identity, exports: Exports::new(), worker: Some(worker) }
    }
}

/// The threads of one far memory. They end when this is dropped.
pub struct PagerThreads {
    pub(super) pages: Arc<ProcessPages>,
    servers: Vec<Address>,
    pub(super) workers: Vec<WorkerHandle<PagerNote>>,
    stop_desk: Box<dyn Fn() + Send + Sync>,
    threads: Vec<JoinHandle<()>>,
    last_error: Arc<Mutex<String>>,
    _attendance: Option<Attendance>,
}

impl PagerThreads {
    /// Starts them and waits until each has its links to the memory servers.
    pub fn start(pages: &Arc<ProcessPages>, peers: &Peers, patience: Duration) -> Result<Self, ThreadsError> {
        let clock = pages.space().clock;
        let mut threads = Vec::new();
        let mut workers = Vec::new();
        let mut dials = Vec::new();
        for index in 0..pages.config().threads.max(1) {
            let (worker, handle) = Worker::new(peers.worker, clock, Pager::new(Arc::clone(pages)))
                .map_err(std::io::Error::from)?;
            worker.wake_on(pages.space().userfaultfd().as_fd()).map_err(std::io::Error::from)?;
            if let Some(arrivals) = &pages.space().arrivals {
                worker.wake_on(arrivals.as_fd()).map_err(std::io::Error::from)?;
            }
            dials.extend(peers.servers.iter().map(|server| peers.dial(server, index)));
            threads.push(spawn(format!("outboard-pager-{index}"), move || {
                let _last_resort = LastResort;
                if let Err(errno) = worker.run() {
                    panic!("a thread that answers page faults cannot wait for them: {errno}");
                }
            })?);
            workers.push(handle);
        }
        // After those to servers, which are told apart by their numbers.
        let threads_of_agent =
            peers.agent.iter().flat_map(|agent| (0..workers.len()).map(move |index| (agent, index)));
        dials.extend(threads_of_agent.map(|(agent, index)| peers.dial(agent, index)));
        let last_error = Arc::new(Mutex::new(String::from("no answer")));
        let heard = Arc::clone(&last_error);
        let desk =
            FrontDesk::new(peers.desk.clone(), clock, (Vec::new(), dials), workers.clone(), move |error| {
                *heard.lock().unwrap_or_else(PoisonError::into_inner) = error.to_string();
            })
            .map_err(std::io::Error::from)?;
        let stop_desk = Box::new(desk.stopper());
        threads.push(spawn("outboard-desk".to_owned(), move || {
            let _ = desk.run();
        })?);
        let servers = peers.servers.clone();
        let _attendance = pages.space().arrivals.is_some().then(|| Attendance::begin(pages)).transpose()?;
        let pages = Arc::clone(pages);
        let all = Self { pages, servers, workers, stop_desk, threads, last_error, _attendance };
        all.wait_until_connected(patience)?;
        Ok(all)
    }

    fn wait_until_connected(&self, patience: Duration) -> Result<(), ThreadsError> {
        let deadline = Instant::now() + patience;
        let is_away = |server: &usize| self.pages.server_links(*server) < self.workers.len();
        while let Some(server) = (0..self.servers.len()).find(is_away) {
            if Instant::now() > deadline {
                let reason = self.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone();
                let address = self.servers[server].clone();
                return Err(ThreadsError::NotConnected { address, patience, reason });
            }
            self.pages.space().wait_for_news(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Waits until every thread has opened a region.
    pub fn open(&self, region: &PagedRegion, patience: Duration) -> Result<(), ThreadsError> {
        let _opener = Counted::new(&self.pages.openers);
        self.look();
        let deadline = Instant::now() + patience;
        while self.pages.opened(region) < self.workers.len() as u64 {
            if region.is_lost() || Instant::now() > deadline {
                let name = region.spec().name.clone();
                let address = self.servers[region.spec().at].clone();
                return Err(ThreadsError::NotOpened { address, name, patience });
            }
            self.pages.space().wait_for_news(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Takes an object's place back. What was not flushed is given up. Nothing may point into it any more.
    pub fn unmap(&self, parts: &[Arc<PagedRegion>], patience: Duration) {
        self.pages.begin_closing(parts);
        self.look();
        let deadline = Instant::now() + patience;
        while self.pages.forget(parts) > 0 && Instant::now() <= deadline {
            self.pages.space().wait_for_news(Duration::from_millis(1));
        }
        self.pages.unmap(parts);
        // Its places in the buffer are free for others, who may have waited for them.
        self.look();
    }

    /// Tells all threads that there is something to do.
    pub fn look(&self) {
        look(&self.workers);
    }

    /// A function for other threads that tells all of these that there is something to do.
    pub fn looker(&self) -> impl Fn() + Send + Sync + 'static {
        let workers = self.workers.clone();
        move || look(&workers)
    }

    /// Has the server begin a new epoch of a region before it is saved again, and ends the discard that came to nothing.
    pub fn fence(&self, region: &Arc<PagedRegion>, chunks: Range<u32>) {
        let _uninterrupted = Uninterrupted::new();
        self.workers[0].tell(PagerNote::Fence { region: Arc::clone(region), chunks });
    }

    /// Has the threads fetch chunks that will be wanted, each a share of them.
    pub fn prefetch(&self, list: Vec<(Arc<PagedRegion>, Range<u32>)>) {
        let _uninterrupted = Uninterrupted::new();
        for (worker, share) in self.workers.iter().zip(self.pages.prefetch(list, self.workers.len())) {
            worker.tell(PagerNote::Prefetch(share));
        }
    }
}

impl Drop for PagerThreads {
    fn drop(&mut self) {
        (self.stop_desk)();
        for worker in &self.workers {
            worker.stop("done");
        }
        for thread in self.threads.drain(..) {
            // One that panicked has nothing left to end.
            let _ = thread.join();
        }
        self.pages.space().bulletin.close();
    }
}

/// Tells threads that there is something to do.
pub(super) fn look(workers: &[WorkerHandle<PagerNote>]) {
    let _uninterrupted = Uninterrupted::new();
    for worker in workers {
        worker.tell(PagerNote::Look);
    }
}

/// Ends the process with a thread that answers faults, because threads that wait for an answer would wait for ever.
struct LastResort;

impl Drop for LastResort {
    fn drop(&mut self) {
        if std::thread::panicking() {
            say("outboard: no thread answers page faults any more; the process cannot go on\n");
            std::process::abort();
        }
    }
}

/// Starts a thread in which no signal handler of the application runs: one that touched far memory would wait for
/// itself.
pub(super) fn spawn(
    name: String,
    work: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, std::io::Error> {
    // The new thread inherits the mask.
    let _uninterrupted = Uninterrupted::new();
    std::thread::Builder::new().name(name).spawn(work)
}
