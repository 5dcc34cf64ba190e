//! Making regions known to peers, and what to do when a peer is gone.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use outboard_contract::{
    AccessError, FrameSendError, Link, LinkError, LinkId, OneSided, RemoteMemory, Token,
};
use outboard_wire::paging::{
    AttachRefusal, AttachRegion, CacheMode, DetachRegion, Fence, PagingReply, PagingRequest,
};
use outboard_wire::{FrameHead, Grant, Rights, Time};

use super::errands::{FENCE_TAG, OPENING, REGION_TAG};
use super::losses::LossReason;
use super::pager::Pager;
use super::region::{PagedRegion, Path};
use super::side::{Opening, OpeningState, Side};
use super::space::PageSpace;
use super::stats::add;

/// Whether there is more to send, or the link is full.
type Sent = Result<bool, LinkError>;

impl<S: PageSpace> Pager<S> {
    /// Makes regions known to a peer that does not know them yet, and lets it forget those that are gone.
    pub(super) fn introduce<L: Link + RemoteMemory>(&mut self, id: LinkId, link: &mut L) -> Sent {
        let server = self.server_of(id);
        let is_agent = server.is_none();
        let pages = Arc::clone(&self.pages);
        let mut moved = false;
        if is_agent {
            moved |= self.open_copies(link)?;
            moved |= self.ask_agent_again(link)?;
        } else {
            let is_mapped = link.capabilities().one_sided == OneSided::Mapped;
            pages.saves_are_cheap.store(is_mapped, Ordering::Relaxed);
            moved |= self.send_fences(link, server)?;
            if is_mapped && std::mem::take(&mut self.has_opened) {
                self.note_sources(id, link);
            }
            self.lose_regions_of_another(server);
        }
        let now = (pages.arrived.load(Ordering::Acquire), pages.departed.load(Ordering::Acquire));
        if self.side(id).introduced == Some(now) {
            return Ok(moved);
        }
        moved |= is_agent && detach_closed(&mut self.agent, link);
        let side = self.side(id);
        moved |= forget_closed(side, link, is_agent);
        let mut is_complete = !side.openings.iter().any(|opening| opening.region.is_closing());
        for region in pages.regions().iter() {
            let is_elsewhere = server.is_some_and(|server| server != region.spec.at);
            if is_elsewhere || region.is_closing() || region.is_lost() || side.state(region.number).is_some()
            {
                continue;
            }
            let epoch = region.bypass.epoch();
            let was_sent = if is_agent { attach(region, epoch, link)? } else { open(region, link)? };
            if was_sent {
                let (region, state) = (Arc::clone(region), OpeningState::Asked);
                let mode = CacheMode::Off;
                side.openings.push(Opening { region, state, epoch, renewed_in: None, mode });
                moved = true;
            } else {
                // It does not go there, or there is no room for the question now.
                is_complete &= is_agent && region.spec.path == Path::Direct;
            }
        }
        side.introduced = is_complete.then_some(now);
        Ok(moved)
    }

    /// Memory that is mapped over a link can be read by all threads without it.
    fn note_sources<L: RemoteMemory>(&mut self, id: LinkId, link: &L) {
        for Opening { region, state, .. } in &self.side(id).openings {
            if let OpeningState::Open(open) = state
                && let Some(source) = link.mapping(*open)
                && source.len() as u64 >= region.size()
                && region.source().is_none()
            {
                region.set_source(Some(source));
            }
        }
    }

    /// A server that was started anew has nothing of what its former self had.
    fn lose_regions_of_another(&mut self, server: Option<usize>) {
        let Some(at) = server else { return };
        let side = &self.servers[at];
        let Some(peer) = &side.peer else { return };
        let now = (self.pages.arrived.load(Ordering::Acquire), self.pages.departed.load(Ordering::Acquire));
        if side.introduced != Some(now) {
            let mut regions = self.pages.regions_at(at);
            regions.retain(|region| !region.goes_on_at(peer));
            self.pages.lose(at, &regions, Some(peer), &LossReason::StartedAnew);
        }
    }

    fn open_copies<L: Link + RemoteMemory>(&mut self, link: &mut L) -> Sent {
        let mut moved = false;
        while let Some((region, grant)) = self.copies.last() {
            match link.open(grant, Rights::READ, Token(OPENING | u64::from(region.number))) {
                Ok(()) => self.copies.pop(),
                Err(AccessError::Lost(error)) => return Err(error),
                Err(_) => break,
            };
            moved = true;
        }
        Ok(moved)
    }

    /// Asks the server to refuse what an agent may still send.
    fn send_fences<L: Link>(&mut self, link: &mut L, server: Option<usize>) -> Sent {
        let mut moved = false;
        let is_due = |(region, was_asked): &&mut (Arc<PagedRegion>, bool)| {
            !*was_asked && server == Some(region.spec.at)
        };
        for (region, was_asked) in self.fences.iter_mut().filter(is_due) {
            let grant = &region.spec.grant;
            let fence = PagingRequest::Fence(Fence {
                region: grant.region,
                generation: grant.generation,
                key: grant.key,
            });
            let head = FrameHead::new(fence.kind()).with_tag(FENCE_TAG | region.number);
            match link.send(head, fence.encode().as_bytes()) {
                Ok(()) => (*was_asked, moved) = (true, true),
                Err(FrameSendError::Lost(error)) => return Err(error),
                Err(_) => break,
            }
        }
        Ok(moved)
    }

    /// Write-backs of a region that an agent was given may still arrive, or may not: the server must not take them
    /// once it has newer ones.
    pub(super) fn fence(&mut self, region: &Arc<PagedRegion>) {
        if !self.fences.iter().any(|(other, _)| Arc::ptr_eq(other, region)) {
            region.fencing.fetch_add(1, Ordering::AcqRel);
            self.fences.push((Arc::clone(region), false));
        }
    }

    /// A server has answered a fence, if it was asked for one.
    pub(super) fn fenced(&mut self, number: u32, server: Option<usize>, epoch: u64) {
        let was_meant = |(region, was_asked): &(Arc<PagedRegion>, bool)| {
            *was_asked && region.number == number && server == Some(region.spec.at)
        };
        if let Some(at) = self.fences.iter().position(was_meant) {
            let (region, _) = self.fences.swap_remove(at);
            region.bypass.begin_epoch(epoch);
            region.fencing.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// The agent has answered an attachment.
    pub(super) fn attached(&mut self, number: u32, reply: PagingReply) {
        let Some(region) = self.pages.region(number) else { return };
        if let PagingReply::Attached { mode, .. } = reply {
            self.agent.set_mode(number, mode);
        }
        let is_unknown = matches!(reply, PagingReply::Refused { reason: AttachRefusal::NoServer, .. });
        region.is_unknown_to_agent.store(is_unknown, Ordering::Release);
        match reply {
            PagingReply::Attached { static_grant: Some(grant), .. } if grant.size >= region.size() => {
                self.copies.push((region, grant));
            }
            PagingReply::Attached { .. } => {
                self.agent.set_state(number, OpeningState::Attached);
                region.answered_by_agents.fetch_add(1, Ordering::AcqRel);
            }
            PagingReply::Refused { reason: AttachRefusal::NoServer, .. } => {
                // It may be about to reach the server: one that has just been started dials it first.
                self.agent.set_state(number, OpeningState::Later);
            }
            PagingReply::Refused { reason: AttachRefusal::NoRoom | AttachRefusal::BadRequest, .. } => {
                // Others may leave, and an epoch that was over has been followed by the next.
                self.agent.set_state(number, OpeningState::Later);
                region.answered_by_agents.fetch_add(1, Ordering::AcqRel);
            }
            _ => {
                self.agent.set_state(number, OpeningState::Refused);
                region.answered_by_agents.fetch_add(1, Ordering::AcqRel);
            }
        }
        if !self.agent.knows(number) {
            self.pass_agent();
        }
        self.pages.space.announce();
    }

    /// A region is open at a peer, or is not to be had there.
    pub(super) fn opened(&mut self, id: LinkId, number: u32, state: Option<OpeningState>) {
        let is_agent = self.agent.link == Some(id);
        let side = self.side(id);
        side.set_state(
            number,
            state.unwrap_or(if is_agent { OpeningState::Later } else { OpeningState::Refused }),
        );
        if is_agent {
            if let Some(region) = self.pages.region(number) {
                region.answered_by_agents.fetch_add(1, Ordering::AcqRel);
                self.pages.space.announce();
            }
            return;
        }
        if let Some(region) = self.pages.region(number) {
            match state {
                Some(_) => {
                    self.has_opened = true;
                    region.opened.fetch_add(1, Ordering::AcqRel);
                }
                None => {
                    self.lose(&region, "it no longer has it".to_owned());
                }
            }
        }
        self.pages.space.announce();
    }

    /// A region's server will not have it any more.
    pub(super) fn lose(&self, region: &Arc<PagedRegion>, why: String) {
        let at = region.spec.at;
        let (peer, why) = (self.servers[at].peer.as_ref(), LossReason::Refused { why });
        self.pages.lose(at, std::slice::from_ref(region), peer, &why);
    }

    /// A link is gone.
    pub(super) fn lost(&mut self, id: LinkId, error: &LinkError, now: Time) {
        let server = self.server_of(id);
        let side = self.side(id);
        side.link = None;
        let openings = std::mem::take(&mut side.openings);
        side.introduced = None;
        side.outdated.clear();
        side.forget_questions();
        let partial = side.partial.take();
        self.end_messages(server);
        if let Some(server) = server {
            self.servers[server].lost_since = Some(now);
            self.pages.link_lost(server, error);
            for opening in openings.iter().filter(|opening| matches!(opening.state, OpeningState::Open(_))) {
                opening.region.opened.fetch_sub(1, Ordering::AcqRel);
                opening.region.set_source(None);
            }
            for (_, was_asked) in self.fences.iter_mut().filter(|(region, _)| region.spec.at == server) {
                *was_asked = false;
            }
        } else {
            add(&self.pages.tally.agent_losses, 1);
            self.copies.clear();
            self.ask_agent_at = None;
            for job in self.agent.drain() {
                self.dispatch(job);
            }
        }
        if let Some(slot) = partial {
            self.end_partial(slot);
        }
    }

    /// A server has been away for longer than its grace.
    pub(super) fn give_up_server(&mut self, server: usize) {
        let why = LossReason::Away { grace: self.pages.config.grace };
        let peer = self.servers[server].peer.as_ref();
        self.pages.lose(server, &self.pages.regions_at(server), peer, &why);
    }

    /// Ends the jobs that wait for regions which have been lost or closed since the last look. Returns whether there
    /// may have been any.
    pub(super) fn end_jobs_of_departed(&mut self) -> bool {
        let departed = self.pages.departed.load(Ordering::Acquire);
        if departed == self.seen_departed {
            return false;
        }
        self.seen_departed = departed;
        let waiting: Vec<_> =
            self.servers.iter_mut().chain([&mut self.agent]).flat_map(Side::drain).collect();
        for job in waiting {
            // Those of other regions go back to where they were.
            self.dispatch(job);
        }
        self.pages.give_up_parked();
        true
    }
}

/// Tells an agent that regions are no longer needed. One that cannot be told now is told later.
fn detach_closed<L: Link>(agent: &mut Side, link: &mut L) -> bool {
    let is_attached = |opening: &&mut Opening| {
        opening.region.is_closing() && !matches!(opening.state, OpeningState::Refused)
    };
    let mut moved = false;
    for opening in agent.openings.iter_mut().filter(is_attached) {
        let Grant { region, generation, .. } = opening.region.spec.grant;
        let detach = PagingRequest::Detach(DetachRegion { region, generation });
        if link.send(FrameHead::new(detach.kind()), detach.encode().as_bytes()).is_err() {
            // Full, or lost; with the link goes the attachment.
            break;
        }
        if let OpeningState::Open(copy) = opening.state {
            agent.outdated.push(copy);
        }
        opening.state = OpeningState::Refused;
        moved = true;
    }
    moved
}

/// Forgets regions that are closing; an agent has to have been told before.
fn forget_closed<L: Link + RemoteMemory>(side: &mut Side, link: &mut L, is_agent: bool) -> bool {
    let before = side.openings.len();
    side.openings.retain(|opening| {
        let is_known = !matches!(opening.state, OpeningState::Refused);
        if !opening.region.is_closing() || (is_agent && is_known) {
            return true;
        }
        if let OpeningState::Open(open) = opening.state {
            link.close_region(open);
        }
        false
    });
    side.openings.len() != before
}

/// Asks an agent to serve a region, or to serve it in a new epoch.
pub(super) fn attach<L: Link>(region: &PagedRegion, epoch: u64, link: &mut L) -> Sent {
    if region.spec.path == Path::Direct {
        return Ok(false);
    }
    let attach = PagingRequest::Attach(AttachRegion {
        grant: region.spec.grant,
        server: region.server(),
        chunk_log2: region.spec.class.0,
        rights: region.rights(),
        mode: region.cache_mode(),
        epoch,
    });
    let head = FrameHead::new(attach.kind()).with_tag(REGION_TAG | region.number);
    match link.send(head, attach.encode().as_bytes()) {
        Ok(()) => Ok(true),
        Err(FrameSendError::Lost(error)) => Err(error),
        Err(_) => Ok(false),
    }
}

fn open<L: RemoteMemory>(region: &PagedRegion, link: &mut L) -> Sent {
    let token = Token(OPENING | u64::from(region.number));
    match link.open(&region.spec.grant, region.rights(), token) {
        Ok(()) => Ok(true),
        Err(AccessError::Lost(error)) => Err(error),
        Err(_) => Ok(false),
    }
}
