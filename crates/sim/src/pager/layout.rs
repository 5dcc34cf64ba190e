//! The regions, how they are cut, and what differs from one run to the next.

use fastrand::Rng;
use outboard_paging::pager::{ShardConfig, SizeClass};
use outboard_wire::{Generation, Grant, RegionId, RegionKey, Rights};

/// How many regions there are.
pub(super) const REGIONS: usize = 2;
/// What is compared and saved at once, in bytes.
pub(super) const PAGE: usize = 128;
/// What a word of memory takes, in bytes.
pub(super) const WORD: usize = 8;

/// A region as the server has it.
pub(super) struct Plan {
    pub(super) class: SizeClass,
    pub(super) chunks: u32,
    /// In bytes. It ends within the last chunk, and within a page.
    pub(super) size: usize,
}

/// Chunks of different sizes, so that they compete for the same memory.
pub(super) const PLANS: [Plan; REGIONS] = [
    Plan { class: SizeClass(9), chunks: 24, size: 24 * 512 - 136 },
    Plan { class: SizeClass(10), chunks: 9, size: 9 * 1024 - 24 },
];

impl Plan {
    /// Where a chunk begins, and how many of its bytes are in the region.
    pub(super) fn span(&self, index: u32) -> (usize, usize) {
        let offset = index as usize * self.class.bytes();
        (offset, (self.size - offset).min(self.class.bytes()))
    }

    pub(super) fn words(&self) -> usize {
        self.size / WORD
    }

    /// The chunk of a word, and where the word lies in it.
    pub(super) fn place(&self, word: usize) -> (u32, usize) {
        let offset = word * WORD;
        ((offset / self.class.bytes()) as u32, offset % self.class.bytes())
    }
}

/// What opens a region, to read and to write.
pub(super) fn grant(region: usize) -> Grant {
    Grant {
        region: RegionId(region as u64 + 1),
        generation: Generation(1),
        key: RegionKey([region as u8 + 1; 16]),
        rights: RIGHTS,
        size: PLANS[region].size as u64,
    }
}

/// What may be done with a region.
pub(super) const RIGHTS: Rights = Rights::READ.and(Rights::WRITE);

/// What differs from one run to the next.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub(super) shards: usize,
    pub(super) config: ShardConfig,
    /// Fault threads, each with a link of its own.
    pub(super) lanes: usize,
    /// Threads that use the memory.
    pub(super) walkers: usize,
    pub(super) is_writable: [bool; REGIONS],
    /// Whether chunks that are wanted for writing are taken for changed without looking.
    pub(super) saves_are_cheap: bool,
    /// The longest access, in bytes.
    pub(super) piece_max: usize,
    /// How many chunks are read ahead at most.
    pub(super) window_max: u32,
    /// How often the kernel holds pages that are to be moved: once in so many times, never if zero.
    pub(super) busy_one_in: u32,
}

impl Shape {
    pub(super) fn draw(random: &mut Rng) -> Self {
        let budget = random.usize(4 * 1024..=10 * 1024);
        let low = random.usize(..budget / 4);
        let high = random.usize(low..=budget / 2);
        Self {
            shards: random.usize(1..=2),
            config: ShardConfig { budget, low, high },
            lanes: random.usize(1..=3),
            walkers: random.usize(1..=6),
            is_writable: [true, random.u8(..4) > 0],
            saves_are_cheap: random.bool(),
            piece_max: [PAGE, 3 * PAGE, 1024, 1024][random.usize(..4)],
            window_max: [0, 2, 4, 8][random.usize(..4)],
            busy_one_in: [0, 0, 8, 64][random.usize(..4)],
        }
    }
}
