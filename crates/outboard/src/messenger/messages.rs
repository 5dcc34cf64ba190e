//! The ranks of a job, connected.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use outboard_driver::routing::take_buffers;
use outboard_driver::{Worker, WorkerConfig};
use outboard_link::Clock;
use outboard_routing::{Agreement, Arrived, Joiner, RankConfig, RankService};
use outboard_settings::MessagesPlacement;
use outboard_wire::{JobId, RegionId};

use super::backlog::Backlog;
use super::error::{MessengerError, SendError};
use super::lanes::Lane;
use super::options::MessengerOptions;
use super::placement::CarrierChoice;
use super::receive::Item;
use super::reception::Reception;
use super::stats::{MessengerStats, Report};
use crate::{Job, Outboard};

/// The region by which a rank lets others read its bundles.
const BUNDLES: RegionId = RegionId(u64::MAX - 1);

/// Fire-and-forget messages between the ranks of a job.
///
/// Messages of any size are gathered in bundles, one for each rank, and travel when a bundle is full, at
/// [`flush`](Self::flush), and when this rank finds nothing else to do. Nothing here blocks, but for
/// [`quiesce`](Self::quiesce) and [`barrier`](Self::barrier), which have versions that do not. Every message is handled once.
/// Messages of one rank arrive in no particular order.
///
/// It belongs to one thread; everything is done when that calls.
pub struct Messenger {
    pub(super) worker: Worker<RankService>,
    pub(super) lanes: Vec<Lane>,
    pub(super) rank: u32,
    pub(super) ranks: u32,
    pub(super) spaces: u8,
    pub(super) bundle_bytes: usize,
    /// The messages that have arrived, for each space.
    pub(super) inbox: Vec<VecDeque<Item>>,
    pub(super) agreement: Agreement,
    pub(super) joiners: Vec<Joiner>,
    /// A rank that sent parts of a message that make none, until the program is told.
    pub(super) nonsense: Option<(u32, String)>,
    /// How many departures the program that pauses was told of.
    pub(super) departed_told: usize,
    /// The messages that wait for bundles, for each space.
    pub(super) backlogs: Vec<Backlog>,
    pub(super) next_number: u64,
    pub(super) is_in_handler: bool,
    /// How often in a row there was nothing to handle while there was no room.
    pub(super) idle: u32,
    pub(super) scratch: Vec<Arrived>,
    pub(super) options: MessengerOptions,
    pub(super) stats: MessengerStats,
    pub(super) report: Option<Report>,
    pub(super) carriers: CarrierChoice,
    /// Whether an agent was ever dialled.
    pub(super) has_agent: bool,
    reception: Reception,
}

impl Messenger {
    pub(crate) fn start(job: &Job, options: MessengerOptions) -> Result<Self, MessengerError> {
        let Outboard { link, agent, .. } = job.outboard();
        options.check(agent.is_some())?;
        let (doors, exports) = job.take_doors().ok_or(MessengerError::Taken)?;
        let (rank, ranks) = (job.rank(), job.size());
        let (bundle_bytes, sending, receiving) = options.fit(ranks as usize);
        let sets = usize::from(options.spaces) + 1;
        let begun_max = Joiner::most(options.spaces.into(), options.longest, bundle_bytes);
        let buffers = take_buffers(&exports, BUNDLES, bundle_bytes, (sending, receiving), (sets, ranks))
            .map_err(|error| MessengerError::Memory(error.into()))?;
        let config = RankConfig {
            job: JobId(job.id()),
            rank,
            spaces: options.spaces,
            members: job.members().iter().map(|member| member.incarnation).collect(),
            deadline: link.deadline,
            agent_patience: link.deadline,
        };
        let clock = Clock::start();
        let (worker, handle) = Worker::new(WorkerConfig::default(), clock, RankService::new(config, buffers))
            .map_err(std::io::Error::from)?;
        let uses_agent = options.placement != MessagesPlacement::Inline && ranks > 1;
        let agent = agent.clone().filter(|_| uses_agent);
        let has_agent = agent.is_some();
        let reception = Reception::open(job, (doors, exports), agent, handle, clock)?;
        let mut messenger = Self {
            worker,
            lanes: vec![Lane::CLOSED; sets * ranks as usize],
            rank,
            ranks,
            spaces: options.spaces,
            bundle_bytes,
            inbox: (0..sets).map(|_| VecDeque::new()).collect(),
            agreement: Agreement::new(rank, ranks, options.spaces),
            joiners: (0..ranks).map(|_| Joiner::new(options.longest, begun_max)).collect(),
            nonsense: None,
            departed_told: 0,
            backlogs: (0..options.spaces).map(|_| Backlog::default()).collect(),
            next_number: 0,
            is_in_handler: false,
            idle: 0,
            scratch: Vec::new(),
            carriers: CarrierChoice::new(options.placement, clock),
            has_agent,
            options,
            stats: MessengerStats::default(),
            report: Report::from_environment(),
            reception,
        };
        messenger.wait_until_connected(job.join_timeout())?;
        messenger.set_placement(messenger.carriers.placement);
        messenger.wait_for_agent()?;
        Ok(messenger)
    }

    fn wait_until_connected(&mut self, patience: Duration) -> Result<(), MessengerError> {
        let (began, others) = (Instant::now(), self.ranks as usize - 1);
        // One that has left was there.
        while self.worker.service().connected() + self.worker.service().departed().len() < others {
            self.progress()?;
            self.fail_if_lost()?;
            if began.elapsed() > patience {
                let connected = self.worker.service().connected();
                let why = self.reception.last_error();
                return Err(MessengerError::NotConnected { connected, others, waited: patience, why });
            }
            self.worker.rest(Duration::from_millis(1)).map_err(std::io::Error::from)?;
        }
        Ok(())
    }

    /// This process's number in the job.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// How many ranks the job has.
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// How many message spaces there are.
    pub fn spaces(&self) -> u8 {
        self.spaces
    }

    /// How long a bundle can be.
    pub fn bundle_bytes(&self) -> usize {
        self.bundle_bytes
    }

    /// The traffic so far.
    pub fn stats(&self) -> MessengerStats {
        self.stats.with_carried(self.worker.service_ref().carried())
    }

    /// A rank that was lost without a goodbye, if there is one.
    pub fn lost(&mut self) -> Option<SendError> {
        let departed = self.worker.service().departed().iter().find(|departed| !departed.has_left)?;
        Some(SendError::Departed { rank: departed.rank, why: departed.why.clone() })
    }

    pub(super) fn fail_if_lost(&mut self) -> Result<(), MessengerError> {
        self.lost().map_or(Ok(()), |lost| Err(lost.into()))
    }

    /// Moves what can be moved now. Handles nothing. Returns whether anything moved.
    pub fn progress(&mut self) -> Result<bool, SendError> {
        let moved = self.worker.step().map_err(|errno| SendError::System(errno.to_string()))?;
        let drained = self.drain_backlogs();
        // Messages in parts from this rank to itself are put together there too.
        let sorted = self.sort_arrived();
        self.report_in_time();
        Ok(moved | drained | sorted)
    }
}

/// How long a messenger that goes waits until others have what it sent.
const FAREWELL: Duration = Duration::from_secs(5);

impl Drop for Messenger {
    /// Delivers what was sent, as long as a destination takes it.
    fn drop(&mut self) {
        let began = Instant::now();
        self.agreement.leave();
        self.drain_signals();
        for space in 0..self.spaces {
            let _ = self.flush_in(space);
        }
        while !std::thread::panicking() && self.worker.service().kept() > 0 && began.elapsed() < FAREWELL {
            if self.progress().is_err() {
                break;
            }
            std::thread::yield_now();
        }
        self.report_at_the_end();
        self.worker.close("done");
        self.reception.close();
    }
}
