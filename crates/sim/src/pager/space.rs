//! The memory of the application: chunks in their regions, and the frames that they are moved from and to.
//!
//! As with pages that are moved, bytes are in one place at a time. What is left behind is rubbish, so that whoever
//! looks there all the same finds something else than what was stored.

use std::collections::BTreeMap;

use outboard_link::memory::Buffer;
use outboard_paging::pager::{ChunkKey, Frame, SizeClass};

use super::layout::{PAGE, PLANS, WORD};
use crate::Recorder;

const RUBBISH: u8 = 0xee;

/// The frames of one size in one shard.
struct Pool {
    buffer: Buffer,
    /// Which chunk was moved from each frame into its region.
    lent: Vec<Option<ChunkKey>>,
}

/// The memory of the application.
pub(super) struct Space {
    recorder: Recorder,
    /// Chunks in their regions.
    resident: BTreeMap<ChunkKey, Vec<u8>>,
    /// By shard and size.
    pools: Vec<Pool>,
}

impl Space {
    pub(super) fn new(recorder: Recorder, shards: usize, budget: usize) -> Self {
        let pool = |class: SizeClass| {
            let frames = budget / class.bytes();
            // Without some pages of memory there is nothing to simulate.
            let buffer = Buffer::allocate(frames * class.bytes()).expect("some pages of memory");
            Pool { buffer, lent: vec![None; frames] }
        };
        let pools = (0..shards).flat_map(|_| PLANS.iter().map(|plan| pool(plan.class))).collect();
        Self { recorder, resident: BTreeMap::new(), pools }
    }

    fn pool(&mut self, shard: usize, frame: Frame) -> &mut Pool {
        let class = PLANS.iter().position(|plan| plan.class == frame.class);
        &mut self.pools[shard * PLANS.len() + class.expect("chunks are of known sizes")]
    }

    /// The memory that a frame is part of, and where it begins.
    pub(super) fn buffer(&mut self, shard: usize, frame: Frame) -> (Buffer, usize) {
        let pool = self.pool(shard, frame);
        assert!((frame.slot as usize) < pool.lent.len(), "{frame:?} is beyond its pool");
        (pool.buffer.clone(), frame.slot as usize * frame.class.bytes())
    }

    fn copy(&mut self, shard: usize, frame: Frame) -> Vec<u8> {
        let (buffer, at) = self.buffer(shard, frame);
        buffer.window().part(at, frame.class.bytes()).to_vec()
    }

    fn fill(&mut self, shard: usize, frame: Frame, bytes: &[u8]) {
        let (buffer, at) = self.buffer(shard, frame);
        buffer.window_mut().part(at, bytes.len()).write(0, bytes);
    }

    /// One page of a frame.
    pub(super) fn page(&mut self, shard: usize, frame: Frame, page: usize) -> Vec<u8> {
        let (buffer, at) = self.buffer(shard, frame);
        buffer.window().part(at + page * PAGE, PAGE).to_vec()
    }

    /// The end of a frame, behind the end of the region, is empty.
    pub(super) fn clear(&mut self, shard: usize, frame: Frame, from: usize) {
        let (buffer, at) = self.buffer(shard, frame);
        let len = frame.class.bytes() - from;
        buffer.window_mut().part(at + from, len).write(0, &vec![0; len]);
    }

    /// Moves a chunk from its frame into its region.
    pub(super) fn move_in(&mut self, shard: usize, frame: Frame, key: ChunkKey) {
        let bytes = self.copy(shard, frame);
        let lent = self.pool(shard, frame).lent[frame.slot as usize].replace(key);
        self.recorder
            .expect(lent.is_none(), || format!("{frame:?} has no bytes for {key:?}: {lent:?} has them"));
        self.fill(shard, frame, &vec![RUBBISH; bytes.len()]);
        let there = self.resident.insert(key, bytes);
        self.recorder.expect(there.is_none(), || format!("{key:?} is moved to where it is already"));
    }

    /// Moves a chunk from its region into its frame.
    pub(super) fn move_out(&mut self, shard: usize, frame: Frame, key: ChunkKey) {
        let lent = self.pool(shard, frame).lent[frame.slot as usize].take();
        self.recorder.expect(lent == Some(key), || format!("{frame:?} is of {lent:?}, not of {key:?}"));
        match self.resident.remove(&key) {
            Some(bytes) => self.fill(shard, frame, &bytes),
            None => self.recorder.fail(format!("{key:?} is moved from where it is not")),
        }
    }

    /// The region of a chunk is unmapped, and its bytes are gone.
    pub(super) fn unmap(&mut self, shard: usize, frame: Frame, key: ChunkKey) {
        self.move_out(shard, frame, key);
        self.fill(shard, frame, &vec![RUBBISH; frame.class.bytes()]);
    }

    /// A frame's memory is given back.
    pub(super) fn discard(&mut self, shard: usize, frame: Frame) {
        let lent = self.pool(shard, frame).lent[frame.slot as usize];
        self.recorder.expect(lent.is_none(), || format!("{frame:?} is given back while {lent:?} is of it"));
        self.fill(shard, frame, &vec![0; frame.class.bytes()]);
    }

    /// What a thread finds at a place; nothing if it has to wait for it.
    pub(super) fn load(&self, key: ChunkKey, offset: usize) -> Option<u64> {
        let bytes = self.resident.get(&key)?[offset..].first_chunk::<WORD>()?;
        Some(u64::from_le_bytes(*bytes))
    }

    /// Stores a word, if its chunk is there.
    pub(super) fn store(&mut self, key: ChunkKey, offset: usize, value: u64) {
        if let Some(bytes) = self.resident.get_mut(&key) {
            bytes[offset..offset + WORD].copy_from_slice(&value.to_le_bytes());
        }
    }

    pub(super) fn is_resident(&self, key: ChunkKey) -> bool {
        self.resident.contains_key(&key)
    }

    /// How many chunks are in their regions.
    pub(super) fn residents(&self) -> usize {
        self.resident.len()
    }

    /// Whether a frame has no bytes because its chunk is in the region.
    pub(super) fn is_lent(&mut self, shard: usize, frame: Frame, key: ChunkKey) -> bool {
        self.pool(shard, frame).lent[frame.slot as usize] == Some(key)
    }

    /// How many frames have their chunks in regions.
    pub(super) fn lent(&self) -> usize {
        self.pools.iter().map(|pool| pool.lent.iter().flatten().count()).sum()
    }
}
