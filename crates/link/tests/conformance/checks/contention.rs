//! Words stay whole and sums stay right, whichever processes are at work on them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

use outboard_link::memory::{Buffer, Segment};
use outboard_link::{
    AccessError, AccessOutcome, AtomicDomain, Link, LinkError, OpenRegion, RemoteMemory, Token, Waiter,
};
use outboard_wire::{Grant, Rights};

use crate::fixture::{Fixture, Sides};
use crate::pair::{ALL, LIMIT, region};

/// Two links to one region, each used by a thread of its own, while a third serves the owner's ends.
struct Shared<F: Fixture> {
    users: Vec<F::Link>,
    owners: Vec<F::Link>,
    memory: Arc<Segment>,
    grant: Grant,
}

impl<F: Fixture> Shared<F> {
    fn new() -> Self {
        let sides = Sides::default();
        let export = region(1);
        let (grant, memory) = (export.grant(ALL).unwrap(), Arc::clone(&export.memory));
        sides.ben.add(export);
        let (users, owners) = (0..2).map(|_| F::pair(&sides)).unzip();
        Self { users, owners, memory, grant }
    }

    /// Runs `work` on every user's link until all are done, with `beside` at work all the while.
    fn run<T: Send>(
        &mut self,
        work: impl Fn(usize, &mut User<'_, F::Link>, OpenRegion) -> T + Sync,
        beside: impl FnMut(),
    ) -> Vec<T> {
        let Self { users, owners, grant, .. } = self;
        let running = AtomicUsize::new(users.len());
        let (running, work, grant) = (&running, &work, &*grant);
        std::thread::scope(|scope| {
            let threads: Vec<_> = users
                .iter_mut()
                .enumerate()
                .map(|(number, link)| {
                    scope.spawn(move || {
                        let done = CountDown(running);
                        let mut user = User { link, waiter: Waiter::new() };
                        let opened = open(&mut user, grant);
                        let result = work(number, &mut user, opened);
                        drop(done);
                        user.stay(running);
                        result
                    })
                })
                .collect();
            serve(owners, running, beside);
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }
}

/// Lets the owner's ends do their part until no peer needs them any more.
fn serve<L: Link>(owners: &mut [L], running: &AtomicUsize, mut beside: impl FnMut()) {
    let waiter = Waiter::new();
    while running.load(SeqCst) > 0 {
        beside();
        for owner in &mut *owners {
            owner.progress(waiter.clock.now()).unwrap();
        }
        // The users may share this core.
        std::thread::yield_now();
    }
}

struct CountDown<'a>(&'a AtomicUsize);

impl Drop for CountDown<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

/// A link and how its thread waits for it.
struct User<'a, L> {
    link: &'a mut L,
    waiter: Waiter,
}

impl<L: Link> User<'_, L> {
    /// Gives signs of life until the others are done too: who is silent for long counts as lost.
    fn stay(&mut self, running: &AtomicUsize) {
        while running.load(SeqCst) > 0 {
            self.link.progress(self.waiter.clock.now()).unwrap();
            std::thread::yield_now();
        }
    }
}

/// Runs one operation to its end, in real time.
fn run<L: Link + RemoteMemory>(
    user: &mut User<'_, L>,
    mut begin: impl FnMut(&mut L, Token) -> Result<(), AccessError>,
) -> AccessOutcome {
    let mut begun = false;
    let outcome = user.waiter.until(user.link, LIMIT, "an operation", |link| -> Result<_, LinkError> {
        if !begun {
            match begin(link, Token(5)) {
                Ok(()) => begun = true,
                Err(AccessError::Full) => return Ok(None),
                Err(error) => panic!("{error}"),
            }
        }
        let mut outcome = None;
        link.completions(|completion| outcome = Some(completion.result.unwrap()));
        Ok(outcome)
    });
    outcome.unwrap()
}

fn open<L: Link + RemoteMemory>(user: &mut User<'_, L>, grant: &Grant) -> OpenRegion {
    match run(user, |link, token| link.open(grant, Rights::ALL, token)) {
        AccessOutcome::Opened(region) => region,
        other => panic!("{other:?}"),
    }
}

fn old(outcome: AccessOutcome) -> u64 {
    match outcome {
        AccessOutcome::Old(old) => old,
        other => panic!("{other:?}"),
    }
}

/// Two links add to the same words, and so does the owner where its atomics belong to the same domain.
pub(crate) fn keeps_sums<F: Fixture>() {
    let mut shared = Shared::<F>::new();
    let rounds = 1000u64;
    let in_domain = shared.users[0].capabilities().atomics == AtomicDomain::Cpu;
    let memory = Arc::clone(&shared.memory);
    let mut by_owner = 0;
    let sums = shared.run(
        |_, user, opened| {
            let mut seen = 0u64;
            for round in 0..rounds {
                let offset = round % 4 * 8;
                seen ^= old(run(user, |link, token| link.fetch_add(opened, offset, 3, token)));
            }
            seen
        },
        || {
            if in_domain {
                memory.word(0).fetch_add(3, SeqCst);
                by_owner += 3;
            }
        },
    );
    assert_eq!(sums.len(), 2);
    let total: u64 = (0..4).map(|word| memory.word(word * 8).load(SeqCst)).sum();
    assert_eq!(total, 2 * 3 * rounds + by_owner);
}

/// Two links count with compare-and-swap: exactly as many swaps succeed as are counted.
pub(crate) fn swaps_for_one_only<F: Fixture>() {
    let mut shared = Shared::<F>::new();
    let each = 400u64;
    shared.run(
        |_, user, opened| {
            let mut expected = 0;
            for _ in 0..each {
                loop {
                    let desired = expected + 1;
                    let was =
                        old(run(user, |link, token| link.compare_swap(opened, 64, expected, desired, token)));
                    if was == expected {
                        expected = desired;
                        break;
                    }
                    assert!(was > expected, "the count went back");
                    expected = was;
                }
            }
        },
        || (),
    );
    assert_eq!(shared.memory.word(64).load(SeqCst), 2 * each);
}

const BLACK: u64 = 0x1111_1111_1111_1111;
const WHITE: u64 = 0xeeee_eeee_eeee_eeee;

fn assert_whole(word: u64) {
    assert!(word == BLACK || word == WHITE, "a torn word: {word:016x}");
}

/// Every aligned word that is read is one that was written, while the owner writes two kinds all the time.
pub(crate) fn reads_whole_words<F: Fixture>() {
    if !F::KEEPS_WORDS {
        println!("skipped: this link is set up to be reached where words may be torn");
        return;
    }
    let mut shared = Shared::<F>::new();
    let words = 512;
    let memory = Arc::clone(&shared.memory);
    for word in 0..words {
        memory.word(word * 8).store(BLACK, SeqCst);
    }
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0u64.. {
                if stop.load(SeqCst) {
                    break;
                }
                let colour = if round.is_multiple_of(2) { WHITE } else { BLACK };
                for word in 0..words {
                    memory.word(word * 8).store(colour, std::sync::atomic::Ordering::Relaxed);
                }
            }
        });
        let _stop = Stop(&stop);
        shared.run(
            |_, user, opened| {
                let buffer = Buffer::allocate(words * 8 + 8).unwrap();
                for round in 0..150 {
                    // Odd lengths and places leave the words within them whole as well.
                    let (skip, to) = (round % 3 * 8, round % 5);
                    let len = words * 8 - skip - round % 8;
                    run(user, |link, token| link.read(opened, skip as u64, &buffer, to, len, token));
                    (0..len / 8).for_each(|word| assert_whole(buffer.window().word(to + word * 8)));
                }
            },
            || (),
        );
    });
}

struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// Two links write two kinds of words over each other: the owner only ever sees whole ones.
pub(crate) fn writes_whole_words<F: Fixture>() {
    if !F::KEEPS_WORDS {
        println!("skipped: this link is set up to be reached where words may be torn");
        return;
    }
    let mut shared = Shared::<F>::new();
    let words = 512;
    let memory = Arc::clone(&shared.memory);
    for word in 0..words {
        memory.word(word * 8).store(BLACK, SeqCst);
    }
    shared.run(
        |number, user, opened| {
            let colour = [BLACK, WHITE][number];
            let data = colour.to_le_bytes().repeat(words + 1);
            for round in 0..150 {
                let (skip, from) = (round % 3 * 8, round % 2 * 8);
                let part = &data[from..from + words * 8 - skip];
                run(user, |link, token| link.write(opened, skip as u64, part.into(), token));
            }
        },
        || (0..words).for_each(|word| assert_whole(memory.word(word * 8).load(SeqCst))),
    );
}
