//! The work of one fault thread.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use outboard_contract::{
    Completion, Disposition, Frame, Link, LinkError, LinkId, LinkOrigin, Peer, RemoteMemory, Service,
};
use outboard_wire::{Grant, Role, Time, mutant};

use super::faults::Outcome;
use super::jobs::JobsUnderWay;
use super::pages::Pages;
use super::prefetch::PrefetchShare;
use super::readahead::Ahead;
use super::region::{PagedRegion, Pattern};
use super::side::Side;
use super::space::{Faults, PageSpace};

/// The messages of the application to its fault threads.
pub enum PagerNote {
    /// There is something to do: a region to open, a chunk to save.
    Look,
    /// These chunks will be wanted.
    Prefetch(PrefetchShare),
    /// Chunks that the server was asked to discard may still be, or may not: it has to begin a new epoch before the chunks of this region
    /// are saved again. Ends the discard.
    Fence {
        /// Which region.
        region: Arc<PagedRegion>,
        /// Which chunks.
        chunks: Range<u32>,
    },
    /// A thread waits for this chunk without touching it.
    Want {
        /// Of which region.
        region: Arc<PagedRegion>,
        /// Which.
        index: u32,
    },
}

/// How many chunks may be on their way for one thread.
pub(super) const JOBS_MAX: usize = 256;
/// How many saves may be on their way to the server for one thread.
pub(super) const SAVES_MAX: usize = 32;

/// The work of one fault thread: it reads faults, moves pages, and fetches and saves chunks by links of its own.
pub struct Pager<S> {
    pub(super) pages: Arc<Pages<S>>,
    pub(super) servers: Vec<Side>,
    pub(super) agent: Side,
    pub(super) flight: JobsUnderWay,
    /// The faults that were read last, kept for their capacity.
    pub(super) faults: Faults,
    /// No fault waited a moment ago: the next look can be left out.
    pub(super) has_no_faults: bool,
    /// Whether it stays awake for the next fault.
    is_looking: bool,
    /// Faults that may show where the application is going.
    pub(super) touched: VecDeque<(Arc<PagedRegion>, u32, u16)>,
    /// Chunks that the application has asked for in advance.
    wanted: VecDeque<PrefetchShare>,
    /// Regions whose write-backs wait for a fence, and whether the server has been asked for it.
    pub(super) fences: Vec<(Arc<PagedRegion>, bool)>,
    /// Copies of regions that the agent has offered and that are to be opened.
    pub(super) copies: Vec<(Arc<PagedRegion>, Grant)>,
    /// When the agent is asked again for what it refused for now or has old bytes of.
    pub(super) ask_agent_at: Option<Time>,
    pub(super) ended: Vec<Completion>,
    /// Whether a region has been opened since the last look at what is mapped.
    pub(super) has_opened: bool,
    pub(super) next_shard: usize,
    pub(super) saves_under_way: usize,
    /// How many regions had been lost or closed at the last look.
    pub(super) seen_departed: u32,
    /// When the latest fetch by each way arrived.
    pub(super) fetched_at: [Time; 2],
    pub(super) now: Time,
}

impl<S: PageSpace> Pager<S> {
    /// A fault thread for `pages`, without links.
    pub fn new(pages: Arc<Pages<S>>) -> Self {
        Self {
            servers: std::iter::repeat_with(Side::default).take(pages.config.servers.max(1)).collect(),
            pages,
            agent: Side::default(),
            flight: JobsUnderWay::with_capacity(JOBS_MAX),
            faults: Faults::default(),
            has_no_faults: false,
            is_looking: false,
            touched: VecDeque::with_capacity(64),
            wanted: VecDeque::new(),
            fences: Vec::new(),
            copies: Vec::new(),
            ask_agent_at: None,
            ended: Vec::with_capacity(JOBS_MAX),
            has_opened: false,
            next_shard: 0,
            saves_under_way: 0,
            seen_departed: 0,
            fetched_at: [Time::ZERO; 2],
            now: Time::ZERO,
        }
    }

    pub(super) fn side(&mut self, link: LinkId) -> &mut Side {
        match self.server_of(link) {
            None => &mut self.agent,
            Some(server) => &mut self.servers[server],
        }
    }

    /// To which server a link leads, if it does not lead to the agent.
    pub(super) fn server_of(&self, link: LinkId) -> Option<usize> {
        if self.agent.link == Some(link) {
            return None;
        }
        Some(self.servers.iter().position(|side| side.link == Some(link)).unwrap_or(0))
    }

    /// When a server that a thread waits for has been away for too long.
    fn grace_ends_at(&self, server: usize) -> Option<Time> {
        let since = self.servers[server].lost_since?;
        let pages = &self.pages;
        // A thread that found every seat full of what cannot be saved now waits for the server too, and so do those who
        // wait for a chunk without touching it and find no seat, wait for a region to be opened, or want to be told.
        let is_awaited = !self.servers[server].is_idle()
            || pages.has_parked()
            || pages.is_cramped()
            || pages.openers.load(Ordering::Acquire) > 0
            || pages.listeners.load(Ordering::Acquire) > 0;
        let is_awaited = is_awaited && !mutant("paging.grace-not-armed");
        (is_awaited && !pages.regions_at(server).is_empty()).then(|| since + pages.config.grace)
    }

    /// One step of work that no thread waits for. Returns whether there was any.
    fn work_ahead(&mut self) -> bool {
        let mut moved = false;
        if let Some((region, index, page)) = self.touched.pop_front() {
            moved = true;
            for ahead in self.pages.touched(&region, index, page).into_iter().flatten() {
                self.fetch_all_ahead(&region, ahead);
            }
        }
        if self.flight.len() < JOBS_MAX
            && let Some(list) = self.wanted.front_mut()
        {
            match list.next() {
                Some((region, chunk)) => {
                    self.fetch_ahead(&region, chunk, false);
                    self.pages.looked_ahead(&region);
                }
                None => _ = self.wanted.pop_front(),
            }
            moved = true;
        }
        for _ in 0..self.pages.shelves.len() {
            let shard = self.next_shard;
            self.next_shard = (shard + 1) % self.pages.shelves.len();
            while let Some(outcome) = self.pages.unpark(shard) {
                moved = true;
                match outcome {
                    Outcome::Fetch(job) => self.dispatch(job),
                    Outcome::Settled | Outcome::Waits | Outcome::Lost => break,
                }
            }
            let made_room = self.pages.make_room(shard);
            if made_room {
                return true;
            }
        }
        moved
    }

    pub(super) fn fetch_all_ahead(&mut self, region: &Arc<PagedRegion>, ahead: Ahead) {
        // A buffer that has shrunk has no room for a long window.
        let most = (self.pages.buffer() / 8 / region.chunk_bytes()).max(1);
        let is_wanted = |chunk: &u32| region.patterns.of(*chunk) != Pattern::Random;
        for chunk in ahead.chunks().take(most).filter(is_wanted) {
            self.fetch_ahead(region, chunk, chunk == ahead.marker);
        }
    }

    fn fetch_ahead(&mut self, region: &Arc<PagedRegion>, chunk: u32, stay: bool) {
        if !region.is_closing() && !region.is_lost() && chunk < region.chunks() {
            let mut from = 0;
            while let Some(job) = self.pages.ahead(region, chunk, stay, &mut from) {
                self.dispatch(job);
            }
        }
    }
}

impl<S: PageSpace> Service for Pager<S> {
    type Note = PagerNote;

    fn polled(&mut self, has_something: bool) {
        self.has_no_faults = !has_something;
    }

    fn looks_on(&mut self, idle: Duration) -> Option<bool> {
        let looks = self.pages.waiting.looks_on(self.is_looking, idle);
        self.is_looking = looks == Some(true);
        looks
    }

    fn on_turn(&mut self, now: Time) -> bool {
        self.now = now;
        let moved = self.end_jobs_of_departed() | self.take_left();
        moved | (self.read_faults() || self.work_ahead())
    }

    fn on_note(&mut self, note: PagerNote, _now: Time) {
        match note {
            PagerNote::Look => {}
            PagerNote::Prefetch(list) => self.wanted.push_back(list),
            PagerNote::Fence { region, chunks } => {
                self.fence(&region);
                self.pages.end_discard(&region, &chunks);
            }
            PagerNote::Want { region, index } => {
                let mut from = 0;
                while let Some(job) = self.pages.want(&region, index, &mut from) {
                    self.dispatch(job);
                }
            }
        }
    }

    fn on_open(&mut self, link: LinkId, peer: &Peer, origin: LinkOrigin, _now: Time) {
        let is_agent = peer.intro().role == Role::Agent;
        // By turns: each server for the first thread, for the second, and so on; then the agents.
        let server = match origin {
            LinkOrigin::Dialled(number) => number % self.servers.len(),
            LinkOrigin::Accepted => 0,
        };
        if !is_agent {
            self.pages.link_opened(server, peer);
        }
        let side = if is_agent { &mut self.agent } else { &mut self.servers[server] };
        side.link = Some(link);
        side.peer = Some(peer.clone());
        side.lost_since = None;
    }

    fn on_frame(&mut self, link: LinkId, frame: Frame<'_>, _now: Time) -> Disposition {
        self.replied(link, frame);
        Disposition::Taken
    }

    fn on_completion(&mut self, link: LinkId, completion: Completion, _now: Time) {
        self.completed(link, completion);
    }

    fn send<L: Link + RemoteMemory>(
        &mut self,
        id: LinkId,
        link: &mut L,
        _now: Time,
    ) -> Result<bool, LinkError> {
        if self.agent.link == Some(id) {
            self.check_agent(link.peer())?;
        }
        let introduced = self.introduce(id, link)?;
        let sent = self.send_jobs(id, link)?;
        // A region may just have been found to be lost.
        Ok(introduced | sent | self.end_jobs_of_departed())
    }

    fn on_lost(&mut self, link: LinkId, error: &LinkError, now: Time) {
        self.lost(link, error, now);
    }

    fn next_deadline(&self) -> Option<Time> {
        let agent = [self.ask_agent_at, self.agent_patience_ends_at()];
        let agent = agent.into_iter().flatten().filter(|_| self.agent.link.is_some());
        let servers = (0..self.servers.len()).filter_map(|server| self.grace_ends_at(server));
        servers.chain(agent).chain(self.pages.saves_again_at(self.now)).min()
    }

    fn on_time(&mut self, now: Time) {
        // Work that is due with the agent is done when its link has its turn.
        for server in 0..self.servers.len() {
            if self.grace_ends_at(server).is_some_and(|deadline| deadline <= now) {
                self.give_up_server(server);
            }
        }
    }
}
