//! Far memory as forked children see it: which of their bytes are where.
//!
//! A *snapshot* is far memory as it was when a child was forked. What was in the regions then the kernel shows the child. The
//! rest was at the memory server, and still is as long as nothing is written there. Before a chunk is written back or
//! discarded for the first time after a fork, what the server has of it is copied, into the copies of the *youngest*
//! snapshot: an older one without a copy of its own needs the same bytes, for the chunk was not written since that began. So a
//! copy is made once, however many children live.

use std::collections::{BTreeMap, HashMap, VecDeque};

/// The number of a snapshot: younger ones have higher numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SnapshotId(u64);

/// A chunk, by the number of its region and its own.
type ChunkName = (u32, u32);

/// The copy of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkCopy {
    /// It was zero.
    Zeros,
    /// Its bytes were copied.
    Bytes,
}

/// Where the bytes of a chunk are that a snapshot had at a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptAt {
    /// Nowhere: they are zero.
    Zeros,
    /// Among the copies of this snapshot.
    Copy(SnapshotId),
    /// Where they were: the chunk was not written since.
    Server,
    /// In the memory of the child, unless that has thrown them away.
    Child,
}

#[derive(Debug, Default)]
struct Layer {
    copies: HashMap<ChunkName, ChunkCopy>,
    /// The chunks all of which were in their regions, so that no copy of them is needed.
    here: Vec<ChunkName>,
    is_sorted: bool,
}

/// All snapshots that a child needs, or an older snapshot looks into.
#[derive(Debug, Default)]
pub struct Snapshots {
    layers: VecDeque<Layer>,
    /// How many there have been before the first that is here.
    gone: u64,
    /// How many children see each.
    living: BTreeMap<SnapshotId, u32>,
}

impl Snapshots {
    /// A child is forked. `here` are chunks all of which are in their regions: they are left out only if no other child lives,
    /// who might need a copy.
    pub fn begin(&mut self, here: Vec<ChunkName>) -> SnapshotId {
        debug_assert!(here.is_empty() || self.living.is_empty());
        self.layers.push_back(Layer { here, ..Layer::default() });
        let id = SnapshotId(self.gone + self.layers.len() as u64 - 1);
        self.living.insert(id, 1);
        id
    }

    /// Whether no child lives.
    pub fn is_empty(&self) -> bool {
        self.living.is_empty()
    }

    /// The snapshot that new copies are of.
    pub fn youngest(&self) -> Option<SnapshotId> {
        (!self.living.is_empty()).then(|| SnapshotId(self.gone + self.layers.len() as u64 - 1))
    }

    /// Whether a child lives that needs what belongs to a snapshot.
    pub fn needs(&self, id: SnapshotId) -> bool {
        self.living.first_key_value().is_some_and(|(oldest, _)| *oldest <= id)
    }

    /// A child has ended. Returns the snapshots whose copies are of no use any more.
    pub fn end(&mut self, id: SnapshotId) -> Vec<SnapshotId> {
        if let Some(count) = self.living.get_mut(&id) {
            *count -= 1;
            if *count == 0 {
                self.living.remove(&id);
            }
        }
        let oldest = self.living.first_key_value().map(|(oldest, _)| *oldest);
        let mut ended = Vec::new();
        while !self.layers.is_empty() && oldest.is_none_or(|oldest| SnapshotId(self.gone) < oldest) {
            self.layers.pop_front();
            ended.push(SnapshotId(self.gone));
            self.gone += 1;
        }
        ended
    }

    /// A chunk was copied for a snapshot. Returns false if that is not the youngest any more: then it has to be copied again.
    pub fn keep(&mut self, id: SnapshotId, chunk: ChunkName, kept: ChunkCopy) -> bool {
        let is_youngest = self.youngest() == Some(id);
        if is_youngest && let Some(layer) = self.layers.back_mut() {
            layer.copies.entry(chunk).or_insert(kept);
        }
        is_youngest
    }

    /// Where the bytes are that a chunk had at its server when a child was forked.
    pub fn find(&mut self, id: SnapshotId, chunk: ChunkName) -> KeptAt {
        let Some(first) = id.0.checked_sub(self.gone) else { return KeptAt::Server };
        for (at, layer) in self.layers.iter_mut().enumerate().skip(first as usize) {
            match layer.copies.get(&chunk).copied() {
                Some(ChunkCopy::Zeros) => return KeptAt::Zeros,
                Some(ChunkCopy::Bytes) => return KeptAt::Copy(SnapshotId(self.gone + at as u64)),
                None if layer.has(chunk) && at as u64 == first => return KeptAt::Child,
                None => {}
            }
        }
        KeptAt::Server
    }
}

impl Layer {
    fn has(&mut self, chunk: ChunkName) -> bool {
        if !self.is_sorted {
            // Not when the process forks: most children run another program and never ask.
            self.here.sort_unstable();
            self.is_sorted = true;
        }
        self.here.binary_search(&chunk).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNKS: u32 = 12;

    /// A server, its copies and the children that look at them.
    #[derive(Default)]
    struct Model {
        snapshots: Snapshots,
        server: HashMap<u32, u64>,
        unkept: Vec<bool>,
        copies: HashMap<(SnapshotId, u32), u64>,
        children: Vec<(SnapshotId, HashMap<u32, u64>)>,
    }

    impl Model {
        fn fork(&mut self) {
            let id = self.snapshots.begin(Vec::new());
            self.unkept = vec![true; CHUNKS as usize];
            self.children.push((id, self.server.clone()));
        }

        fn write(&mut self, chunk: u32, value: u64) {
            if let Some(youngest) = self.snapshots.youngest()
                && std::mem::take(&mut self.unkept[chunk as usize])
            {
                let now = self.server.get(&chunk).copied();
                let kept = if now.is_some() { ChunkCopy::Bytes } else { ChunkCopy::Zeros };
                assert!(self.snapshots.keep(youngest, (1, chunk), kept));
                if let Some(now) = now {
                    assert!(self.copies.insert((youngest, chunk), now).is_none());
                }
            }
            self.server.insert(chunk, value);
        }

        fn end(&mut self, at: usize) {
            let (id, _) = self.children.swap_remove(at);
            for ended in self.snapshots.end(id) {
                self.copies.retain(|(of, _), _| *of != ended);
            }
        }

        fn check(&mut self) {
            for (id, expected) in &self.children {
                for chunk in 0..CHUNKS {
                    let found = match self.snapshots.find(*id, (1, chunk)) {
                        KeptAt::Zeros => None,
                        KeptAt::Copy(of) => Some(self.copies[&(of, chunk)]),
                        KeptAt::Server => self.server.get(&chunk).copied(),
                        KeptAt::Child => panic!("it was not here"),
                    };
                    assert_eq!(found, expected.get(&chunk).copied(), "chunk {chunk} of {id:?}");
                }
            }
        }
    }

    #[test]
    fn every_child_sees_what_was_there_when_it_was_forked() {
        for seed in 0..200 {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut model = Model::default();
            for value in 0..300 {
                match random.u32(..10) {
                    0 if model.children.len() < 5 => model.fork(),
                    1 if !model.children.is_empty() => model.end(random.usize(..model.children.len())),
                    _ => model.write(random.u32(..CHUNKS), value),
                }
                model.check();
            }
            while !model.children.is_empty() {
                model.end(0);
                model.check();
            }
            assert!(model.copies.is_empty() && model.snapshots.is_empty(), "seed {seed}");
        }
    }

    #[test]
    fn a_copy_that_was_begun_before_a_fork_is_made_again() {
        let mut snapshots = Snapshots::default();
        let older = snapshots.begin(vec![(1, 7), (1, 3)]);
        assert_eq!(snapshots.find(older, (1, 3)), KeptAt::Child);
        assert_eq!(snapshots.find(older, (2, 3)), KeptAt::Server);
        let younger = snapshots.begin(Vec::new());
        assert!(!snapshots.keep(older, (1, 5), ChunkCopy::Bytes));
        assert!(snapshots.keep(younger, (1, 5), ChunkCopy::Bytes));
        assert_eq!(snapshots.find(older, (1, 5)), KeptAt::Copy(younger));
        assert!(snapshots.needs(older) && snapshots.needs(younger));
        // The younger one's copies are of use as long as the older one lives.
        assert_eq!(snapshots.end(younger), []);
        assert_eq!(snapshots.find(older, (1, 5)), KeptAt::Copy(younger));
        assert_eq!(snapshots.end(older), [older, younger]);
        assert!(snapshots.is_empty() && snapshots.youngest().is_none() && !snapshots.needs(younger));
    }
}
