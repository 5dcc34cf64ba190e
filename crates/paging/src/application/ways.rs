//! Which way a chunk goes: from the memory server, or by the agent while that can be trusted with it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use outboard_contract::{Link, LinkError, Loss, Peer, RemoteMemory};
use outboard_wire::paging::PagingStatus;
use outboard_wire::{Time, mutant};

use super::bypass::PAUSE;
use super::introductions::attach;
use super::jobs::{Errand, Job};
use super::pager::Pager;
use super::region::{FetchPath, PagedRegion, Path};
use super::route::PathOption;
use super::side::{Opening, OpeningState};
use super::space::PageSpace;

/// How long an agent that was asked for chunks may say nothing at all. One that is stopped keeps its link within the
/// machine open, and would keep threads waiting, while the memory server is there; one that has much to do is
/// heard all the time.
const PATIENCE: Duration = Duration::from_millis(700);

impl<S: PageSpace> Pager<S> {
    /// Sends a fetch on its way: to the agent if its region goes there and the agent knows it, or to the server.
    pub(super) fn dispatch(&mut self, mut job: Job) {
        if job.region.is_lost() || job.region.is_closing() {
            return self.pages.fetch_failed(&job);
        }
        // A chunk that a thread waits for and that only has to be copied does not wait for the link's turn.
        if job.errand == Errand::Demand && self.agent.link.is_none() {
            let Some(left) = self.pages.fetch_at_once(job, self.now) else { return };
            job = left;
        }
        job.way = if job.shuns_agent { FetchPath::Direct } else { self.way(&job) };
        let side = if job.way == FetchPath::Direct {
            &mut self.servers[job.region.spec.at]
        } else {
            &mut self.agent
        };
        side.push(job);
    }

    /// By which way a chunk or a page is fetched.
    fn way(&self, job: &Job) -> FetchPath {
        let region = &*job.region;
        let by_agent = self.way_by_agent(region);
        match region.spec.path {
            Path::Direct => FetchPath::Direct,
            Path::Agent => by_agent.unwrap_or(FetchPath::Direct),
            Path::Auto => match region.chooser().pick(by_agent.is_some(), region.offset(job.key).1) {
                PathOption::Direct => FetchPath::Direct,
                PathOption::Agent => by_agent.unwrap_or(FetchPath::Direct),
            },
        }
    }

    /// How the agent would be asked for a chunk, if it is there, knows the region, and has nothing old of it.
    fn way_by_agent(&self, region: &PagedRegion) -> Option<FetchPath> {
        self.agent.link?;
        let opening = self.agent.opening(region.number)?;
        match opening.state {
            _ if !region.bypass.is_sound(opening.epoch) => None,
            OpeningState::Attached => Some(FetchPath::Agent),
            OpeningState::Open(_) => Some(FetchPath::Copy),
            OpeningState::Asked | OpeningState::Later | OpeningState::Refused => None,
        }
    }

    /// When an agent that does not answer is given up.
    pub(super) fn agent_patience_ends_at(&self) -> Option<Time> {
        let since = self.agent.silent_since().filter(|_| !mutant("paging.agent-patience-not-armed"));
        since.map(|since| since + PATIENCE)
    }

    /// Gives up an agent that does not answer, as if its link were lost: what it was asked goes past it.
    pub(super) fn check_agent(&self, agent: &Peer) -> Result<(), LinkError> {
        match self.agent_patience_ends_at() {
            Some(end) if end <= self.now => {
                let (silent, awaited) = (PATIENCE + self.now.since(end), "a chunk");
                Err(LinkError { peer: agent.clone(), loss: Loss::Stalled { silent, awaited } })
            }
            _ => Ok(()),
        }
    }

    /// The agent will not serve a region for now.
    pub(super) fn shun_agent(&mut self, region: u32, status: PagingStatus) {
        let is_passing =
            matches!(status, PagingStatus::Unavailable | PagingStatus::Busy | PagingStatus::NotOpen);
        if is_passing && self.agent.knows(region) {
            self.agent.set_state(region, OpeningState::Later);
            self.pass_agent();
        }
    }

    /// Chunks that the agent was about to be asked for go past it if it does not serve their regions now: they would wait
    /// for it as long as it has lost a server, and no thread would notice that they wait for that.
    pub(super) fn pass_agent(&mut self) {
        for job in self.agent.drain() {
            self.dispatch(job);
        }
    }

    /// Asks the agent again, if it is time. Returns whether anything was sent.
    pub(super) fn ask_agent_again<L: Link + RemoteMemory>(
        &mut self,
        link: &mut L,
    ) -> Result<bool, LinkError> {
        for copy in self.agent.outdated.drain(..) {
            link.close_region(copy);
        }
        if self.agent.openings.iter().any(|opening| !is_content(opening)) {
            self.ask_agent_at.get_or_insert(self.now + PAUSE);
        }
        if self.ask_agent_at.is_none_or(|at| at > self.now) {
            return Ok(false);
        }
        self.ask_agent_at = None;
        let mut moved = false;
        let mut to_fence = Vec::new();
        // One that was refused is introduced like a new one.
        self.agent.openings.retain(|opening| !matches!(opening.state, OpeningState::Later));
        self.agent.introduced = None;
        for opening in self.agent.openings.iter_mut().filter(|opening| !is_content(opening)) {
            let region = &opening.region;
            let epoch = region.bypass.epoch();
            if region.bypass.is_sound(epoch) {
                if attach(region, epoch, link)? {
                    opening.renewed_in = Some(epoch);
                    moved = true;
                }
            } else if region.bypass.is_quiet(self.now) && region.fencing.load(Ordering::Acquire) == 0 {
                to_fence.push(Arc::clone(region));
            }
        }
        for region in to_fence {
            self.fence(&region);
            moved = true;
        }
        Ok(moved)
    }
}

/// Whether the agent need not be asked again for a region.
fn is_content(opening: &Opening) -> bool {
    match opening.state {
        OpeningState::Asked | OpeningState::Refused => true,
        OpeningState::Later => false,
        OpeningState::Open(_) | OpeningState::Attached => {
            opening.renewed_in.is_some() || opening.region.bypass.is_sound(opening.epoch)
        }
    }
}
