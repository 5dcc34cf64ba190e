//! Write-backs that wait for their way to the server, combined where they meet.

use std::collections::VecDeque;

use outboard_wire::{Generation, RegionId, RegionKey, mutant};

use super::load::WaiterId;
use super::region::RegionNumber;
use super::writes::WriteBackId;

/// How many waiting write-backs are looked at for one that continues another.
const WINDOW: usize = 64;

/// A write-back on its way from an application to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteItem {
    /// The client to answer.
    pub waiter: WaiterId,
    /// Which region, for the cache.
    pub number: RegionNumber,
    /// The cache's name for it.
    pub write: WriteBackId,
    /// Which region, for the server.
    pub region: RegionId,
    /// Which life of it.
    pub generation: Generation,
    /// The key that the application presented.
    pub key: RegionKey,
    /// The write epoch of the bytes.
    pub epoch: u64,
    /// Where they go.
    pub offset: u64,
    /// How many there are.
    pub len: u32,
}

impl WriteItem {
    fn end(&self) -> u64 {
        self.offset.saturating_add(self.len.into())
    }

    fn is_of_one_kind_with(&self, other: &Self) -> bool {
        self.number == other.number
            && (self.region, self.generation, self.epoch) == (other.region, other.generation, other.epoch)
            && self.key.matches(&other.key)
    }

    fn meets(&self, other: &Self) -> bool {
        self.number == other.number && self.offset < other.end() && other.offset < self.end()
    }
}

#[derive(Clone, Copy, Debug)]
struct Staged {
    item: WriteItem,
    at: u64,
    is_sent: bool,
    /// How many bytes of the stage come free with it, those that were skipped before it included.
    room: u64,
}

/// Write-backs that go to the server as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CombinedWrite {
    /// The request to the server, but for the offset and the length.
    pub first: WriteItem,
    /// How many bytes there are in all, from the first one's offset.
    pub len: u32,
}

/// Write-backs in the order in which they came, with their bytes in a stage of the caller's that this manages as a
/// ring. Bytes leave the stage when they are sent: it is the application that keeps them until they have arrived.
#[derive(Clone, Debug)]
pub struct WriteQueue {
    capacity: u64,
    used: u64,
    next_at: u64,
    waiting: VecDeque<Staged>,
    unsent: usize,
    /// The write-backs of the next frame, by their positions in `waiting`.
    chosen: Vec<usize>,
    /// Frames that the server has not answered, by numbers that do not come again soon: an answer that comes twice answers one
    /// frame.
    sent: VecDeque<(u32, Vec<WriteItem>)>,
    next_number: u32,
    spare: Vec<Vec<WriteItem>>,
}

impl WriteQueue {
    /// An empty queue with a stage of `capacity` bytes.
    pub fn new(capacity: u64) -> Self {
        Self {
            capacity,
            used: 0,
            next_at: 0,
            waiting: VecDeque::new(),
            unsent: 0,
            chosen: Vec::new(),
            sent: VecDeque::new(),
            next_number: 0,
            spare: Vec::new(),
        }
    }

    /// How many wait to be sent.
    pub fn waiting(&self) -> usize {
        self.unsent
    }

    /// How many frames the server has not acknowledged.
    pub fn under_way(&self) -> usize {
        self.sent.len()
    }

    /// Whether there is room in the stage for another.
    pub fn has_room(&self, len: u32) -> bool {
        self.place(len).is_some()
    }

    /// Where in the stage `len` bytes fit in one piece, and how much room that takes.
    fn place(&self, len: u32) -> Option<(u64, u64)> {
        let len = u64::from(len);
        let left = self.capacity - self.next_at;
        let (at, room) = if len <= left { (self.next_at, len) } else { (0, left + len) };
        (len <= self.capacity && self.used + room <= self.capacity).then_some((at, room))
    }

    /// Queues a write-back; returns where in the stage its bytes go. `None` if there is no room.
    pub fn push(&mut self, item: WriteItem) -> Option<u64> {
        let (at, room) = self.place(item.len)?;
        self.used += room;
        self.next_at = at + u64::from(item.len);
        self.unsent += 1;
        self.waiting.push_back(Staged { item, at, is_sent: false, room });
        Some(at)
    }

    /// The write-backs to send next: the oldest write-back and those that continue it, `len_max` bytes at most.
    pub fn next_frame(&mut self, len_max: u32) -> Option<CombinedWrite> {
        self.chosen.clear();
        let first = self.waiting.iter().position(|staged| !staged.is_sent)?;
        self.chosen.push(first);
        let item = self.waiting[first].item;
        let mut end = item.end();
        while let Some(next) = self.continuation(first, &item, end) {
            let total = self.waiting[next].item.end() - item.offset;
            if total > u64::from(len_max) {
                break;
            }
            end = item.offset + total;
            self.chosen.push(next);
        }
        Some(CombinedWrite { first: item, len: (end - item.offset) as u32 })
    }

    /// A waiting write-back that begins at `end`, unless one before it writes to the same bytes: those keep their
    /// order.
    fn continuation(&self, first: usize, item: &WriteItem, end: u64) -> Option<usize> {
        let window = first + 1..self.waiting.len().min(first + WINDOW);
        let is_open = |index: &usize| !self.waiting[*index].is_sent && !self.chosen.contains(index);
        let found = window.clone().filter(is_open).find(|index| {
            let other = &self.waiting[*index].item;
            other.offset == end && other.is_of_one_kind_with(item)
        })?;
        let mut earlier = (first + 1..found).filter(is_open).map(|index| &self.waiting[index].item);
        let is_overtaking = earlier.any(|other| other.meets(&self.waiting[found].item));
        (!is_overtaking || mutant("paging.write-backs-overtake")).then_some(found)
    }

    /// Where the bytes of the frame lie in the stage, in the order in which they are sent.
    pub fn parts(&self) -> impl Iterator<Item = (u64, u32)> {
        self.chosen.iter().map(|index| (self.waiting[*index].at, self.waiting[*index].item.len))
    }

    /// The number that the frame will have when it is sent, for its tag.
    pub fn next_number(&self) -> u32 {
        self.next_number
    }

    /// The frame is sent. Returns its number.
    pub fn frame_sent(&mut self) -> u32 {
        let mut items = self.spare.pop().unwrap_or_default();
        for index in self.chosen.drain(..) {
            self.waiting[index].is_sent = true;
            self.unsent -= 1;
            items.push(self.waiting[index].item);
        }
        while let Some(staged) = self.waiting.front().filter(|staged| staged.is_sent) {
            self.used -= staged.room;
            self.waiting.pop_front();
        }
        if self.used == 0 {
            self.next_at = 0;
        }
        let number = self.next_number;
        self.next_number = number.wrapping_add(1);
        self.sent.push_back((number, items));
        number
    }

    /// The server has answered a frame. Tells of its write-backs; returns false if there is no such frame.
    pub fn acknowledged(&mut self, number: u32, tell: impl FnMut(&WriteItem)) -> bool {
        let at = self.sent.iter().position(|(sent, _)| *sent == number);
        let Some((_, mut items)) = at.and_then(|at| self.sent.remove(at)) else { return false };
        items.iter().for_each(tell);
        items.clear();
        self.spare.push(items);
        true
    }

    /// The link is lost: everything fails.
    pub fn fail_all(&mut self, mut tell: impl FnMut(&WriteItem)) {
        let numbers: Vec<u32> = self.sent.iter().map(|(number, _)| *number).collect();
        for number in numbers {
            self.acknowledged(number, &mut tell);
        }
        let unsent = self.waiting.drain(..).filter(|staged| !staged.is_sent);
        unsent.for_each(|staged| tell(&staged.item));
        (self.used, self.next_at, self.unsent) = (0, 0, 0);
        self.chosen.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(waiter: u64, offset: u64, len: u32) -> WriteItem {
        WriteItem {
            waiter: WaiterId(waiter),
            number: RegionNumber(0),
            write: WriteBackId(waiter as u32),
            region: RegionId(1),
            generation: Generation(1),
            key: RegionKey([1; 16]),
            epoch: 1,
            offset,
            len,
        }
    }

    fn queue(items: &[WriteItem]) -> WriteQueue {
        let mut queue = WriteQueue::new(1000);
        items.iter().for_each(|item| assert!(queue.push(*item).is_some()));
        queue
    }

    fn send(queue: &mut WriteQueue) -> Option<(u64, u32, usize)> {
        let frame = queue.next_frame(100)?;
        let parts = queue.parts().count();
        queue.frame_sent();
        Some((frame.first.offset, frame.len, parts))
    }

    #[test]
    fn neighbours_travel_together_wherever_they_wait() {
        let other = WriteItem { epoch: 2, ..item(3, 20, 10) };
        let mut queue = queue(&[item(1, 0, 10), item(2, 50, 10), other, item(4, 10, 10), item(5, 20, 90)]);
        assert_eq!(send(&mut queue), Some((0, 20, 2)), "another epoch or too much does not fit");
        assert_eq!(send(&mut queue), Some((50, 10, 1)));
        assert_eq!(send(&mut queue), Some((20, 10, 1)));
        assert_eq!(send(&mut queue), Some((20, 90, 1)));
        assert_eq!(send(&mut queue), None);
        let mut told = Vec::new();
        assert!(queue.acknowledged(0, |item| told.push(item.waiter.0)));
        assert_eq!(told, [1, 4]);
        assert!(!queue.acknowledged(0, |_| panic!("once is enough")));
        queue.fail_all(|item| told.push(item.waiter.0));
        assert_eq!(told, [1, 4, 2, 3, 5]);
    }

    #[test]
    fn an_answer_that_comes_twice_answers_one_frame() {
        let mut queue = queue(&[item(1, 0, 10), item(2, 50, 10)]);
        send(&mut queue).unwrap();
        assert!(queue.acknowledged(0, |item| assert_eq!(item.waiter.0, 1)));
        send(&mut queue).unwrap();
        assert!(!queue.acknowledged(0, |_| panic!("the server has not answered the second")));
        assert_eq!(queue.under_way(), 1);
        assert!(queue.acknowledged(1, |item| assert_eq!(item.waiter.0, 2)));
    }

    #[test]
    fn writes_to_the_same_bytes_keep_their_order() {
        let mut queue = queue(&[item(1, 0, 10), item(2, 15, 10), item(3, 10, 10)]);
        assert_eq!(send(&mut queue), Some((0, 10, 1)));
        assert_eq!(send(&mut queue), Some((15, 10, 1)));
        assert_eq!(send(&mut queue), Some((10, 10, 1)));
    }

    #[test]
    fn the_stage_is_a_ring_without_overlaps() {
        let mut queue = WriteQueue::new(100);
        let mut random = fastrand::Rng::with_seed(5);
        let mut live: VecDeque<(u64, u32)> = VecDeque::new();
        for step in 0..10_000u64 {
            let len = random.u32(1..=60);
            match queue.push(item(step, step * 1000, len)) {
                Some(at) => {
                    assert!(at + u64::from(len) <= 100);
                    let is_apart = |(other, other_len): &(u64, u32)| {
                        at + u64::from(len) <= *other || other + u64::from(*other_len) <= at
                    };
                    assert!(live.iter().all(is_apart), "{live:?} {at}+{len}");
                    live.push_back((at, len));
                }
                None => {
                    assert!(!live.is_empty(), "an empty stage takes anything that fits");
                    queue.next_frame(100).unwrap();
                    assert_eq!(queue.parts().next(), live.pop_front());
                    let number = queue.next_number();
                    assert_eq!(queue.frame_sent(), number);
                    assert!(queue.acknowledged(number, |_| ()));
                }
            }
        }
    }
}
