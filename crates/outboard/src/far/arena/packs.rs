//! Blocks of one size, packed into chunks.

use std::collections::{BTreeMap, BTreeSet};

use super::spans::{Chunks, Taken};

/// Neighbouring chunks full of blocks of one size.
#[derive(Debug)]
struct Pack {
    /// A bit for each block that is taken.
    taken: Box<[u64]>,
    free: u32,
    /// From this one on blocks were never taken, and are zero.
    fresh: u32,
}

impl Pack {
    fn new(blocks: u32, is_zero: bool) -> Self {
        let words = blocks.div_ceil(64) as usize;
        let mut taken = vec![0; words].into_boxed_slice();
        // What is behind the last block is never free.
        if !blocks.is_multiple_of(64) {
            taken[words - 1] = u64::MAX << (blocks % 64);
        }
        Self { taken, free: blocks, fresh: if is_zero { 0 } else { blocks } }
    }

    /// Takes the first block that is free. Returns whether it is zero.
    fn take(&mut self) -> Option<(u32, bool)> {
        let word = self.taken.iter().position(|word| *word != u64::MAX)?;
        let bit = self.taken[word].trailing_ones();
        self.taken[word] |= 1 << bit;
        self.free -= 1;
        let block = word as u32 * 64 + bit;
        let is_zero = block >= self.fresh;
        self.fresh = self.fresh.max(block + 1);
        Some((block, is_zero))
    }

    fn give(&mut self, block: u32) {
        let (word, bit) = (block as usize / 64, block % 64);
        assert!(self.taken[word] >> bit & 1 == 1, "a block of far memory was freed twice");
        self.taken[word] &= !(1 << bit);
        self.free += 1;
    }
}

/// A block that was taken.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Block {
    /// Where it begins in the arena.
    pub(super) offset: u64,
    /// Whether all its bytes are zero.
    pub(super) is_zero: bool,
}

/// The blocks of one size.
#[derive(Debug)]
pub(super) struct Packs {
    bytes: usize,
    chunk: usize,
    /// How many chunks a pack has, and how many blocks.
    chunks: u32,
    blocks: u32,
    /// By their first chunks.
    packs: BTreeMap<u32, Pack>,
    /// The one from which blocks are taken.
    current: Option<u32>,
    /// Those that are worth taking blocks from: a quarter of each is free. A pack with one free block would cost a fetch for that
    /// block alone.
    roomy: BTreeSet<u32>,
}

impl Packs {
    /// Of blocks of so many bytes.
    pub(super) fn new(bytes: usize, chunk: usize) -> Self {
        let chunks = super::sizes::chunks_for(bytes, chunk);
        let blocks = (chunks as usize * chunk / bytes) as u32;
        let (packs, roomy) = (BTreeMap::new(), BTreeSet::new());
        Self { bytes, chunk, chunks, blocks, packs, current: None, roomy }
    }

    /// How many chunks a pack has.
    pub(super) fn chunks(&self) -> u32 {
        self.chunks
    }

    /// Takes a block from a pack that is worth it.
    pub(super) fn take(&mut self) -> Option<Block> {
        loop {
            let Some(first) = self.current else {
                self.current = Some(self.roomy.pop_first()?);
                continue;
            };
            match self.take_from(first) {
                None => self.current = None,
                taken => return taken,
            }
        }
    }

    /// Takes a block from any pack, when there are no chunks for another.
    pub(super) fn take_any(&mut self) -> Option<Block> {
        let (first, _) = self.packs.iter().find(|(_, pack)| pack.free > 0)?;
        self.take_from(*first)
    }

    fn take_from(&mut self, first: u32) -> Option<Block> {
        let (block, is_zero) = self.packs.get_mut(&first)?.take()?;
        let offset = u64::from(first) * self.chunk as u64 + u64::from(block) * self.bytes as u64;
        Some(Block { offset, is_zero })
    }

    /// Adds a pack, from which blocks are taken now.
    pub(super) fn add(&mut self, taken: &Taken) {
        let first = taken.chunks.start;
        self.packs.insert(first, Pack::new(self.blocks, taken.is_zero));
        // Another thread may have added one meanwhile.
        if let Some(other) = self.current.replace(first) {
            self.roomy.insert(other);
        }
    }

    /// Gives a block back. Returns the chunks of its pack if no block of it is left.
    pub(super) fn give(&mut self, offset: u64) -> Option<Chunks> {
        let chunk = (offset / self.chunk as u64) as u32;
        let found =
            self.packs.range_mut(..=chunk).next_back().filter(|(first, _)| **first + self.chunks > chunk);
        let (&first, pack) = found.expect("a block of far memory was freed that is none");
        let from = offset - u64::from(first) * self.chunk as u64;
        assert!(
            from.is_multiple_of(self.bytes as u64),
            "a block of far memory was freed by a wrong address or size"
        );
        pack.give((from / self.bytes as u64) as u32);
        if self.current == Some(first) {
            return None;
        }
        if pack.free == self.blocks {
            return Some(self.remove(first));
        }
        if pack.free * 4 >= self.blocks {
            self.roomy.insert(first);
        }
        None
    }

    /// Gives up the pack from which blocks would be taken next, if all of it is free.
    pub(super) fn give_up_empty(&mut self) -> Option<Chunks> {
        let first = self.current.filter(|first| self.packs[first].free == self.blocks)?;
        self.current = None;
        Some(self.remove(first))
    }

    fn remove(&mut self, first: u32) -> Chunks {
        self.packs.remove(&first);
        self.roomy.remove(&first);
        first..first + self.chunks
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    const CHUNK: usize = 4096;

    proptest! {
        #[test]
        fn no_block_is_given_twice_and_empty_packs_go(
            bytes in prop_oneof![Just(16), Just(48), Just(640), Just(2560), Just(3584), Just(4096)],
            steps in vec(any::<(bool, u16)>(), 0..600),
        ) {
            let mut packs = Packs::new(bytes, CHUNK);
            let (mut held, mut ever) = (Vec::new(), HashSet::new());
            let mut next = 0;
            for (takes, which) in steps {
                if takes {
                    let block = packs.take().unwrap_or_else(|| {
                        let chunks = next..next + packs.chunks();
                        next = chunks.end;
                        packs.add(&Taken { chunks, is_zero: true });
                        packs.take().unwrap()
                    });
                    prop_assert!(!held.contains(&block.offset));
                    prop_assert!((block.offset as usize % CHUNK + bytes <= CHUNK) || packs.chunks() > 1);
                    prop_assert!(block.offset + bytes as u64 <= u64::from(next) * CHUNK as u64);
                    prop_assert_eq!(block.is_zero, ever.insert(block.offset));
                    held.push(block.offset);
                } else if !held.is_empty() {
                    let offset = held.swap_remove(usize::from(which) % held.len());
                    if let Some(gone) = packs.give(offset) {
                        let bytes = u64::from(gone.start) * CHUNK as u64..u64::from(gone.end) * CHUNK as u64;
                        prop_assert!(held.iter().all(|offset| !bytes.contains(offset)));
                    }
                }
            }
            for offset in held {
                packs.give(offset);
            }
            packs.give_up_empty();
            prop_assert!(packs.packs.is_empty() && packs.roomy.is_empty());
        }
    }

    #[test]
    fn what_is_left_in_full_packs_is_taken_when_there_are_no_others() {
        let mut packs = Packs::new(1024, CHUNK);
        packs.add(&Taken { chunks: 0..1, is_zero: true });
        let blocks: Vec<u64> = (0..4).map(|_| packs.take().unwrap().offset).collect();
        assert_eq!((packs.take(), packs.take_any()), (None, None));
        packs.add(&Taken { chunks: 1..2, is_zero: true });
        (0..4).for_each(|_| assert!(packs.take().is_some()));
        assert_eq!(packs.give(blocks[2]), None);
        // A quarter is free, which is worth it.
        assert_eq!(packs.take().map(|block| block.offset), Some(blocks[2]));
        let mut short = Packs::new(64, CHUNK);
        short.add(&Taken { chunks: 0..1, is_zero: true });
        let blocks: Vec<u64> = (0..64).map(|_| short.take().unwrap().offset).collect();
        assert_eq!(short.take(), None);
        short.give(blocks[9]);
        assert_eq!(short.take(), None);
        assert_eq!(short.take_any(), Some(Block { offset: blocks[9], is_zero: false }));
    }

    #[test]
    #[should_panic(expected = "freed twice")]
    fn a_block_that_is_freed_twice_is_noticed() {
        let mut packs = Packs::new(64, CHUNK);
        packs.add(&Taken { chunks: 0..1, is_zero: true });
        let block = packs.take().unwrap();
        packs.give(block.offset);
        packs.give(block.offset);
    }
}
