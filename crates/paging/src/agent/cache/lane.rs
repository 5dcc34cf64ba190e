//! One thread's way to one server: what waits to be read, merged and passed on as the forwarding says.

use std::collections::VecDeque;

use super::config::Forwarding;
use super::load::LoadId;
use super::region::RegionNumber;

/// Bytes to read from a region into the caller's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Which region.
    pub region: RegionNumber,
    /// From where.
    pub offset: u64,
    /// To where, counted from the beginning of the caller's memory.
    pub at: u64,
    /// How many bytes.
    pub len: u64,
}

impl Transfer {
    fn is_followed_by(&self, next: &Self) -> bool {
        self.region == next.region && self.offset + self.len == next.offset && self.at + self.len == next.at
    }
}

/// The purpose of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// A load of the cache.
    Load(LoadId),
    /// A request whose bytes are not cached, by the caller's number.
    Uncached(u32),
}

/// Some transfers that are done by one read or by several.
#[derive(Clone, Debug, Default)]
struct Group {
    purposes: Vec<Purpose>,
    transfer: Option<Transfer>,
    /// How many bytes have been asked for.
    begun: u64,
    reads: u32,
    has_failed: bool,
}

/// A group of transfers, by its number. Every read of it ends under this number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReadId(pub u32);

/// A read to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// Its name when it ends.
    pub id: ReadId,
    /// The bytes to read.
    pub transfer: Transfer,
}

/// The transfers that wait for one server, and those under way to it.
#[derive(Clone, Debug)]
pub struct ReadQueue {
    forwarding: Forwarding,
    waiting: VecDeque<(Transfer, Purpose)>,
    groups: Vec<Group>,
    free: Vec<u32>,
    /// The group whose reads are being begun.
    current: Option<u32>,
    /// How many requests may still begin before the next batch.
    batch_left: usize,
    under_way: usize,
}

impl ReadQueue {
    /// A lane on which nothing waits.
    pub fn new(forwarding: Forwarding) -> Self {
        Self {
            forwarding,
            waiting: VecDeque::new(),
            groups: Vec::new(),
            free: Vec::new(),
            current: None,
            batch_left: 0,
            under_way: 0,
        }
    }

    /// Queues a transfer.
    pub fn push(&mut self, transfer: Transfer, purpose: Purpose) {
        self.waiting.push_back((transfer, purpose));
    }

    /// Whether nothing waits to be begun.
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.current.is_none()
    }

    /// Looks how much may begin now; `others` is how many requests of another kind (write-backs) wait besides. Call
    /// it before [`next_read`](Self::next_read) and [`may_begin`](Self::may_begin).
    pub fn open_batch(&mut self, others: usize) {
        match self.forwarding {
            Forwarding::Pipelined => self.batch_left = usize::MAX,
            Forwarding::Serial if self.under_way == 0 => self.batch_left = 1,
            Forwarding::Batched if self.under_way == 0 => self.batch_left = self.waiting.len() + others,
            Forwarding::Serial | Forwarding::Batched => {}
        }
    }

    /// Whether another request may begin.
    pub fn may_begin(&self) -> bool {
        self.batch_left > 0
    }

    /// A request has begun: a write-back, or a group of reads.
    pub fn begun(&mut self, requests: usize) {
        self.batch_left = self.batch_left.saturating_sub(requests);
        self.under_way += requests;
    }

    /// A request of another kind is over.
    pub fn ended(&mut self) {
        self.under_way = self.under_way.saturating_sub(1);
    }

    /// The next read, of at most `len_max` bytes. It is the same until [`read_begun`](Self::read_begun).
    pub fn next_read(&mut self, len_max: u64) -> Option<Read> {
        let number = match self.current {
            Some(number) => number,
            None => self.form_group()?,
        };
        self.current = Some(number);
        let group = &self.groups[number as usize];
        let whole = group.transfer?;
        let len = (whole.len - group.begun).min(len_max.max(1));
        let (offset, at) = (whole.offset + group.begun, whole.at + group.begun);
        Some(Read { id: ReadId(number), transfer: Transfer { offset, at, len, ..whole } })
    }

    /// Merges transfers that follow each other, as far as the forwarding lets requests begin together.
    fn form_group(&mut self) -> Option<u32> {
        if !self.may_begin() {
            return None;
        }
        let (mut whole, purpose) = self.waiting.pop_front()?;
        let number = self.free.pop().unwrap_or_else(|| {
            self.groups.push(Group::default());
            (self.groups.len() - 1) as u32
        });
        let group = &mut self.groups[number as usize];
        group.purposes.clear();
        group.purposes.push(purpose);
        while let Some((next, _)) = self.waiting.front()
            && group.purposes.len() < self.batch_left
            && whole.is_followed_by(next)
            && let Some((next, purpose)) = self.waiting.pop_front()
        {
            whole.len += next.len;
            group.purposes.push(purpose);
        }
        (group.transfer, group.begun, group.reads, group.has_failed) = (Some(whole), 0, 0, false);
        let requests = group.purposes.len();
        self.begun(requests);
        Some(number)
    }

    /// The read that was given out last has begun.
    pub fn read_begun(&mut self, read: &Read) {
        let group = &mut self.groups[read.id.0 as usize];
        group.begun += read.transfer.len;
        group.reads += 1;
        if group.transfer.is_none_or(|whole| group.begun >= whole.len) {
            self.current = None;
        }
    }

    /// A read has ended. Tells of the transfers that are over with it.
    pub fn read_ended(&mut self, id: ReadId, is_done: bool, tell: impl FnMut(Purpose, bool)) {
        let group = &mut self.groups[id.0 as usize];
        group.reads = group.reads.saturating_sub(1);
        group.has_failed |= !is_done;
        if group.reads == 0 && self.current != Some(id.0) {
            self.close(id.0, tell);
        }
    }

    fn close(&mut self, number: u32, mut tell: impl FnMut(Purpose, bool)) {
        let group = &mut self.groups[number as usize];
        if group.transfer.take().is_none() {
            return;
        }
        let is_done = !group.has_failed;
        self.under_way = self.under_way.saturating_sub(group.purposes.len());
        self.free.push(number);
        self.groups[number as usize].purposes.iter().for_each(|purpose| tell(*purpose, is_done));
    }

    /// The read that was given out last cannot begin, now or ever: its group fails when what has begun is over.
    pub fn refuse(&mut self, read: &Read, tell: impl FnMut(Purpose, bool)) {
        self.current = None;
        let group = &mut self.groups[read.id.0 as usize];
        group.has_failed = true;
        if group.reads == 0 {
            self.close(read.id.0, tell);
        }
    }

    /// The link is lost: everything that has not begun fails. What has begun must have ended before.
    pub fn fail_all(&mut self, mut tell: impl FnMut(Purpose, bool)) {
        self.current = None;
        for number in 0..self.groups.len() as u32 {
            self.groups[number as usize].has_failed = true;
            self.close(number, &mut tell);
        }
        for (_, purpose) in self.waiting.drain(..) {
            tell(purpose, false);
        }
        (self.under_way, self.batch_left) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transfer(offset: u64, at: u64, len: u64) -> Transfer {
        Transfer { region: RegionNumber(1), offset, at, len }
    }

    fn lane(forwarding: Forwarding, transfers: &[(u64, u64)]) -> ReadQueue {
        let mut lane = ReadQueue::new(forwarding);
        for (number, (offset, at)) in transfers.iter().enumerate() {
            lane.push(transfer(*offset, *at, 10), Purpose::Uncached(number as u32));
        }
        lane
    }

    /// Begins all that may begin.
    fn begin(lane: &mut ReadQueue, len_max: u64) -> Vec<Read> {
        lane.open_batch(0);
        let mut begun = Vec::new();
        while let Some(read) = lane.next_read(len_max) {
            lane.read_begun(&read);
            begun.push(read);
        }
        begun
    }

    fn end(lane: &mut ReadQueue, read: Read) -> Vec<(Purpose, bool)> {
        let mut over = Vec::new();
        lane.read_ended(read.id, true, |purpose, is_done| over.push((purpose, is_done)));
        over
    }

    #[test]
    fn what_follows_is_read_at_once() {
        let mut lane = lane(Forwarding::Pipelined, &[(0, 100), (10, 110), (20, 300), (30, 310)]);
        let begun = begin(&mut lane, 1000);
        assert_eq!(
            begun.iter().map(|read| read.transfer).collect::<Vec<_>>(),
            [transfer(0, 100, 20), transfer(20, 300, 20)]
        );
        let over = end(&mut lane, begun[0]);
        assert_eq!(over, [(Purpose::Uncached(0), true), (Purpose::Uncached(1), true)]);
    }

    #[test]
    fn what_is_too_long_is_read_in_parts_and_over_with_the_last() {
        let mut lane = lane(Forwarding::Pipelined, &[(0, 0), (10, 10)]);
        let begun = begin(&mut lane, 8);
        assert_eq!(begun.iter().map(|read| read.transfer.len).collect::<Vec<_>>(), [8, 8, 4]);
        assert!(end(&mut lane, begun[2]).is_empty() && end(&mut lane, begun[0]).is_empty());
        assert_eq!(end(&mut lane, begun[1]).len(), 2);
    }

    #[test]
    fn a_proxy_does_one_thing_after_the_other() {
        let mut lane = lane(Forwarding::Serial, &[(0, 0), (10, 10)]);
        let first = begin(&mut lane, 100);
        assert_eq!(first.len(), 1);
        assert!(begin(&mut lane, 100).is_empty());
        end(&mut lane, first[0]);
        assert_eq!(begin(&mut lane, 100)[0].transfer, transfer(10, 10, 10));
    }

    #[test]
    fn a_batch_waits_for_the_one_before() {
        let mut lane = lane(Forwarding::Batched, &[(0, 0), (50, 50)]);
        let batch = begin(&mut lane, 100);
        assert_eq!(batch.len(), 2);
        lane.push(transfer(70, 70, 10), Purpose::Uncached(2));
        end(&mut lane, batch[0]);
        assert!(begin(&mut lane, 100).is_empty());
        end(&mut lane, batch[1]);
        assert_eq!(begin(&mut lane, 100).len(), 1);
    }

    #[test]
    fn nothing_is_left_over_when_the_link_is_lost() {
        let mut lane = lane(Forwarding::Pipelined, &[(0, 0), (50, 50), (90, 90)]);
        lane.open_batch(0);
        let first = lane.next_read(4).unwrap();
        lane.read_begun(&first);
        let mut over = Vec::new();
        lane.read_ended(first.id, false, |purpose, _| over.push(purpose));
        assert!(over.is_empty(), "half of it has not begun");
        lane.fail_all(|purpose, is_done| {
            assert!(!is_done);
            over.push(purpose);
        });
        assert_eq!(over, [0, 1, 2].map(Purpose::Uncached));
        assert!(lane.is_idle() && lane.next_read(10).is_none());
    }
}
