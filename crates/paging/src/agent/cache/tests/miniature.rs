//! An agent, its applications and a server in a few kilobytes, whose every move is decided from outside.

use std::collections::BTreeMap;
use std::ops::Range;

use outboard_wire::paging::Urgency;
use outboard_wire::{Generation, RegionId, RegionKey};

use super::support::attachment;
use crate::agent::cache::{
    CacheConfig, CacheRequest, CacheSpan, CacheVerdict, EndedWait, Forwarding, LoadOrder, PageCache,
    PrefetchConfig, Purpose, Read, ReadQueue, RegionAttachment, RegionNumber, Transfer, WaiterId, WriteItem,
    WriteQueue,
};

/// The grain that an application moves at once: four of them share a piece, and sixteen an entry.
pub(super) const GRAIN: usize = 1 << 10;
pub(super) const GRAINS: usize = 60;
const ENTRY_LOG2: u8 = 14;
/// A region ends in the middle of a piece.
const SIZE: usize = GRAINS * GRAIN - 100;
const SLOTS: usize = 3;
const BOUNCES: usize = 8;
const STAGE: usize = 8 * GRAIN;

/// Where bytes that were fetched lie.
#[derive(Clone, Copy, Debug)]
enum Answer {
    Slot(CacheSpan),
    Bounce(u32),
}

/// A read that the server has or has not looked at yet.
struct UnderWay {
    read: Read,
    seen: Option<Vec<u8>>,
}

/// A frame of write-backs that the server has or has not carried out yet.
struct Sent {
    number: u32,
    offset: usize,
    bytes: Vec<u8>,
    is_applied: bool,
}

pub(super) struct Miniature {
    cache: PageCache,
    lane: ReadQueue,
    writes: WriteQueue,
    /// Slots, then bounces.
    memory: Vec<u8>,
    stage: Vec<u8>,
    server: Vec<u8>,
    /// The values that applications know the server to have.
    acknowledged: Vec<u8>,
    attached: RegionAttachment,
    region: RegionNumber,
    /// By waiter: which grain is fetched, unless the waiter has gone.
    fetching: BTreeMap<u64, Option<usize>>,
    answers: Vec<(u64, Answer)>,
    bounces: Vec<u32>,
    /// By waiter: which grains are written back, and their bytes.
    writing: BTreeMap<u64, (Range<usize>, Vec<u8>)>,
    reads: Vec<UnderWay>,
    sent: Vec<Sent>,
    next: u64,
}

fn span(grains: Range<usize>) -> Range<usize> {
    grains.start * GRAIN..(grains.end * GRAIN).min(SIZE)
}

impl Miniature {
    pub(super) fn new(forwarding: Forwarding, depth_max: u32) -> Self {
        let prefetch = PrefetchConfig { depth_max, in_flight_max: 8192, read_max: 4096, demand_max: 2 };
        let config =
            CacheConfig { slots: SLOTS as u32, entry_log2: ENTRY_LOG2, prefetch, ..CacheConfig::default() };
        let mut cache = PageCache::new(config);
        let attached = RegionAttachment { is_writable: true, ..attachment(1, SIZE as u64) };
        let region = cache.attach(&attached).unwrap();
        Self {
            cache,
            lane: ReadQueue::new(forwarding),
            writes: WriteQueue::new(STAGE as u64),
            memory: vec![0xee; (SLOTS << ENTRY_LOG2) + BOUNCES * GRAIN],
            stage: vec![0xdd; STAGE],
            server: vec![0; SIZE],
            acknowledged: vec![0; SIZE],
            attached,
            region,
            fetching: BTreeMap::new(),
            answers: Vec::new(),
            bounces: (0..BOUNCES as u32).collect(),
            writing: BTreeMap::new(),
            reads: Vec::new(),
            sent: Vec::new(),
            next: 0,
        }
    }

    fn ticket(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn is_written(&self, grain: usize) -> bool {
        self.writing.values().any(|(written, _)| written.contains(&grain))
    }

    /// An application fetches a grain, unless it has it: it is being written back.
    pub(super) fn fetch(&mut self, grain: usize, urgency: Urgency) {
        if self.is_written(grain) || self.bounces.is_empty() {
            return;
        }
        let (ticket, span) = (self.ticket(), span(grain..grain + 1));
        let (offset, len) = (span.start as u64, span.len() as u32);
        let ask = CacheRequest { region: self.region, offset, len, urgency, waiter: WaiterId(ticket) };
        let mut orders = Vec::new();
        let verdict = self.cache.request(&ask, &mut orders);
        orders.iter().for_each(|order| self.order(order));
        self.fetching.insert(ticket, Some(grain));
        match verdict {
            CacheVerdict::Hit(place) => self.answers.push((ticket, Answer::Slot(place))),
            CacheVerdict::Waits => {}
            CacheVerdict::Uncached => {
                let bounce = self.bounces.pop().unwrap();
                let at = (SLOTS << ENTRY_LOG2) as u64 + u64::from(bounce) * GRAIN as u64;
                let transfer = Transfer { region: self.region, offset, at, len: len.into() };
                self.lane.push(transfer, Purpose::Uncached(bounce));
                self.answers.push((ticket, Answer::Bounce(bounce)));
            }
            CacheVerdict::OutOfBounds => panic!("{grain} is inside"),
        }
    }

    fn order(&mut self, order: &LoadOrder) {
        let at = (u64::from(order.place.slot) << ENTRY_LOG2) + u64::from(order.place.offset);
        let transfer =
            Transfer { region: order.region, offset: order.offset, at, len: order.place.len.into() };
        self.lane.push(transfer, Purpose::Load(order.load));
    }

    /// The agent reads ahead.
    pub(super) fn read_ahead(&mut self) {
        if let Some(order) = self.cache.next_ahead(|_| true) {
            self.order(&order);
        }
    }

    /// The agent begins what may begin; no read is longer than `len_max`.
    pub(super) fn forward(&mut self, len_max: u64) {
        self.lane.open_batch(self.writes.waiting());
        while let Some(read) = self.lane.next_read(len_max) {
            self.lane.read_begun(&read);
            self.reads.push(UnderWay { read, seen: None });
        }
        while self.lane.may_begin()
            && let Some(frame) = self.writes.next_frame(6 * GRAIN as u32)
        {
            let parts = self.writes.parts().map(|(at, len)| at as usize..at as usize + len as usize);
            let bytes: Vec<u8> = parts.flat_map(|part| self.stage[part].to_vec()).collect();
            assert_eq!(bytes.len(), frame.len as usize);
            let number = self.writes.frame_sent();
            self.lane.begun(1);
            let offset = frame.first.offset as usize;
            self.sent.push(Sent { number, offset, bytes, is_applied: false });
        }
    }

    /// The server looks at what is to be read.
    pub(super) fn look(&mut self, choice: usize) {
        let count = self.reads.len().max(1);
        if let Some(UnderWay { read, seen }) = self.reads.get_mut(choice % count) {
            let from = read.transfer.offset as usize;
            *seen = Some(self.server[from..from + read.transfer.len as usize].to_vec());
        }
    }

    /// A read arrives, with the bytes that the server saw.
    pub(super) fn arrive(&mut self, choice: usize) {
        if self.reads.is_empty() {
            return;
        }
        let index = choice % self.reads.len();
        if self.reads[index].seen.is_none() {
            self.look(index);
        }
        let UnderWay { read, seen } = self.reads.swap_remove(index);
        let at = read.transfer.at as usize;
        self.memory[at..at + read.transfer.len as usize].copy_from_slice(&seen.unwrap());
        self.end_read(&read, true);
    }

    fn end_read(&mut self, read: &Read, is_done: bool) {
        let mut over = Vec::new();
        self.lane.read_ended(read.id, is_done, |purpose, is_done| over.push((purpose, is_done)));
        over.into_iter().for_each(|(purpose, is_done)| self.end_transfer(purpose, is_done));
    }

    fn end_transfer(&mut self, purpose: Purpose, is_done: bool) {
        match purpose {
            Purpose::Load(load) => {
                let mut ended = Vec::new();
                self.cache.finish(load, is_done, &mut ended);
                for EndedWait { waiter, place, source } in ended {
                    if source.is_some() {
                        self.answers.push((waiter.0, Answer::Slot(place)));
                    } else {
                        self.fetching.remove(&waiter.0);
                        self.cache.release(place.slot);
                    }
                }
            }
            Purpose::Uncached(bounce) => {
                let index = self
                    .answers
                    .iter()
                    .position(|(_, answer)| matches!(answer, Answer::Bounce(other) if *other == bounce));
                let (ticket, _) = self.answers.swap_remove(index.unwrap());
                let grain = self.fetching.remove(&ticket).unwrap();
                self.bounces.push(bounce);
                if let (Some(grain), true) = (grain, is_done) {
                    self.check(grain, (SLOTS << ENTRY_LOG2) + bounce as usize * GRAIN);
                }
            }
        }
    }

    fn check(&self, grain: usize, at: usize) {
        let span = span(grain..grain + 1);
        assert!(
            self.memory[at..at + span.len()] == self.acknowledged[span.clone()],
            "grain {grain} is {:?} instead of {:?}",
            &self.memory[at..at + 4],
            &self.acknowledged[span.start..span.start + 4]
        );
    }

    /// An answer is copied to its application.
    pub(super) fn copy_out(&mut self, choice: usize) {
        let slots: Vec<usize> = (0..self.answers.len())
            .filter(|index| matches!(self.answers[*index].1, Answer::Slot(_)))
            .collect();
        let Some(index) = slots.get(choice % slots.len().max(1)) else { return };
        let (ticket, answer) = self.answers.swap_remove(*index);
        let (Some(grain), Answer::Slot(place)) = (self.fetching.remove(&ticket), answer) else { return };
        if let Some(grain) = grain {
            self.check(grain, ((place.slot as usize) << ENTRY_LOG2) + place.offset as usize);
        }
        self.cache.release(place.slot);
    }

    /// An application writes grains back, which it neither fetches nor writes back otherwise.
    pub(super) fn write_back(&mut self, grains: Range<usize>) {
        let grains = grains.start..grains.end.min(GRAINS);
        let span = span(grains.clone());
        let is_fetched = |grain| self.fetching.values().any(|fetched| *fetched == Some(grain));
        let is_busy = grains.clone().any(|grain| is_fetched(grain) || self.is_written(grain));
        if is_busy || !self.writes.has_room(span.len() as u32) {
            return;
        }
        let ticket = self.ticket();
        let bytes = vec![ticket as u8; span.len()];
        let (write, place) = self.cache.write_begins(self.region, span.start as u64, span.len() as u32);
        if let Some(place) = place {
            let at = ((place.slot as usize) << ENTRY_LOG2) + place.offset as usize;
            self.memory[at..at + bytes.len()].copy_from_slice(&bytes);
        }
        let item = WriteItem {
            waiter: WaiterId(ticket),
            number: self.region,
            write,
            region: RegionId(1),
            generation: Generation(1),
            key: RegionKey([1; 16]),
            epoch: self.attached.epoch,
            offset: span.start as u64,
            len: span.len() as u32,
        };
        let at = self.writes.push(item).unwrap() as usize;
        self.stage[at..at + bytes.len()].copy_from_slice(&bytes);
        self.writing.insert(ticket, (grains, bytes));
    }

    /// The server carries a frame of write-backs out.
    pub(super) fn apply(&mut self, choice: usize) {
        let count = self.sent.len().max(1);
        if let Some(sent) = self.sent.get_mut(choice % count) {
            self.server[sent.offset..sent.offset + sent.bytes.len()].copy_from_slice(&sent.bytes);
            sent.is_applied = true;
        }
    }

    /// The server's word of it arrives.
    pub(super) fn acknowledge(&mut self, choice: usize) {
        let count = self.sent.len().max(1);
        if self.sent.get(choice % count).is_none_or(|sent| !sent.is_applied) {
            return;
        }
        let sent = self.sent.swap_remove(choice % count);
        let mut over = Vec::new();
        assert!(self.writes.acknowledged(sent.number, |item| over.push(*item)));
        self.lane.ended();
        for item in over {
            let (grains, bytes) = self.writing.remove(&item.waiter.0).unwrap();
            self.acknowledged[span(grains)].copy_from_slice(&bytes);
            self.cache.write_ends(item.write, true);
        }
    }

    /// The server refuses a frame of write-backs: its bytes belong to no write-back.
    pub(super) fn refuse(&mut self, choice: usize) {
        let count = self.sent.len().max(1);
        if self.sent.get(choice % count).is_none_or(|sent| sent.is_applied) {
            return;
        }
        let sent = self.sent.swap_remove(choice % count);
        let mut over = Vec::new();
        assert!(self.writes.acknowledged(sent.number, |item| over.push(*item)));
        self.lane.ended();
        for item in over {
            self.writing.remove(&item.waiter.0).unwrap();
            self.cache.write_ends(item.write, false);
        }
    }

    /// The link to the server is lost. What was sent may have been carried out; the application sees to it that it
    /// is, by its own way, and attaches the region anew.
    pub(super) fn lose_server(&mut self) {
        for UnderWay { read, .. } in std::mem::take(&mut self.reads) {
            self.end_read(&read, false);
        }
        let mut over = Vec::new();
        self.lane.fail_all(|purpose, _| over.push(purpose));
        over.into_iter().for_each(|purpose| self.end_transfer(purpose, false));
        self.sent.clear();
        let mut failed = Vec::new();
        self.writes.fail_all(|item| failed.push(*item));
        failed.iter().for_each(|item| self.cache.write_ends(item.write, false));
        for (grains, bytes) in std::mem::take(&mut self.writing).into_values() {
            self.server[span(grains.clone())].copy_from_slice(&bytes);
            self.acknowledged[span(grains)].copy_from_slice(&bytes);
        }
        if !failed.is_empty() {
            self.attach_anew();
        }
    }

    /// Attaches the region in a new epoch, and gives the old attachment up; what is fetched meanwhile is left to
    /// its fate.
    pub(super) fn attach_anew(&mut self) {
        if !self.writing.is_empty() {
            return;
        }
        self.attached.epoch += 1;
        let region = self.cache.attach(&self.attached).unwrap();
        self.cache.detach(self.region);
        self.region = region;
        self.fetching.values_mut().for_each(|grain| *grain = None);
    }

    /// Lets everything end, and looks whether anything is left.
    pub(super) fn close(mut self) {
        while !self.reads.is_empty()
            || !self.lane.is_idle()
            || self.writes.waiting() > 0
            || !self.sent.is_empty()
        {
            self.forward(u64::MAX);
            self.arrive(0);
            self.apply(0);
            self.acknowledge(0);
        }
        while !self.answers.is_empty() {
            self.copy_out(0);
        }
        assert_eq!((self.cache.under_way(), self.cache.pins()), ((0, 0), 0));
        assert_eq!(self.cache.writes_under_way(), 0);
        assert_eq!(self.bounces.len(), BOUNCES);
        assert!(self.fetching.is_empty() && self.writing.is_empty());
        assert!(self.server == self.acknowledged);
        for grain in 0..GRAINS {
            self.fetch(grain, Urgency::Demand);
            self.forward(u64::MAX);
            self.arrive(0);
            self.copy_out(0);
        }
        self.cache.detach(self.region);
        assert_eq!((self.cache.used_slots(), self.cache.regions().count()), (0, 0));
    }
}
