//! A client that reserves, opens, releases, frees, lists and joins.

use std::collections::BTreeMap;
use std::time::Duration;

use fastrand::Rng;
use outboard_driver::{LinkId, LinkOrigin, Service};
use outboard_link::{Disposition, Frame, FrameSendError, Link, LinkError, Peer, RemoteMemory};
use outboard_wire::control::{ControlAnswer, JobSecret, Member, Question, RegionName, RegionSharing};
use outboard_wire::{
    FrameHead, Grant, Incarnation, JobId, Rank, RegionDescriptor, RegionId, RegionKey, Rights, Text, Time,
};

use super::desk::SECRET;
use crate::{Boot, Recorder};

/// How many jobs there are to join.
const JOBS: u64 = 3;

/// The subject of a question.
enum Asked {
    Reserve { is_named: bool },
    Open,
    Free(RegionId),
    Release(RegionId),
    Other,
}

/// Asks all sorts of things, and expects one answer to each.
pub(super) struct Tenant {
    rank: u32,
    ranks: u32,
    incarnation: Incarnation,
    recorder: Recorder,
    random: Rng,
    link: Option<LinkId>,
    /// Regions without names, which it holds as long as its link lives.
    held: BTreeMap<RegionId, Grant>,
    /// Regions with names that it was given; it may have been given them again, or they may be gone.
    shared: Vec<Grant>,
    /// A region that it has given back, or never had.
    stale: Option<Grant>,
    waiting: BTreeMap<u32, Asked>,
    next_tag: u32,
    next_at: Time,
    until: Time,
}

impl Tenant {
    pub(super) fn new(boot: Boot, (rank, ranks): (u32, u32), recorder: Recorder, until: Time) -> Self {
        Self {
            rank,
            ranks,
            incarnation: boot.incarnation,
            recorder,
            random: boot.random,
            link: None,
            held: BTreeMap::new(),
            shared: Vec::new(),
            stale: None,
            waiting: BTreeMap::new(),
            next_tag: 1,
            next_at: boot.now,
            until,
        }
    }

    /// Bytes that regions without names take, in whole pages.
    pub(super) fn held_bytes(&self, page: u64) -> u64 {
        self.held.values().map(|grant| grant.size.next_multiple_of(page)).sum()
    }

    /// Whether it is linked and has all its answers.
    pub(super) fn is_settled(&self) -> bool {
        self.link.is_some() && self.waiting.is_empty()
    }

    fn choose(&mut self) -> (Question, Asked) {
        match self.random.u8(..16) {
            0..=4 => self.reserve(),
            5..=7 => self.free(),
            8 => self.release(),
            9..=10 => (self.open(), Asked::Open),
            11 => (Question::List { after: RegionId(self.random.u64(..8)) }, Asked::Other),
            _ => (self.join(), Asked::Other),
        }
    }

    fn name(&mut self) -> RegionName {
        Text::new(["graph", "index", "table"][self.random.usize(..3)])
    }

    fn open(&mut self) -> Question {
        let rights = if self.random.bool() { Rights::READ } else { Rights::READ.and(Rights::WRITE) };
        Question::OpenNamed { name: self.name(), rights, sharing: self.sharing() }
    }

    fn sharing(&mut self) -> RegionSharing {
        if self.random.bool() { RegionSharing::Leased } else { RegionSharing::Together }
    }

    fn reserve(&mut self) -> (Question, Asked) {
        let is_named = self.random.u8(..) < 40;
        let name = if is_named { self.name() } else { Text::new("") };
        let size = if self.random.u8(..) < 8 { 0 } else { self.random.u64(1..60_000) };
        let sharing = self.sharing();
        (Question::Reserve { size, chunk_log2: 16, name, sharing }, Asked::Reserve { is_named })
    }

    fn free(&mut self) -> (Question, Asked) {
        let nth = self.random.usize(..self.held.len().max(1));
        let own = self.held.values().nth(nth).copied();
        let grant = if self.random.u8(..) < 200 { own.or(self.stale) } else { self.stale };
        let Some(Grant { region, generation, mut key, .. }) = grant else { return self.reserve() };
        if self.random.u8(..) < 16 {
            key = RegionKey([0; 16]);
        }
        (Question::Free { region, generation, key }, Asked::Free(region))
    }

    fn release(&mut self) -> (Question, Asked) {
        let nth = self.random.usize(..self.shared.len().max(1));
        let shared = (nth < self.shared.len()).then(|| self.shared.swap_remove(nth));
        let grant = shared.or_else(|| self.held.values().next().copied()).or(self.stale);
        let Some(Grant { region, generation, .. }) = grant else { return self.reserve() };
        (Question::Release { region, generation }, Asked::Release(region))
    }

    fn join(&mut self) -> Question {
        let rank = if self.random.u8(..) < 240 { self.rank } else { self.random.u32(..=self.ranks) };
        let size = if self.random.u8(..) < 248 { self.ranks } else { self.ranks + 1 };
        let stranger = JobSecret([4; JobSecret::LEN_MAX]);
        let secret = if self.random.u8(..) < 240 { SECRET } else { stranger };
        let member = Member {
            rank: Rank(rank),
            pid: self.rank,
            incarnation: self.incarnation,
            address: Text::new("loopback"),
        };
        Question::Join { job: JobId(self.random.u64(1..=JOBS)), secret, size, member }
    }

    fn on_answer(&mut self, tag: u32, answer: ControlAnswer) {
        let Some(asked) = self.waiting.remove(&tag) else {
            return self.recorder.fail(format!("each question is answered once: {answer:?} comes again"));
        };
        match (asked, answer) {
            (Asked::Reserve { is_named: false }, ControlAnswer::Region(RegionDescriptor { grant, .. })) => {
                self.held.insert(grant.region, grant);
            }
            (Asked::Reserve { .. } | Asked::Open, ControlAnswer::Region(RegionDescriptor { grant, .. })) => {
                self.shared.push(grant);
            }
            (Asked::Free(region), ControlAnswer::Freed)
            | (Asked::Release(region), ControlAnswer::Released) => {
                self.stale = self.held.remove(&region).or(self.stale);
            }
            _ => {}
        }
    }
}

impl Service for Tenant {
    type Note = ();

    fn on_open(&mut self, link: LinkId, _: &Peer, _: LinkOrigin, now: Time) {
        self.link = Some(link);
        self.next_at = self.next_at.max(now);
    }

    fn on_frame(&mut self, _: LinkId, frame: Frame<'_>, _: Time) -> Disposition {
        match ControlAnswer::decode(frame.head.kind, &frame.payload.to_vec()) {
            Ok(answer) => self.on_answer(frame.head.tag, answer),
            Err(error) => self.recorder.fail(format!("what was answered can be read: {error}")),
        }
        Disposition::Taken
    }

    fn send<L: Link + RemoteMemory>(
        &mut self,
        id: LinkId,
        link: &mut L,
        now: Time,
    ) -> Result<bool, LinkError> {
        if self.link != Some(id) || now < self.next_at || now >= self.until {
            return Ok(false);
        }
        self.next_at = now + Duration::from_micros(self.random.u64(50..4000));
        let (question, asked) = self.choose();
        let (mut payload, tag) = (Vec::new(), self.next_tag);
        question.encode(&mut payload);
        match link.send(FrameHead::new(question.kind()).with_tag(tag), &payload) {
            Ok(()) => {
                self.next_tag += 1;
                self.waiting.insert(tag, asked);
                Ok(true)
            }
            Err(FrameSendError::Lost(lost)) => Err(lost),
            Err(_) => Ok(false),
        }
    }

    /// Regions that it held without a name are gone with the link.
    fn on_lost(&mut self, link: LinkId, _: &LinkError, _: Time) {
        if self.link.take_if(|own| *own == link).is_some() {
            self.stale = self.held.pop_first().map(|(_, grant)| grant).or(self.stale);
            self.held.clear();
            self.shared.clear();
            self.waiting.clear();
        }
    }

    fn next_deadline(&self) -> Option<Time> {
        self.link.filter(|_| self.next_at < self.until).map(|_| self.next_at)
    }
}
