//! The threads that load and store words, and wait where a chunk is absent.

use std::collections::VecDeque;
use std::time::Duration;

use fastrand::Rng;
use outboard_paging::pager::{Access, ChunkKey};
use outboard_wire::Time;

use super::layout::{PLANS, REGIONS};
use super::pages::Pages;

/// How many words a thread touches without pause, at most.
const BURST: usize = 6;

/// Which part of a region many threads use.
const HOT: usize = 8;

/// What a thread is about to do.
#[derive(Clone, Copy)]
struct Step {
    region: usize,
    word: usize,
    access: Access,
}

/// One thread.
struct Walker {
    region: usize,
    word: usize,
    /// In words; threads that go on by the same stride are read ahead of.
    stride: isize,
    step: Option<Step>,
    /// The chunk that it waits for.
    waits_for: Option<ChunkKey>,
    next_at: Time,
}

/// All threads, and the faults of theirs that nobody has looked at.
pub(super) struct Walkers {
    walkers: Vec<Walker>,
    pub(super) faults: VecDeque<(ChunkKey, Access)>,
    random: Rng,
    /// How long one pauses at most, in microseconds.
    pause_max: u64,
    /// When they stop.
    until: Time,
}

impl Walkers {
    pub(super) fn new(count: usize, mut random: Rng, now: Time, until: Time) -> Self {
        let walker = || Walker { region: 0, word: 0, stride: 1, step: None, waits_for: None, next_at: now };
        let walkers = std::iter::repeat_with(walker).take(count).collect();
        let pause_max = [150, 800, 3000][random.usize(..3)];
        Self { walkers, faults: VecDeque::new(), random, pause_max, until }
    }

    /// Lets the threads run whose time has come. Returns whether there was one.
    pub(super) fn run(&mut self, now: Time, pages: &mut Pages) -> bool {
        let mut any = false;
        for index in 0..self.walkers.len() {
            if self.walkers[index].waits_for.is_none() && self.walkers[index].next_at <= now {
                any |= self.walk(index, now, pages);
            }
        }
        any
    }

    fn walk(&mut self, index: usize, now: Time, pages: &mut Pages) -> bool {
        for _ in 0..self.random.usize(1..=BURST) {
            let walker = &mut self.walkers[index];
            let Some(step) =
                walker.step.or_else(|| (now < self.until).then(|| choose(walker, &mut self.random, pages)))
            else {
                walker.next_at = Time::MAX;
                return false;
            };
            walker.step = Some(step);
            if pages.mappings[step.region].is_leaving {
                break;
            }
            match pages.touch(step.region, step.word, step.access) {
                Ok(key) => {
                    walker.step = None;
                    // Some say that they will not come back, and some of them do.
                    if step.access == Access::Write && self.random.u8(..6) == 0 {
                        pages.dismiss(key);
                    }
                }
                Err(absent) => {
                    walker.waits_for = Some(absent);
                    self.faults.push_back((absent, step.access));
                    return true;
                }
            }
        }
        let pause = self.random.u64(1..self.pause_max);
        self.walkers[index].next_at = now + Duration::from_micros(pause);
        true
    }

    /// Whoever waits for a chunk tries again.
    pub(super) fn wake(&mut self, key: ChunkKey, now: Time) {
        for walker in self.walkers.iter_mut().filter(|walker| walker.waits_for == Some(key)) {
            walker.waits_for = None;
            let late = if self.random.bool() { 0 } else { self.random.u64(..3000) };
            walker.next_at = now + Duration::from_nanos(late);
        }
    }

    /// What they wait for.
    pub(super) fn waiting(&self) -> Vec<ChunkKey> {
        self.walkers.iter().filter_map(|walker| walker.waits_for).collect()
    }

    /// Whether a thread waits for something in a mapping.
    pub(super) fn waits_in(&self, number: u32) -> bool {
        self.walkers.iter().filter_map(|walker| walker.waits_for).any(|key| key.region == number)
    }

    /// Whether they have all stopped.
    pub(super) fn are_done(&self) -> bool {
        self.walkers.iter().all(|walker| walker.waits_for.is_none() && walker.next_at == Time::MAX)
    }

    /// When one of them runs next.
    pub(super) fn next_at(&self) -> Option<Time> {
        let ready = self.walkers.iter().filter(|walker| walker.waits_for.is_none());
        ready.map(|walker| walker.next_at).filter(|at| *at < Time::MAX).min()
    }
}

/// Where a thread goes next: mostly on, now and then elsewhere.
fn choose(walker: &mut Walker, random: &mut Rng, pages: &Pages) -> Step {
    if random.u8(..24) == 0 {
        walker.region = random.usize(..REGIONS);
        walker.word = random.usize(..PLANS[walker.region].words());
        walker.stride = [0, 0, 1, 16, 16, 64, -16, 128, -128][random.usize(..9)];
    }
    let words = PLANS[walker.region].words();
    walker.word = match walker.stride {
        // What all come back to again and again is changed again while it is saved.
        0 if random.bool() => random.usize(..words / HOT),
        0 => random.usize(..words),
        stride => (walker.word as isize + stride).rem_euclid(words as isize) as usize,
    };
    let writes = pages.is_writable(walker.region) && random.u8(..3) == 0;
    let access = if writes { Access::Write } else { Access::Read };
    Step { region: walker.region, word: walker.word, access }
}
