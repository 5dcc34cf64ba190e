//! Jobs whose operations are under way, by numbers that come back with the answers.

use super::jobs::Job;

/// How many pieces a chunk is moved in, at most.
const PIECE_BITS: u32 = 10;

/// Jobs under way.
#[derive(Default)]
pub(super) struct Flight {
    jobs: Vec<Option<Job>>,
    free: Vec<u32>,
}

/// What an answer belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tag {
    pub(super) slot: u32,
    pub(super) piece: u32,
}

impl Tag {
    pub(super) fn encode(self) -> u32 {
        self.slot << PIECE_BITS | self.piece
    }

    pub(super) fn decode(bits: u32) -> Self {
        Self { slot: bits >> PIECE_BITS, piece: bits & ((1 << PIECE_BITS) - 1) }
    }
}

impl Flight {
    /// Room for this many jobs, so that none is allocated for later.
    pub(super) fn with_capacity(jobs: usize) -> Self {
        Self { jobs: Vec::with_capacity(jobs), free: Vec::with_capacity(jobs) }
    }

    pub(super) fn insert(&mut self, job: Job) -> u32 {
        match self.free.pop() {
            Some(slot) => {
                self.jobs[slot as usize] = Some(job);
                slot
            }
            None => {
                self.jobs.push(Some(job));
                (self.jobs.len() - 1) as u32
            }
        }
    }

    pub(super) fn get(&mut self, slot: u32) -> Option<&mut Job> {
        self.jobs.get_mut(slot as usize)?.as_mut()
    }

    pub(super) fn remove(&mut self, slot: u32) -> Option<Job> {
        let job = self.jobs.get_mut(slot as usize)?.take()?;
        self.free.push(slot);
        Some(job)
    }

    pub(super) fn len(&self) -> usize {
        self.jobs.len() - self.free.len()
    }

    /// The numbers of all jobs.
    pub(super) fn slots(&self) -> impl Iterator<Item = u32> + use<> {
        0..self.jobs.len() as u32
    }
}
