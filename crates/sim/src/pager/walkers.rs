//! The threads that load and store words, and wait where a page is absent.

use std::time::Duration;

use fastrand::Rng;
use outboard_paging::application::{InPlace, ProcessAddress, Span, Whereabouts};
use outboard_wire::Time;

use super::application::Far;
use super::layout::{OBJECTS, PLANS, Shape, WORD};
use super::space::Touched;

/// How many words a thread touches without pause, at most.
const BURST: usize = 6;
/// Which part of an object many threads use.
const HOT: usize = 8;
/// How long a thread waits before it looks again for what it does not touch.
const LOOK: Duration = Duration::from_micros(300);

/// The next step of a thread.
#[derive(Clone, Copy)]
struct Step {
    object: usize,
    word: usize,
    stores: bool,
    /// Whether it would rather have an error than wait in a page fault.
    tries: bool,
}

/// How a step ended.
enum End {
    Done,
    /// The thread tries again at once.
    Again,
    /// The thread waits at an address until it is woken.
    Waits(ProcessAddress),
    /// The thread looks again later.
    Later,
}

/// One thread.
struct Walker {
    object: usize,
    word: usize,
    /// In words; threads that go on by the same stride are read ahead of.
    stride: isize,
    step: Option<Step>,
    waits_at: Option<ProcessAddress>,
    next_at: Time,
}

/// All threads.
pub(super) struct Walkers {
    walkers: Vec<Walker>,
    random: Rng,
    /// How long one pauses at most, in microseconds.
    pause_max: u64,
    /// When they stop.
    until: Time,
    /// Whether they answer their own faults.
    in_place: bool,
    /// How often one was told that what it wanted is lost.
    pub(super) told_of_loss: u64,
}

impl Walkers {
    pub(super) fn new(shape: &Shape, mut random: Rng, now: Time, until: Time) -> Self {
        let walker = || Walker { object: 0, word: 0, stride: 1, step: None, waits_at: None, next_at: now };
        let walkers = std::iter::repeat_with(walker).take(shape.walkers).collect();
        let pause_max = [150, 800, 3000][random.usize(..3)];
        Self { walkers, random, pause_max, until, in_place: shape.in_place, told_of_loss: 0 }
    }

    /// Lets the threads run whose time has come. Returns whether there was one.
    pub(super) fn run(&mut self, now: Time, far: &mut Far) -> bool {
        let mut any = false;
        for index in 0..self.walkers.len() {
            if self.walkers[index].waits_at.is_none() && self.walkers[index].next_at <= now {
                any |= self.walk(index, now, far);
            }
        }
        any
    }

    fn walk(&mut self, index: usize, now: Time, far: &mut Far) -> bool {
        for _ in 0..self.random.usize(1..=BURST) {
            let walker = &mut self.walkers[index];
            let may_begin = now < self.until;
            let Some(step) = walker.step.or_else(|| may_begin.then(|| choose(walker, &mut self.random, far)))
            else {
                walker.next_at = Time::MAX;
                return false;
            };
            walker.step = Some(step);
            if far.objects[step.object].is_leaving {
                break;
            }
            let end = if step.tries { self.try_step(step, far) } else { self.touch(step, far) };
            let walker = &mut self.walkers[index];
            match end {
                End::Done => walker.step = None,
                End::Again => {}
                End::Waits(address) => {
                    walker.waits_at = Some(address);
                    return true;
                }
                End::Later => {
                    walker.next_at = now + LOOK;
                    return true;
                }
            }
        }
        let pause = self.random.u64(1..self.pause_max);
        self.walkers[index].next_at = now + Duration::from_micros(pause);
        true
    }

    fn touch(&mut self, step: Step, far: &mut Far) -> End {
        let Step { object, word, stores, .. } = step;
        let address = far.objects[object].parts[0].start().plus(word * WORD);
        let store = stores.then(|| far.model.next());
        let touched = far.space().state().touch(address, store);
        match touched {
            Touched::Word(found) => {
                far.model.load(object, word, found);
                if stores {
                    far.model.store(object, word);
                    // Some say that they will not come back, and some of them do.
                    if self.random.u8(..6) == 0 {
                        let (part, chunk) = far.chunk_of(object, word);
                        far.pages.dont_need(&far.objects[object].parts[part], chunk, chunk + 1);
                    }
                }
            }
            Touched::Waits if self.in_place => match far.answer_in_place() {
                InPlace::Again => return End::Again,
                InPlace::Wait => return End::Waits(address),
                InPlace::Lost => self.is_told_of_loss(object, word, far),
            },
            Touched::Waits => return End::Waits(address),
            Touched::Lost => self.is_told_of_loss(object, word, far),
            Touched::Forbidden if far.is_writable(object) => {
                far.object_to(format!("object {object} may be written"));
            }
            Touched::Forbidden => {}
        }
        End::Done
    }

    fn is_told_of_loss(&mut self, object: usize, word: usize, far: &Far) {
        self.told_of_loss += 1;
        let part = far.model.part_of(object, word);
        if !far.objects[object].parts[part].is_lost() {
            far.object_to(format!("only what is lost is told to be, not word {word} of object {object}"));
        }
    }

    /// Has a chunk stay while it is used, without ever waiting in a fault.
    fn try_step(&mut self, step: Step, far: &mut Far) -> End {
        let Step { object, word, .. } = step;
        let (part, chunk) = far.chunk_of(object, word);
        let region = &far.objects[object].parts[part];
        let span = Span { start: far.objects[object].parts[0].start().plus(word * WORD), len: WORD };
        match far.pages.hold((region, chunk), span) {
            Whereabouts::Held => {
                let end = self.touch(step, far);
                far.pages.release((&far.objects[object].parts[part], chunk), span);
                if !matches!(end, End::Done) {
                    far.object_to("what is held is there".to_owned());
                }
            }
            Whereabouts::Lost => self.told_of_loss += 1,
            Whereabouts::ThrownAway => far.object_to("no walker has thrown anything away".to_owned()),
            Whereabouts::Coming => return End::Later,
            Whereabouts::Absent => {
                far.wanted.push((object, part, chunk));
                return End::Later;
            }
        }
        End::Done
    }

    /// Those who wait within a span try again.
    pub(super) fn wake(&mut self, span: Span, now: Time) {
        let is_inside = |walker: &&mut Walker| walker.waits_at.is_some_and(|at| span.contains(at));
        for walker in self.walkers.iter_mut().filter(is_inside) {
            walker.waits_at = None;
            let late = if self.random.bool() { 0 } else { self.random.u64(..3000) };
            walker.next_at = now + Duration::from_nanos(late);
        }
    }

    /// How many wait in a fault.
    pub(super) fn waiting(&self) -> usize {
        self.walkers.iter().filter(|walker| walker.waits_at.is_some()).count()
    }

    /// How many would rather have an error than wait, and have not got what they want.
    pub(super) fn trying(&self) -> u32 {
        let tries = |walker: &&Walker| walker.step.is_some_and(|step| step.tries);
        self.walkers.iter().filter(tries).count() as u32
    }

    /// Whether a thread waits within a span.
    pub(super) fn waits_in(&self, span: Span) -> bool {
        self.walkers.iter().any(|walker| walker.waits_at.is_some_and(|at| span.contains(at)))
    }

    /// Whether they have all stopped.
    pub(super) fn are_done(&self) -> bool {
        self.walkers.iter().all(|walker| walker.waits_at.is_none() && walker.next_at == Time::MAX)
    }

    /// When one of them runs next.
    pub(super) fn next_at(&self) -> Option<Time> {
        let ready = self.walkers.iter().filter(|walker| walker.waits_at.is_none());
        ready.map(|walker| walker.next_at).filter(|at| *at < Time::MAX).min()
    }
}

/// Where a thread goes next: mostly on, now and then elsewhere.
fn choose(walker: &mut Walker, random: &mut Rng, far: &Far) -> Step {
    if random.u8(..24) == 0 {
        walker.object = random.usize(..OBJECTS);
        walker.word = random.usize(..PLANS[walker.object].words());
        walker.stride = [0, 0, 1, 256, 512, 512, -512, 1024, -1024][random.usize(..9)];
    }
    let words = PLANS[walker.object].words();
    walker.word = match walker.stride {
        // Words that all come back to again and again are changed again while they are saved.
        0 if random.bool() => random.usize(..words / HOT),
        0 => random.usize(..words),
        stride => (walker.word as isize + stride).rem_euclid(words as isize) as usize,
    };
    // Now and then a walker stores where that is not allowed.
    let stores = random.u8(..if far.is_writable(walker.object) { 3 } else { 200 }) == 0;
    let tries = far.is_writable(walker.object) && random.u8(..16) == 0;
    Step { object: walker.object, word: walker.word, stores, tries }
}
