//! Chunks on their way by links: sent off, answered, ended.

use outboard_link::{
    AccessError, Completion, Frame, Link, LinkError, Outcome, RemoteMemory, SendError, Token,
};
use outboard_wire::FrameHead;
use outboard_wire::paging::{FIXED_LEN_MAX, Fence, Reply, Request, Status, WriteBack};

use super::application::Application;
use super::jobs::Job;
use super::layout::{PLANS, RIGHTS, grant};
use super::pages::region_of;

/// Tokens of operations that open regions, beyond those of jobs.
const OPENING: u64 = 1 << 32;
/// Tags of fences, likewise.
const FENCE_TAG: u32 = 1 << 31;
/// How many chunks may be on their way.
const JOBS_MAX: usize = 16;
/// How many of them to the server.
const SAVES_MAX: usize = 4;

impl Application {
    /// A fetch waits for the link of a fault thread.
    pub(super) fn dispatch(&mut self, lane: usize, job: Job) {
        self.lanes[lane].push(Job { lane, ..job });
    }

    /// Opens regions that are not open on this link, closes those that are gone, and asks for fences.
    pub(super) fn introduce<L: Link + RemoteMemory>(
        &mut self,
        lane: usize,
        link: &mut L,
    ) -> Result<bool, LinkError> {
        let mut moved = false;
        let (mappings, lane) = (&self.pages.mappings, &mut self.lanes[lane]);
        let is_current = |number: u32| mappings[region_of(number)].number == number;
        for (_, open) in lane.openings.extract_if(.., |(number, _)| !is_current(*number)) {
            open.into_iter().for_each(|open| link.close_region(open));
        }
        for number in mappings.iter().map(|mapping| mapping.number) {
            if lane.openings.iter().any(|(known, _)| *known == number) {
                continue;
            }
            match link.open(&grant(region_of(number)), RIGHTS, Token(OPENING | u64::from(number))) {
                Ok(()) => lane.openings.push((number, None)),
                Err(AccessError::Lost(lost)) => return Err(lost),
                Err(_) => continue,
            }
            moved = true;
        }
        for (number, was_asked) in lane.fences.iter_mut().filter(|(_, was_asked)| !*was_asked) {
            let grant = grant(region_of(*number));
            let (region, generation, key) = (grant.region, grant.generation, grant.key);
            let fence = Request::Fence(Fence { region, generation, key });
            let head = FrameHead::new(fence.kind()).with_tag(FENCE_TAG | *number);
            match link.send(head, fence.encode().as_bytes()) {
                Ok(()) => (*was_asked, moved) = (true, true),
                Err(SendError::Lost(lost)) => return Err(lost),
                Err(_) => break,
            }
        }
        Ok(moved)
    }

    /// Sends jobs off. A link that has no room any more, as it may happen at any piece, is a matter of luck.
    pub(super) fn send_jobs<L: Link + RemoteMemory>(
        &mut self,
        lane: usize,
        link: &mut L,
    ) -> Result<bool, LinkError> {
        let mut room = self.random.u32(1..=8);
        let mut moved = false;
        if let Some(number) = self.lanes[lane].partial {
            moved = true;
            self.send_pieces(number, link, &mut room)?;
        }
        while self.lanes[lane].partial.is_none() && self.flight.jobs.len() < JOBS_MAX && room > 0 {
            let demand = if self.lanes[lane].has_demand() { self.lanes[lane].pop() } else { None };
            let Some(job) = demand.or_else(|| self.next_save(lane)).or_else(|| self.lanes[lane].pop()) else {
                break;
            };
            moved = true;
            let number = self.flight.insert(Job { lane, ..job });
            self.send_pieces(number, link, &mut room)?;
        }
        Ok(moved)
    }

    fn next_save(&mut self, lane: usize) -> Option<Job> {
        if self.flight.saves().count() >= SAVES_MAX {
            return None;
        }
        let first = self.random.usize(..self.pages.cells.len());
        let shards = (first..self.pages.cells.len()).chain(0..first);
        let lane = &self.lanes[lane];
        let is_open = |number: u32| lane.open(number).is_some();
        let job = shards.into_iter().find_map(|shard| self.pages.next_save(shard, is_open))?;
        let is_saved = self.flight.saves().any(|other| other.key == job.key);
        self.recorder.expect(!is_saved, || format!("{:?} is saved once at a time", job.key));
        Some(job)
    }

    /// Sends the rest of a job's pieces off, as far as there is room.
    fn send_pieces<L: Link + RemoteMemory>(
        &mut self,
        number: u32,
        link: &mut L,
        room: &mut u32,
    ) -> Result<(), LinkError> {
        let Some(mut job) = self.flight.jobs.get(&number).copied() else { return Ok(()) };
        // Until all are sent, the end of those that are under way is not the end of the job.
        self.lanes[job.lane].partial = Some(number);
        loop {
            let (_, len) = PLANS[region_of(job.key.region)].span(job.key.index);
            let Some((start, len)) = job.piece(len, self.shape.piece_max) else { break };
            if *room == 0 {
                return Ok(());
            }
            *room -= 1;
            let sent = if job.is_save() {
                self.send_write_back(&job, number, link, (start, len))
            } else {
                self.send_read(&job, number, link, (start, len))
            };
            match sent {
                Ok(()) => job.piece_sent(start, len),
                Err(AccessError::Full | AccessError::Busy) => return Ok(()),
                Err(AccessError::Lost(lost)) => return Err(lost),
                Err(error) => {
                    self.recorder.fail(format!("what is allowed is begun, not {error}"));
                    break;
                }
            }
            self.flight.jobs.insert(number, job);
        }
        self.lanes[job.lane].partial = None;
        if job.is_save() && !job.has_failed {
            self.pages.save_sent(&job);
        }
        self.end_if_done(number);
        Ok(())
    }

    fn send_read<L: RemoteMemory>(
        &mut self,
        job: &Job,
        number: u32,
        link: &mut L,
        (start, len): (usize, usize),
    ) -> Result<(), AccessError> {
        let open = self.lanes[job.lane].open(job.key.region).ok_or(AccessError::NotOpen)?;
        let (offset, _) = PLANS[region_of(job.key.region)].span(job.key.index);
        let frame = self.pages.cells[job.shard].shard.frame(job.seat);
        let (buffer, at) = self.pages.space.buffer(job.shard, frame);
        link.read(open, (offset + start) as u64, &buffer, at + start, len, Token(number.into()))
    }

    fn send_write_back<L: Link>(
        &mut self,
        job: &Job,
        number: u32,
        link: &mut L,
        (start, len): (usize, usize),
    ) -> Result<(), AccessError> {
        let region = region_of(job.key.region);
        let grant = grant(region);
        let (offset, _) = PLANS[region].span(job.key.index);
        let frame = self.pages.cells[job.shard].shard.frame(job.seat);
        let (buffer, at) = self.pages.space.buffer(job.shard, frame);
        let request = Request::WriteBack(WriteBack {
            region: grant.region,
            generation: grant.generation,
            key: grant.key,
            epoch: self.pages.mappings[region].epoch,
            offset: (offset + start) as u64,
            length: len as u32,
        });
        let mut window =
            link.reserve(FrameHead::new(request.kind()).with_tag(number), WriteBack::FIXED_LEN + len)?;
        window.write(0, request.encode().as_bytes());
        window.write_window(WriteBack::FIXED_LEN, buffer.window().part(at + start, len));
        link.commit(WriteBack::FIXED_LEN + len);
        Ok(())
    }

    /// A one-sided operation has ended.
    pub(super) fn completed(&mut self, lane: usize, completion: Completion) {
        let Completion { token, result } = completion;
        if token.0 & OPENING == 0 {
            return self.piece_ended(token.0 as u32, result.is_ok(), true);
        }
        match result {
            Ok(Outcome::Opened(open)) => {
                let opened =
                    self.lanes[lane].openings.iter_mut().find(|(number, _)| *number == token.0 as u32);
                opened.into_iter().for_each(|(_, place)| *place = Some(open));
            }
            Err(AccessError::Lost(_)) => {}
            other => self.recorder.fail(format!("regions can be opened, not {other:?}")),
        }
    }

    /// A message has come.
    pub(super) fn replied(&mut self, lane: usize, frame: &Frame<'_>) {
        let (kind, tag) = (frame.head.kind, frame.head.tag);
        let Some(len) = Reply::fixed_len(kind).filter(|len| *len <= frame.payload.len()) else { return };
        let mut fixed = [0; FIXED_LEN_MAX];
        frame.payload.read(0, &mut fixed[..len]);
        match Reply::decode(kind, &fixed[..len], frame.payload.len() - len) {
            Ok(Reply::Fenced { status: Status::Done, epoch }) => self.fenced(lane, tag & !FENCE_TAG, epoch),
            Ok(Reply::Written { status: Status::Done, .. }) => self.piece_ended(tag, true, false),
            // A fence of our own that a lost link still carried: nobody else raises the epoch.
            Ok(Reply::Written { status: Status::StaleEpoch, epoch }) => {
                let job = self.flight.jobs.get(&tag);
                let mapping = job.map(|job| job.key.region).and_then(|number| self.pages.mapping(number));
                mapping.into_iter().for_each(|mapping| mapping.epoch = mapping.epoch.max(epoch));
                self.piece_ended(tag, false, false);
            }
            other => self.recorder.fail(format!("what is allowed is done, not {other:?}")),
        }
    }

    fn fenced(&mut self, lane: usize, number: u32, epoch: u64) {
        let fences = &mut self.lanes[lane].fences;
        if let Some(at) = fences.iter().position(|(known, _)| *known == number) {
            fences.swap_remove(at);
            if let Some(mapping) = self.pages.mapping(number) {
                mapping.epoch = mapping.epoch.max(epoch);
                mapping.fencing -= 1;
            }
        }
    }

    /// What was sent may still arrive: the server must not take it once it has newer.
    fn fence(&mut self, lane: usize, number: u32) {
        let fences = &mut self.lanes[lane].fences;
        if !fences.iter().any(|(known, _)| *known == number) {
            fences.push((number, false));
            self.pages.mapping(number).into_iter().for_each(|mapping| mapping.fencing += 1);
        }
    }

    fn piece_ended(&mut self, number: u32, is_good: bool, is_uncertain: bool) {
        let Some(job) = self.flight.jobs.get_mut(&number) else { return };
        job.under_way = job.under_way.saturating_sub(1);
        if !is_good {
            job.fail(is_uncertain);
        }
        self.end_if_done(number);
    }

    fn end_if_done(&mut self, number: u32) {
        let is_partial = self.lanes.iter().any(|lane| lane.partial == Some(number));
        let is_done = self.flight.jobs.get(&number).is_some_and(|job| job.under_way == 0);
        if is_done && !is_partial {
            self.end(number);
        }
    }

    /// The link of a fault thread is gone, and all its one-sided operations have ended.
    pub(super) fn lost(&mut self, lane: usize) {
        let gone = &mut self.lanes[lane];
        gone.link = None;
        gone.openings.clear();
        gone.partial = None;
        gone.fences.iter_mut().for_each(|(_, was_asked)| *was_asked = false);
        for number in self.flight.of_lane(lane) {
            if let Some(job) = self.flight.jobs.get_mut(&number) {
                let left = job.under_way;
                self.recorder.expect(job.is_save() || left == 0, || {
                    format!("what was under way ends when the link is lost, but {left} operations did not")
                });
                job.under_way = 0;
                job.fail(job.next > 0);
                self.end(number);
            }
        }
    }

    fn end(&mut self, number: u32) {
        let Some(job) = self.flight.jobs.remove(&number) else { return };
        match (job.has_failed, job.is_save()) {
            (false, false) => self.pages.fetched(&job),
            (false, true) => self.pages.save_ended(&job, true),
            (true, true) => {
                if job.is_uncertain {
                    self.fence(job.lane, job.key.region);
                }
                self.pages.save_ended(&job, false);
            }
            // Asked for again by the same thread, or given up until somebody comes again.
            (true, false) if self.random.bool() => {
                self.dispatch(job.lane, Job::new(job.errand, job.key, job.shard, job.seat));
            }
            (true, false) => self.pages.fetch_failed(&job),
        }
    }
}
