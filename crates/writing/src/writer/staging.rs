//! The ring in which unloaded writes are kept until the target has settled them, and the batches in which they travel.

use std::ops::Range;

use outboard_wire::mutant;
use outboard_wire::writing::{Batch, ENTRIES_MAX, EntryHead};

use super::WriteSequencer;

/// Entries one after the other, each in one piece. Its size is the credit: what it holds, the target must be able to
/// take.
#[derive(Debug)]
pub(crate) struct Staging {
    bytes: Box<[u8]>,
    /// Where the oldest entry begins.
    head: usize,
    /// Where the next may begin.
    tail: usize,
    entries: usize,
}

impl Staging {
    pub(crate) fn new(size: usize) -> Self {
        Self { bytes: vec![0; size].into_boxed_slice(), head: 0, tail: 0, entries: 0 }
    }

    /// The longest write that always fits once everything else is settled, in bytes. Two of them fit side by side, so
    /// that one travels while the next is prepared.
    pub(crate) fn longest(size: usize) -> usize {
        (size / 2).saturating_sub(EntryHead::stride(0) + 8)
    }

    /// Where an entry of this stride would begin.
    fn place(&self, stride: usize) -> Option<usize> {
        if self.entries == 0 {
            return (stride <= self.bytes.len()).then_some(0);
        }
        if self.tail > self.head {
            // Behind everything, or else before everything, where the ring begins anew.
            if self.bytes.len() - self.tail >= stride {
                return Some(self.tail);
            }
            return (self.head >= stride).then_some(0);
        }
        let room = self.head - self.tail + if mutant("writing.ring-overlaps") { 8 } else { 0 };
        (room >= stride).then_some(self.tail)
    }

    /// Keeps an entry and says where; `None` if there is no room.
    pub(crate) fn push(&mut self, head: EntryHead, data: &[u8]) -> Option<Range<usize>> {
        let stride = EntryHead::stride(data.len());
        let start = self.place(stride)?;
        let data_start = start + EntryHead::LEN;
        self.bytes[start..data_start].copy_from_slice(&head.encode());
        self.bytes[data_start..data_start + data.len()].copy_from_slice(data);
        // What pads the entry travels too, and must not tell what was there before.
        self.bytes[data_start + data.len()..start + stride].fill(0);
        if self.entries == 0 {
            self.head = start;
        }
        self.tail = start + stride;
        self.entries += 1;
        Some(start..start + stride)
    }

    /// Forgets the oldest entry; `next` is where the one after it begins, if there is one.
    pub(crate) fn pop(&mut self, next: Option<usize>) {
        self.entries -= 1;
        self.head = next.unwrap_or(self.tail);
    }

    pub(crate) fn slice(&self, range: Range<usize>) -> &[u8] {
        &self.bytes[range]
    }
}

/// A batch that is ready to travel: its head, and the entries behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadyBatch {
    /// What stands before the entries.
    pub head: Batch,
    place: Range<usize>,
}

impl WriteSequencer {
    /// The next batch that should travel now, if one should. Tell [`batch_sent`](Self::batch_sent) when it does.
    pub fn next_batch(&self) -> Option<ReadyBatch> {
        if !self.is_attached || self.batches.len() >= self.config.batches_max {
            return None;
        }
        let first = self.unloaded.get(self.sent)?;
        let mut place = first.place.clone();
        let mut count = 1;
        for next in self.unloaded.iter().skip(self.sent + 1) {
            let is_behind = next.place.start == place.end;
            if !is_behind || next.place.end - place.start > self.config.batch_bytes || count == ENTRIES_MAX {
                break;
            }
            place.end = next.place.end;
            count += 1;
        }
        let head = Batch {
            writer: self.identity,
            attempt: self.attempt,
            count,
            first: self.settled + self.sent as u64 + 1,
            settled: self.settled,
        };
        Some(ReadyBatch { head, place })
    }

    /// The entries of a batch, as they travel behind its head.
    pub fn entries(&self, batch: &ReadyBatch) -> &[u8] {
        self.staging.slice(batch.place.clone())
    }

    /// The batch is on its way.
    pub fn batch_sent(&mut self, batch: &ReadyBatch) {
        debug_assert_eq!(batch.head.first, self.settled + self.sent as u64 + 1);
        let last = batch.head.first + u64::from(batch.head.count) - 1;
        self.counts.batches += 1;
        self.counts.resent += (self.sent_ever.min(last) + 1).saturating_sub(batch.head.first);
        self.sent_ever = self.sent_ever.max(last);
        self.sent += batch.head.count as usize;
        self.batches.push_back(last);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    #[test]
    fn entries_keep_their_bytes_until_they_are_popped_and_every_room_is_used_again() {
        let mut random = fastrand::Rng::with_seed(3);
        let mut ring = Staging::new(1024);
        let mut held: VecDeque<(Range<usize>, Vec<u8>)> = VecDeque::new();
        let (mut pushed, mut full) = (0, 0);
        for turn in 0..20_000_u32 {
            if random.bool() {
                let data = vec![turn as u8; random.usize(0..=Staging::longest(1024))];
                let head = EntryHead { slot: 0, len: data.len() as u32, offset: turn.into() };
                match ring.push(head, &data) {
                    Some(range) => {
                        held.push_back((range, data));
                        pushed += 1;
                    }
                    None => {
                        assert!(!held.is_empty(), "an empty ring takes the longest entry");
                        full += 1;
                    }
                }
            } else if let Some((range, data)) = held.pop_front() {
                assert_eq!(&ring.slice(range)[EntryHead::LEN..][..data.len()], data);
                ring.pop(held.front().map(|(range, _)| range.start));
            }
            for ((one, _), (other, _)) in held.iter().zip(held.iter().skip(1)) {
                assert!(one.end <= other.start || other.start == 0, "{one:?} {other:?}");
            }
        }
        assert!(pushed > 5000 && full > 100, "{pushed} {full}");
    }
}
