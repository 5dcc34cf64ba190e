//! Faults that the thread which touches absent memory answers itself, before it goes on.
//!
//! It runs in a signal handler, in the middle of whatever that thread was doing: it allocates nothing, and takes only locks
//! that no thread holds while a handler may interrupt it. What needs a link is left to fault threads.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use outboard_wire::Time;

use super::chunks::State;
use super::faults::Outcome;
use super::jobs::Job;
use super::pager::Pager;
use super::pages::{Chore, Pages};
use super::readahead::Ahead;
use super::region::{PagedRegion, Path};
use super::space::{Fault, PageSpace, ProcessAddress};

/// The next step of a thread that has tried to answer its own fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InPlace {
    /// It touches the memory again.
    Again,
    /// Other threads bring the chunk: it waits until one has come, and touches the memory again.
    Wait,
    /// The bytes are lost for good: the signal is the program's.
    Lost,
}

/// How much may be left to fault threads at once; more waits where it is.
const LEFT_MAX: usize = 64;

/// The work that threads that answered their own faults have left to fault threads.
pub(super) struct Left {
    is_something: AtomicBool,
    all: Mutex<LeftWork>,
}

struct LeftWork {
    jobs: VecDeque<Job>,
    ahead: VecDeque<(Arc<PagedRegion>, Ahead)>,
}

impl Default for Left {
    fn default() -> Self {
        let (jobs, ahead) = (VecDeque::with_capacity(LEFT_MAX), VecDeque::with_capacity(LEFT_MAX));
        Self { is_something: AtomicBool::new(false), all: Mutex::new(LeftWork { jobs, ahead }) }
    }
}

impl Left {
    fn lock(&self) -> MutexGuard<'_, LeftWork> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: PageSpace> Pages<S> {
    /// Whether an address lies in this far memory.
    pub fn has(&self, address: ProcessAddress) -> bool {
        self.find(address).is_some()
    }

    /// Answers a fault of the calling thread, as far as that takes no link.
    pub fn answer_in_place(&self, fault: Fault) -> InPlace {
        let answer = match self.fault(fault) {
            Outcome::Settled if self.was_thrown_away(fault.address) => InPlace::Lost,
            Outcome::Settled => InPlace::Again,
            Outcome::Lost => InPlace::Lost,
            Outcome::Waits => InPlace::Wait,
            Outcome::Fetch(job) => self.fetch_in_place(job),
        };
        if let Some((region, index)) = self.find(fault.address) {
            let page = region.page_at(fault.address);
            for ahead in self.touched(&region, index, page).into_iter().flatten() {
                let mut left = self.left.lock();
                if left.ahead.len() < LEFT_MAX {
                    left.ahead.push_back((Arc::clone(&region), ahead));
                    drop(left);
                    self.call_threads();
                }
            }
            let shard = self.shard_of(region.key(index));
            let shelf = &self.shelves[shard];
            // Fault threads have no turn here that would do it, and to wake one costs more.
            if shelf.has(Chore::Sample) {
                self.sample(shard);
            }
            if shelf.has(Chore::Save) || shelf.has(Chore::Unpark) {
                self.space.call();
            }
        }
        answer
    }

    /// Whether a page has been found to be thrown away before. Not every kernel says by the signal that it is poisoned.
    fn was_thrown_away(&self, address: ProcessAddress) -> bool {
        let Some((region, index)) = self.find(address) else { return false };
        if !region.has_hole.load(Ordering::Acquire) {
            return false;
        }
        let page = address.page(self.space.page_bytes());
        let cell = self.shelves[self.shard_of(region.key(index))].lock();
        let Some(key) = self.parts(&cell, &region, index, page).next() else { return false };
        let is_here = matches!(cell.shard.state(key), State::Resident | State::Returned);
        is_here && region.place(key, &cell).is_some_and(|place| !self.space.is_present(place.part(page)))
    }

    fn fetch_in_place(&self, job: Job) -> InPlace {
        // An agent that knows the region may be the better way, which a fault thread decides.
        let is_by_agent =
            job.region.spec.path != Path::Direct && job.region.answered_by_agents.load(Ordering::Acquire) > 0;
        let left = if is_by_agent { Some(job) } else { self.fetch_at_once(job, Time::ZERO) };
        let Some(job) = left else { return InPlace::Again };
        let mut left = self.left.lock();
        if left.jobs.len() < LEFT_MAX {
            left.jobs.push_back(job);
            drop(left);
            self.call_threads();
        } else {
            drop(left);
            self.fetch_failed(&job);
        }
        InPlace::Wait
    }

    fn call_threads(&self) {
        self.left.is_something.store(true, Ordering::Release);
        self.space.call();
    }
}

impl<S: PageSpace> Pager<S> {
    /// Does what threads that answered their own faults have left. Returns whether there was any.
    pub(super) fn take_left(&mut self) -> bool {
        if !self.pages.left.is_something.swap(false, Ordering::AcqRel) {
            return false;
        }
        let pages = Arc::clone(&self.pages);
        loop {
            let mut left = pages.left.lock();
            let (job, ahead) = (left.jobs.pop_front(), left.ahead.pop_front());
            drop(left);
            if job.is_none() && ahead.is_none() {
                return true;
            }
            if let Some(job) = job {
                self.dispatch(job);
            }
            if let Some((region, ahead)) = ahead {
                self.fetch_all_ahead(&region, ahead);
            }
        }
    }
}
