//! Chunks on their way by links: sent off, answered, ended.

use std::sync::Arc;

use outboard_contract::{
    AccessError, AccessOutcome, Completion, Frame, Link, LinkError, LinkId, OneSided, OpenRegion,
    RemoteMemory, Token,
};
use outboard_wire::paging::{
    CacheMode, Fetch, FetchSource, PagingReply, PagingRequest, PagingStatus, Urgency, WriteBack,
};
use outboard_wire::{FrameHead, mutant};

use super::jobs::{Errand, Job, Tag};
use super::pager::{JOBS_MAX, Pager, SAVES_MAX};
use super::region::{FetchPath, PagedRegion, Path};
use super::route::PathOption;
use super::side::OpeningState;
use super::space::PageSpace;
use super::stats::add;

/// Tokens of one-sided operations that open regions, beyond those of jobs.
pub(super) const OPENING: u64 = 1 << 32;
/// Tags of messages about regions, beyond those of jobs.
pub(super) const REGION_TAG: u32 = 1 << 31;
/// Tags of fences, likewise.
pub(super) const FENCE_TAG: u32 = 1 << 30;
/// How much of a chunk one message carries, at most.
const PIECE_MAX: usize = 64 << 10;

/// How a piece of a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// As it should.
    Done,
    /// Nothing was done, and nothing will be.
    Refused,
    /// It may have been done, or may be done still.
    Unknown,
}

/// How far a job got.
enum Progress {
    /// All its pieces are on their way.
    Sent,
    /// The link is full.
    Blocked,
}

impl<S: PageSpace> Pager<S> {
    /// The next changed chunk that goes by this link.
    fn next_save(&mut self, id: LinkId, is_mapped: bool) -> Option<Job> {
        if self.saves_under_way >= SAVES_MAX {
            return None;
        }
        let server = self.server_of(id);
        let is_agent = server.is_none();
        for _ in 0..self.pages.shelves.len() {
            let shard = self.next_shard;
            let goes_there = |region: &PagedRegion| match self.agent.knows(region.number) {
                _ if !region.fullness.lets_save(self.now) => false,
                true if region.saves_by_agent(self.now) => is_agent,
                _ => server == Some(region.spec.at) && self.servers[region.spec.at].knows(region.number),
            };
            if let Some(mut job) = self.pages.next_save(shard, goes_there) {
                job.way = if is_agent { FetchPath::Agent } else { FetchPath::Direct };
                if !is_agent && job.region.is_kept_by_agent() {
                    job.region.bypass.begin();
                }
                if is_mapped && !is_agent && !job.region.blanks.is_founded(job.key.index) {
                    job.found();
                }
                return Some(job);
            }
            self.next_shard = (shard + 1) % self.pages.shelves.len();
        }
        None
    }

    /// Sends jobs off while there is room.
    pub(super) fn send_jobs<L: Link + RemoteMemory>(
        &mut self,
        id: LinkId,
        link: &mut L,
    ) -> Result<bool, LinkError> {
        let is_mapped = link.capabilities().one_sided == OneSided::Mapped;
        let mut moved = false;
        if let Some(slot) = self.side(id).partial {
            moved = true;
            if let Progress::Blocked = self.send_pieces(id, link, slot)? {
                return Ok(true);
            }
        }
        while self.flight.len() < JOBS_MAX {
            // Where a copy is all it takes, no thread is made to wait for several copies that no thread waits for.
            if is_mapped && moved && !self.side(id).has_demand() {
                break;
            }
            let demand = if self.side(id).has_demand() { self.side(id).pop() } else { None };
            let Some(job) = demand.or_else(|| self.next_save(id, is_mapped)).or_else(|| self.side(id).pop())
            else {
                break;
            };
            moved = true;
            self.saves_under_way += usize::from(job.is_save());
            let mut job = job;
            job.sent_at = self.now;
            let slot = self.flight.insert(job);
            let progress = self.send_pieces(id, link, slot)?;
            if is_mapped {
                self.collect(id, link);
            }
            if let Progress::Blocked = progress {
                break;
            }
        }
        Ok(moved)
    }

    /// Takes what has ended already.
    fn collect<L: RemoteMemory>(&mut self, id: LinkId, link: &mut L) {
        let mut ended = std::mem::take(&mut self.ended);
        link.completions(|completion| ended.push(completion));
        for completion in ended.drain(..) {
            self.completed(id, completion);
        }
        self.ended = ended;
    }

    /// Sends the rest of a job's pieces off.
    fn send_pieces<L: Link + RemoteMemory>(
        &mut self,
        id: LinkId,
        link: &mut L,
        slot: u32,
    ) -> Result<Progress, LinkError> {
        let is_mapped = link.capabilities().one_sided == OneSided::Mapped;
        // Until all are sent, the end of those that are under way is not the end of the job.
        self.side(id).partial = Some(slot);
        let state = self.flight.get(slot).map(|job| job.region.number);
        let state = state.and_then(|number| self.side(id).state(number));
        while let Some(tag) = self.flight.next_tag(slot)
            && let Some(job) = self.flight.get(slot)
        {
            let sent = match (job.way, state) {
                (FetchPath::Agent, _) => send_message(job, link, tag),
                // A write that a lost link still carries could come after newer ones; as a message it has an epoch.
                // So does one to a region that the server lets us map to read only.
                (FetchPath::Direct, Some(OpeningState::Open(open)))
                    if job.is_save() && (!is_mapped || job.founds || !may_store(link, open)) =>
                {
                    send_message(job, link, tag)
                }
                (_, Some(OpeningState::Open(open))) => send_access(job, link, open, slot),
                _ => Err(AccessError::NotOpen),
            };
            let (is_for_agent, is_message) = (job.way == FetchPath::Agent, job.piece_bytes > 0);
            if is_message && matches!(sent, Ok(true)) {
                self.flight.message_sent(slot);
            }
            match sent {
                Ok(true) if is_for_agent => self.agent.has_asked(self.now),
                Ok(true) => {}
                Ok(false) => break,
                Err(AccessError::Full | AccessError::Busy) => return Ok(Progress::Blocked),
                Err(AccessError::Lost(error)) => return Err(error),
                Err(error) => {
                    if let Some(job) = self.flight.get(slot) {
                        job.has_failed = true;
                    }
                    self.refused(slot, &error);
                    break;
                }
            }
        }
        self.side(id).partial = None;
        if let Some(job) = self.flight.get(slot).filter(|job| job.is_save() && !job.has_failed) {
            let job: &Job = job;
            self.pages.save_sent(job);
        }
        self.end_if_done(slot);
        Ok(Progress::Sent)
    }

    /// A one-sided operation has ended.
    pub(super) fn completed(&mut self, id: LinkId, completion: Completion) {
        let Completion { token, result } = completion;
        if token.0 & OPENING != 0 {
            let state = match result {
                Ok(AccessOutcome::Opened(open)) => Some(OpeningState::Open(open)),
                // With the link goes the opening; the next link opens it again.
                Err(AccessError::Lost(_)) => return,
                _ => None,
            };
            return self.opened(id, token.0 as u32, state);
        }
        let slot = token.0 as u32;
        if let Err(error) = &result {
            self.refused(slot, error);
        }
        let end = match result {
            Ok(_) => End::Done,
            Err(AccessError::Lost(_)) => End::Unknown,
            Err(_) => End::Refused,
        };
        self.piece_ended(slot, end);
    }

    /// An access has failed. If the server will not have it, asking again is no help: the region is lost.
    fn refused(&mut self, slot: u32, error: &AccessError) {
        // An access that may succeed soon is tried again.
        if matches!(
            error,
            AccessError::Lost(_) | AccessError::Full | AccessError::Busy | AccessError::OwnerLacksMemory
        ) {
            return;
        }
        if let Some(job) = self.flight.get(slot).filter(|job| job.way == FetchPath::Direct) {
            let region = Arc::clone(&job.region);
            self.lose(&region, error.to_string());
        }
    }

    /// A message has come.
    pub(super) fn replied(&mut self, id: LinkId, frame: Frame<'_>) {
        let (kind, tag) = (frame.head.kind, frame.head.tag);
        let Some(fixed_len) = PagingReply::fixed_len(kind).filter(|len| *len <= frame.payload.len()) else {
            return;
        };
        let mut fixed = [0; outboard_wire::paging::FIXED_LEN_MAX];
        frame.payload.read(0, &mut fixed[..fixed_len]);
        let data_len = frame.payload.len() - fixed_len;
        let Ok(reply) = PagingReply::decode(kind, &fixed[..fixed_len], data_len) else { return };
        if self.agent.link == Some(id)
            && matches!(reply, PagingReply::Written { .. } | PagingReply::Fetched { .. })
        {
            self.agent.has_answered(self.now);
        }
        // No peer answers for others: a server only what it was asked itself, and so does the agent.
        let server = self.server_of(id);
        let mut is_awaited = |tag| {
            self.flight.answered(tag, |job| match job.way {
                FetchPath::Agent => server.is_none(),
                FetchPath::Direct => server == Some(job.region.spec.at),
                // A copy is read without a message.
                FetchPath::Copy => false,
            })
        };
        match reply {
            PagingReply::Attached { .. } | PagingReply::Refused { .. } if server.is_none() => {
                self.attached(tag & !REGION_TAG, reply);
            }
            PagingReply::Fenced { status, epoch } => {
                // Not done: the server will not have the region any more; opening it again shows that.
                let epoch = if status == PagingStatus::Done { epoch } else { 0 };
                self.fenced(tag & !FENCE_TAG, server, epoch);
            }
            PagingReply::Written { status, epoch } if is_awaited(Tag::decode(tag)) => {
                self.written(Tag::decode(tag).slot, status, epoch);
            }
            PagingReply::Fetched { status, source, .. }
                if server.is_none() && is_awaited(Tag::decode(tag)) =>
            {
                let is_good = status == PagingStatus::Done && self.fill(tag, &frame, fixed_len);
                let slot = Tag::decode(tag).slot;
                if let Some(region) = self.flight.get(slot).map(|job| job.region.number) {
                    self.shun_agent(region, status);
                }
                if is_good {
                    self.count_source(slot, source);
                }
                self.piece_ended(Tag::decode(tag).slot, if is_good { End::Done } else { End::Refused });
            }
            _ => {}
        }
    }

    /// A write-back has been answered, by the server or in its name.
    fn written(&mut self, slot: u32, status: PagingStatus, epoch: u64) {
        let Some(job) = self.flight.get(slot).filter(|job| job.is_save()) else { return };
        let (region, is_by_agent) = (Arc::clone(&job.region), job.way == FetchPath::Agent);
        if is_by_agent {
            self.shun_agent(region.number, status);
        }
        let end = match status {
            PagingStatus::Done => End::Done,
            PagingStatus::NoRoom => {
                self.pages.was_refused_room(&region, self.now);
                End::Refused
            }
            // An agent that has lost the server does not know.
            PagingStatus::Unavailable | PagingStatus::Busy => End::Unknown,
            PagingStatus::StaleEpoch => {
                // A fence of our own that a lost link still carried: no other process raises the epoch while the region is
                // ours, and once it is not, our key opens nothing.
                if !mutant("paging.stale-epoch-kept") {
                    region.bypass.begin_epoch(epoch);
                }
                End::Refused
            }
            _ => {
                if !is_by_agent {
                    self.refused(slot, &AccessError::NotOpen);
                }
                End::Refused
            }
        };
        self.piece_ended(slot, end);
    }

    fn count_source(&mut self, slot: u32, source: FetchSource) {
        // By what the agent does, not by what it was asked to do: a copy that it has no room for is a cache.
        let region = self.flight.get(slot).map(|job| job.region.number);
        let opening = region.and_then(|number| self.agent.opening(number));
        let is_cached =
            opening.is_some_and(|opening| matches!(opening.mode, CacheMode::Dynamic | CacheMode::Static));
        let tally = &self.pages.tally;
        let counter = match source {
            FetchSource::Hit => &tally.agent_hits,
            FetchSource::Late => &tally.agent_late,
            // Of a region that is not to be cached, nothing can be missed.
            FetchSource::Uncached if !is_cached => &tally.agent_passed,
            FetchSource::Miss | FetchSource::Uncached => &tally.agent_misses,
        };
        add(counter, 1);
    }

    /// Copies the bytes of a reply to where they belong. Returns false if they do not fit.
    fn fill(&mut self, tag: u32, frame: &Frame<'_>, fixed_len: usize) -> bool {
        let Tag { slot, piece, .. } = Tag::decode(tag);
        let Some(job) = self.flight.get(slot).filter(|job| job.way == FetchPath::Agent && !job.is_save())
        else {
            return false;
        };
        let data = frame.payload.part(fixed_len, frame.payload.len() - fixed_len);
        let start = piece as usize * job.piece_bytes;
        let (_, len) = job.region.offset(job.key);
        if start >= len || data.len() != (len - start).min(job.piece_bytes) {
            return false;
        }
        data.read_into(&mut job.buffer.window_mut().part(job.at + start, data.len()));
        true
    }

    fn piece_ended(&mut self, slot: u32, end: End) {
        let Some(job) = self.flight.get(slot) else { return };
        job.under_way = job.under_way.saturating_sub(1);
        if end != End::Done {
            job.fail(end == End::Unknown);
        }
        self.end_if_done(slot);
    }

    fn end_if_done(&mut self, slot: u32) {
        let is_partial = self.servers.iter().chain([&self.agent]).any(|side| side.partial == Some(slot));
        let is_done = self.flight.get(slot).is_some_and(|job| {
            job.under_way == 0 || job.is_save() && mutant("paging.save-ends-before-it-is-acknowledged")
        });
        if is_done && (!is_partial || mutant("paging.job-ends-with-its-first-pieces")) {
            self.end(slot);
        }
    }

    /// The last pieces of a job were never sent, for its link is gone.
    pub(super) fn end_partial(&mut self, slot: u32) {
        if let Some(job) = self.flight.get(slot) {
            job.fail(job.sent > 0);
            self.end_if_done(slot);
        }
    }

    /// Requests by messages will not be answered: their link is gone.
    pub(super) fn end_messages(&mut self, server: Option<usize>) {
        for slot in self.flight.slots() {
            let Some(job) = self.flight.get(slot).filter(|job| job.piece_bytes > 0) else { continue };
            let went_to = (job.way != FetchPath::Agent).then_some(job.region.spec.at);
            if went_to == server && !mutant("paging.unanswered-messages-kept") {
                job.under_way = 0;
                job.fail(true);
                self.end(slot);
            }
        }
    }

    fn end(&mut self, slot: u32) {
        let Some(mut job) = self.flight.remove(slot) else { return };
        self.saves_under_way -= usize::from(job.is_save());
        if job.is_save() && job.way == FetchPath::Direct && job.region.is_kept_by_agent() {
            job.region.bypass.end(self.now);
        }
        match (job.has_failed, job.is_save()) {
            (false, false) => self.fetched(&job),
            (false, true) => {
                add(&self.pages.tally.saved_bytes, job.sent as u64);
                add(&job.region.tally.saved, job.sent as u64);
                self.pages.was_given_room(&job.region);
                self.pages.save_ended(&job, true);
            }
            (true, true) => {
                if job.is_uncertain && job.piece_bytes > 0 && !mutant("paging.skipped-fence") {
                    let region = Arc::clone(&job.region);
                    self.fence(&region);
                }
                self.pages.save_ended(&job, false);
            }
            (true, false) => {
                job.shuns_agent |= job.way != FetchPath::Direct;
                job.restart();
                self.dispatch(job);
            }
        }
    }

    fn fetched(&mut self, job: &Job) {
        let (_, len) = job.region.offset(job.key);
        let route = if job.way == FetchPath::Direct { PathOption::Direct } else { PathOption::Agent };
        let now = self.pages.space.time(self.now);
        let begun = job.sent_at.max(self.fetched_at[route as usize]);
        self.fetched_at[route as usize] = now;
        if job.region.spec.path == Path::Auto {
            job.region.chooser().took(route, now.since(begun), len, now);
        }
        let (tally, region) = (&self.pages.tally, &job.region.tally);
        match job.way {
            FetchPath::Direct => add(&region.direct, len as u64),
            FetchPath::Agent => {
                add(&region.by_agent, len as u64);
                add(&tally.agent_bytes, len as u64);
            }
            FetchPath::Copy => {
                add(&region.by_copy, len as u64);
                add(&tally.copy_bytes, len as u64);
            }
        }
        self.pages.fetched(job);
    }
}

/// Whether an open region is mapped here to be written.
fn may_store<L: RemoteMemory>(link: &L, open: OpenRegion) -> bool {
    link.mapping(open).is_some_and(|mapping| mapping.is_writable())
}

/// Begins the next one-sided piece of a job. Returns false if there is none.
fn send_access<L: RemoteMemory + Link>(
    job: &mut Job,
    link: &mut L,
    open: OpenRegion,
    slot: u32,
) -> Result<bool, AccessError> {
    let Some((start, len)) = job.piece(link.capabilities().max_access) else { return Ok(false) };
    let (offset, _) = job.region.offset(job.key);
    let (offset, at, token) = (offset + start as u64, job.at + start, Token(slot.into()));
    if job.is_save() {
        link.write(open, offset, job.buffer.window().part(at, len), token)?;
    } else {
        link.read(open, offset, &job.buffer, at, len, token)?;
    }
    job.piece_sent(start, len);
    Ok(true)
}

/// Sends the next piece of a job as a message to the agent. Returns false if there is none.
fn send_message<L: Link>(job: &mut Job, link: &mut L, tag: Tag) -> Result<bool, AccessError> {
    if job.piece_bytes == 0 {
        let room = link.capabilities().max_payload.saturating_sub(WriteBack::FIXED_LEN);
        job.piece_bytes = PIECE_MAX.min(1 << room.max(1).ilog2());
    }
    let Some((start, len)) = job.piece(job.piece_bytes) else { return Ok(false) };
    let grant = &job.region.spec.grant;
    let (offset, _) = job.region.offset(job.key);
    let (offset, length) = (offset + start as u64, len as u32);
    let tag = tag.encode();
    if job.is_save() {
        let request = PagingRequest::WriteBack(WriteBack {
            region: grant.region,
            generation: grant.generation,
            key: grant.key,
            epoch: job.region.bypass.epoch(),
            offset,
            length,
        });
        let head = FrameHead::new(request.kind()).with_tag(tag);
        let mut window = link.reserve(head, WriteBack::FIXED_LEN + len)?;
        window.write(0, request.encode().as_bytes());
        window.write_window(WriteBack::FIXED_LEN, job.buffer.window().part(job.at + start, len));
        link.commit(WriteBack::FIXED_LEN + len);
    } else {
        let urgency = if job.errand == Errand::Demand { Urgency::Demand } else { Urgency::Background };
        let (region, generation) = (grant.region, grant.generation);
        let request = PagingRequest::Fetch(Fetch { region, generation, offset, length, urgency });
        let head = FrameHead::new(request.kind()).with_tag(tag);
        link.send(head, request.encode().as_bytes())?;
    }
    job.piece_sent(start, len);
    Ok(true)
}
