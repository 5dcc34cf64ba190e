//! The yardstick: two ranks that do the same updates through bare rings, as one would write it by hand for nothing else.

use super::updates::{AHEAD, Updates, prefetch};
use crate::BenchError;
use crate::pair::spin_until;
use crate::raw::{BareReader, BareRings, BareWriter};

/// Eight batches.
pub(super) const RING_BYTES: usize = 8 * BATCH * SLOT;
/// Messages in a batch of 32 KiB.
const BATCH: usize = (32 << 10) / SLOT;
const SLOT: usize = 16;
/// No table has this place: what fills the last batch.
const END: u64 = u64::MAX;

type Message = [u8; SLOT];

/// One of two ranks.
pub(super) struct Bare {
    writer: BareWriter<SLOT>,
    reader: BareReader<SLOT>,
    /// A rank's own updates wait for each other too, so that their words can be fetched ahead.
    own: Box<[Message; BATCH]>,
    rank: u32,
}

/// A batch that is being written.
#[derive(Clone, Copy)]
struct Lane {
    at: *mut Message,
    left: usize,
}

impl Lane {
    fn new(batch: *mut Message) -> Self {
        Self { at: batch, left: BATCH }
    }
}

fn message(rank: u32, place: u64) -> Message {
    let head = (u128::from(rank) << 32) | 8;
    ((u128::from(place) << 64) | head).to_le_bytes()
}

/// Does so many updates, of which each goes to the batch of its rank. Both have room for all of them.
#[inline(always)]
fn append(updates: &mut Updates, count: usize, me: u32, own: &mut Lane, other: &mut Lane) {
    debug_assert!(count <= own.left && count <= other.left, "there is room whatever they are");
    let (mut own_at, mut other_at) = (own.at, other.at);
    for _ in 0..count {
        let (rank, place) = updates.next();
        let (message, is_other) = (message(rank, place), usize::from(rank != me));
        // Which of the two it is cannot be predicted, so it is written to both and stays in one.
        // SAFETY: neither is beyond its batch, of which no thread reads what is not yet published.
        unsafe {
            own_at.write(message);
            other_at.write(message);
            (own_at, other_at) = (own_at.add(1 - is_other), other_at.add(is_other));
        }
    }
    // SAFETY: both began where the lanes are.
    unsafe {
        own.left -= own_at.offset_from_unsigned(own.at);
        other.left -= other_at.offset_from_unsigned(other.at);
    }
    (own.at, other.at) = (own_at, other_at);
}

/// Makes the updates of a batch. Returns how many there were.
#[inline]
fn apply(messages: &[Message], table: &mut [u64]) -> u64 {
    let mut updates = 0;
    let mut update = |table: &mut [u64], message| {
        if let Some(word) = table.get_mut(place_of(message) as usize) {
            *word += 1;
            updates += 1;
        }
    };
    messages.iter().take(AHEAD).for_each(|message| prefetch(table, place_of(message)));
    let later = messages.get(AHEAD..).unwrap_or_default();
    for (message, later) in messages.iter().zip(later) {
        prefetch(table, place_of(later));
        update(table, message);
    }
    messages[later.len()..].iter().for_each(|message| update(table, message));
    updates
}

impl Bare {
    pub(super) fn new(rings: &BareRings, rank: u32) -> Self {
        let (out, back) = if rank == 0 { (0, 1) } else { (1, 0) };
        let own = Box::new([[0; SLOT]; BATCH]);
        Self { writer: rings.writer(out), reader: rings.reader(back), own, rank }
    }

    /// Sends so many updates and makes those that come. Returns how many were made here.
    pub(super) fn histogram(
        &mut self,
        mut updates: Updates,
        items: u64,
        table: &mut [u64],
    ) -> Result<u64, BenchError> {
        let (mut left, mut made, me) = (items, Made::default(), self.rank);
        let mut own = Lane::new(self.own.as_mut_ptr());
        let mut other = Lane::new(self.next_batch(&mut made, table)?);
        while left > 0 {
            let count = own.left.min(other.left).min(left as usize);
            append(&mut updates, count, me, &mut own, &mut other);
            left -= count as u64;
            if own.left == 0 {
                made.updates += apply(&self.own[..], table);
                own = Lane::new(self.own.as_mut_ptr());
            }
            if other.left == 0 {
                self.writer.publish_batch(BATCH as u64);
                other = Lane::new(self.next_batch(&mut made, table)?);
            }
        }
        made.updates += apply(&self.own[..BATCH - own.left], table);
        for place in 0..other.left {
            // SAFETY: the rest of the batch, which has at least one place: full ones are followed by another.
            unsafe { other.at.add(place).write(message(0, END)) };
        }
        self.writer.publish_batch(BATCH as u64);
        spin_until("the other rank's updates", || {
            if !made.has_ended {
                made.pull(&mut self.reader, table);
            }
            made.has_ended.then_some(made.updates)
        })
    }

    /// Makes the updates that come until there is room for a batch.
    fn next_batch(&mut self, made: &mut Made, table: &mut [u64]) -> Result<*mut Message, BenchError> {
        spin_until("room in the bare ring", || {
            made.pull(&mut self.reader, table);
            self.writer.try_batch(BATCH as u64)
        })
    }
}

/// What has been done at a rank.
#[derive(Default)]
struct Made {
    updates: u64,
    /// The other rank's last batch has come.
    has_ended: bool,
}

impl Made {
    fn pull(&mut self, reader: &mut BareReader<SLOT>, table: &mut [u64]) {
        reader.pull_batch(BATCH as u64, |batch| {
            let updates = apply(batch, table);
            self.updates += updates;
            self.has_ended |= updates < BATCH as u64;
        });
    }
}

fn place_of(message: &Message) -> u64 {
    (u128::from_le_bytes(*message) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::pair::Control;

    const WORDS: u64 = 1000;

    /// A rank's table after three rounds of so many updates, and how many were made.
    fn play(rings: &BareRings, rank: u32, items: u64) -> (Vec<u64>, u64) {
        let (mut bare, mut table) = (Bare::new(rings, rank), vec![0; WORDS as usize]);
        let round = |seed| bare.histogram(Updates::new(rank, 2, WORDS, seed), items, &mut table).unwrap();
        let made = (1..=3).map(round).sum();
        (table, made)
    }

    #[test]
    fn every_update_is_made_once_where_it_belongs() {
        for items in [0, 1, 5 * BATCH as u64, 100_000] {
            let (one, other) = UnixStream::pair().unwrap();
            let ours = BareRings::offer(&Control::new(one).unwrap(), RING_BYTES).unwrap();
            let other = Control::new(other).unwrap();
            let other =
                std::thread::spawn(move || play(&BareRings::take(&other, RING_BYTES).unwrap(), 1, items));
            let ((one, made), (two, made_there)) = (play(&ours, 0, items), other.join().unwrap());
            assert_eq!(made + made_there, 6 * items);
            let mut expected = vec![0; 2 * WORDS as usize];
            for (rank, seed) in [0, 1].into_iter().flat_map(|rank| [1, 2, 3].map(|seed| (rank, seed))) {
                let mut updates = Updates::new(rank, 2, WORDS, seed);
                for _ in 0..items {
                    let (rank, place) = updates.next();
                    expected[(u64::from(rank) * WORDS + place) as usize] += 1;
                }
            }
            assert!([one, two].concat() == expected, "{items} updates");
        }
    }
}
