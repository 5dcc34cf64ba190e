//! The threads that walk a graph.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rayon::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};

/// A fixed number of threads that take pieces of work in order.
///
/// All of them take from one counter instead of stealing from each other's halves: a free thread takes the next
/// piece, so that the work is as well balanced, and at any time the workers are at neighbouring pieces of an
/// array. Far memory is then read in one stream instead of one per worker.
#[derive(Debug)]
pub struct Workers {
    pool: ThreadPool,
}

/// There are no such threads.
#[derive(Debug, thiserror::Error)]
pub enum WorkersError {
    /// No thread would do the work.
    #[error("a graph application needs at least 1 thread")]
    None,
    /// More than can be useful.
    #[error("{asked} threads are more than the {} that are possible", Workers::MOST)]
    TooMany {
        /// How many were wanted.
        asked: usize,
    },
    /// The system did not start them.
    #[error("cannot start {asked} threads")]
    NotStarted {
        /// How many were wanted.
        asked: usize,
        /// Why not.
        source: ThreadPoolBuildError,
    },
}

/// What waking a few threads takes.
const ALONE: Duration = Duration::from_micros(30);

impl Workers {
    /// The largest number of threads.
    pub const MOST: usize = 4096;

    /// Starts them. They end with this value.
    pub fn new(threads: usize) -> Result<Self, WorkersError> {
        match threads {
            0 => return Err(WorkersError::None),
            _ if threads > Self::MOST => return Err(WorkersError::TooMany { asked: threads }),
            _ => {}
        }
        let named = ThreadPoolBuilder::new().num_threads(threads).thread_name(|n| format!("graph-{n}"));
        let pool = named.build().map_err(|source| WorkersError::NotStarted { asked: threads, source })?;
        Ok(Self { pool })
    }

    /// How many there are.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.pool.current_num_threads()
    }

    /// Does all pieces of work.
    pub(crate) fn each(&self, pieces: usize, work: impl Fn(usize) + Sync) {
        self.gather(pieces, || (), |(), piece| work(piece));
    }

    /// Does something with each of a few vertices.
    pub(crate) fn each_of(&self, vertices: &[u32], work: impl Fn(u32) + Sync) {
        // Each of them may be a wait for far memory.
        const TOGETHER: usize = 256;
        self.each(vertices.len().div_ceil(TOGETHER), |piece| {
            let begin = piece * TOGETHER;
            let end = vertices.len().min(begin + TOGETHER);
            vertices[begin..end].iter().for_each(|vertex| work(*vertex));
        });
    }

    /// Does all pieces of work; each worker that took part keeps a result of its own, given back in no
    /// particular order.
    pub(crate) fn gather<R: Send>(
        &self,
        pieces: usize,
        begin: impl Fn() -> R + Sync,
        work: impl Fn(&mut R, usize) + Sync,
    ) -> Vec<R> {
        let next = AtomicUsize::new(0);
        let take = || Some(next.fetch_add(1, Ordering::Relaxed)).filter(|piece| *piece < pieces);
        // The caller begins alone. In ordinary memory a small frontier is done before a thread could wake up; with
        // the first wait for far memory it is time to wake them.
        let begun = Instant::now();
        let mut own = begin();
        while let Some(piece) = take() {
            work(&mut own, piece);
            if self.threads() > 1 && begun.elapsed() > ALONE {
                break;
            }
        }
        let left = pieces.saturating_sub(next.load(Ordering::Relaxed));
        let results = Mutex::new(vec![own]);
        let help = || {
            let mut result = begin();
            while let Some(piece) = take() {
                work(&mut result, piece);
            }
            lock(&results).push(result);
        };
        self.pool.in_place_scope(|scope| {
            (0..left.min(self.threads())).for_each(|_| scope.spawn(|_| help()));
        });
        results.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Work that panics does so before it has the lock: what is behind it is whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_piece_is_done_once() {
        for threads in [1, 3] {
            let workers = Workers::new(threads).unwrap();
            assert_eq!(workers.threads(), threads);
            for pieces in [0, 1, 2, 1000] {
                let done = workers.gather(pieces, Vec::new, |mine, piece| mine.push(piece));
                assert!(done.len() <= threads + 1);
                let mut done = done.concat();
                done.sort_unstable();
                assert_eq!(done, Vec::from_iter(0..pieces));

                let vertices = Vec::from_iter(0..pieces as u32);
                let sum = AtomicUsize::new(0);
                workers.each_of(&vertices, |vertex| _ = sum.fetch_add(vertex as usize, Ordering::Relaxed));
                assert_eq!(sum.into_inner(), (0..pieces).sum::<usize>());
            }
        }
    }

    #[test]
    fn while_one_worker_waits_others_go_on() {
        let workers = Workers::new(3).unwrap();
        // After the first, three pieces end only when all three are under way.
        let all_there = std::sync::Barrier::new(3);
        workers.each(5, |piece| {
            if piece == 0 {
                let begun = Instant::now();
                while begun.elapsed() <= ALONE {}
            } else if piece < 4 {
                all_there.wait();
            }
        });
    }

    #[test]
    fn a_panic_in_the_work_comes_out() {
        let workers = Workers::new(2).unwrap();
        for bad in [0, 99] {
            let work = || workers.each(100, |piece| assert_ne!(piece, bad));
            assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).is_err());
        }
        workers.each(10, |_| ());
    }

    #[test]
    fn absurd_numbers_of_threads_are_refused() {
        assert!(matches!(Workers::new(0), Err(WorkersError::None)));
        assert!(matches!(Workers::new(usize::MAX), Err(WorkersError::TooMany { .. })));
    }
}
