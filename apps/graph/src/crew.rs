//! The workers on their way through a graph.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::prefetch::Ahead;
use crate::{Step, StepProgress, Sweeps, Workers};

/// Who does the work and who watches, whatever the kind of memory.
pub(crate) struct Crew<'a> {
    pub(crate) workers: &'a Workers,
    progress: &'a dyn StepProgress,
    sweeps: Sweeps,
    /// Whether the next sweep goes downwards.
    is_back: AtomicBool,
}

impl<'a> Crew<'a> {
    pub(crate) fn new(workers: &'a Workers, progress: &'a dyn StepProgress, sweeps: Sweeps) -> Self {
        Self { workers, progress, sweeps, is_back: AtomicBool::new(false) }
    }

    /// Says that a step begins whose number of edges is unknown.
    pub(crate) fn step(&self, what: &'static str, number: u32) {
        self.progress.step(Step { what, number, of: None, edges: None });
    }

    /// Says that one of several iterations begins, each over all edges.
    pub(crate) fn iteration(&self, number: u32, of: u32, edges: usize) {
        let (of, edges) = (Some(of), Some(edges as u64));
        self.progress.step(Step { what: "iteration", number, of, edges });
    }

    /// Walks pieces of a frontier, in ascending order; `work` returns how many edges it has walked. Each worker
    /// that took part keeps a result of its own, given back in no particular order.
    pub(crate) fn walk<R: Send>(
        &self,
        (pieces, ahead): (usize, Ahead<'_>),
        begin: impl Fn() -> R + Sync,
        work: impl Fn(&mut R, usize) -> u64 + Sync,
    ) -> Vec<R> {
        self.workers.gather(pieces, begin, |result, piece| {
            ahead.taken(piece, pieces, Ahead::tell);
            let walked = work(result, piece);
            self.progress.walked(walked);
        })
    }

    /// Walks blocks of the whole graph, in ascending order or from the last to the first.
    pub(crate) fn sweep<R: Send>(
        &self,
        (blocks, ahead): (usize, Ahead<'_>),
        begin: impl Fn() -> R + Sync,
        work: impl Fn(&mut R, usize) -> u64 + Sync,
    ) -> Vec<R> {
        let turns = self.sweeps == Sweeps::BackAndForth;
        let is_back = turns && self.is_back.fetch_not(Ordering::Relaxed);
        self.walk((blocks, Ahead::none()), begin, |result, piece| {
            ahead.taken(piece, blocks, |ahead, pieces| match is_back {
                true => ahead.tell(blocks - pieces.end..blocks - pieces.start),
                false => ahead.tell(pieces),
            });
            work(result, if is_back { blocks - 1 - piece } else { piece })
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    struct Walked(AtomicU64);

    impl StepProgress for Walked {
        fn walked(&self, edges: u64) {
            self.0.fetch_add(edges, Ordering::Relaxed);
        }
    }

    #[test]
    fn sweeps_turn_around_only_if_asked_to() {
        let workers = Workers::new(1).unwrap();
        for (sweeps, second) in [(Sweeps::Upwards, [0, 1, 2]), (Sweeps::BackAndForth, [2, 1, 0])] {
            let walked = Walked(AtomicU64::new(0));
            let crew = Crew::new(&workers, &walked, sweeps);
            let sweep = || {
                let blocks = crew.sweep((3, Ahead::none()), Vec::new, |blocks, block| {
                    blocks.push(block);
                    10
                });
                blocks.concat()
            };
            assert_eq!((sweep(), sweep(), sweep()), (vec![0, 1, 2], second.to_vec(), vec![0, 1, 2]));
            assert_eq!(walked.0.into_inner(), 90);
        }
    }
}
