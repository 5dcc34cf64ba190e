//! Many threads that try to read and write far memory at once, beside those that just do.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use outboard::{Address, Advice, FarError, FarMapping, FarMemory, Path, RegionOptions};
use rustix::process::Signal;

use super::{FarSetup, connect, options, words};
use outboard_e2e::{Daemon, PATIENCE, Place, Random, await_state, seed};

const CHUNK: usize = 4096;
const CHUNKS: usize = 96;
const SEATS: usize = 24;
const TRIERS: usize = 4;
/// The chunks at the end are those of threads that do not try.
const TRIED: usize = 64;
const LONGEST: usize = 3 * CHUNK;

fn far_options(server: &Address) -> FarSetup {
    let mut options = options(server, CHUNK, SEATS * CHUNK);
    (options.threads, options.grace) = (Some(2), Duration::from_millis(200));
    options
}

fn region(path: Path) -> RegionOptions {
    RegionOptions { chunk: CHUNK, path, ..Default::default() }
}

/// Writes and reads a share of the region, at random, until it is lost or told to stop. What it reads is what it wrote.
/// Returns how often, and whether it was lost.
fn try_at_random(mapping: &FarMapping, thread: usize, seed: u64, must_stop: &AtomicBool) -> (u64, bool) {
    let share = TRIED * CHUNK / TRIERS;
    let first = thread * share;
    let mut random = Random::new(seed);
    let mut model = vec![0_u8; share];
    let mut rounds = 0;
    while !must_stop.load(Ordering::Relaxed) {
        let len = 1 + random.below(LONGEST as u64) as usize;
        let at = random.below((share - len) as u64) as usize;
        let result = if random.once_in(2) {
            let bytes = random.bytes(len);
            // SAFETY: no other thread has to do with this share, and no reference into it lives.
            let written = unsafe { mapping.try_write_shared(first + at, &bytes, PATIENCE) };
            // One that came to nothing in the middle has written what is before.
            let done = done(&written, len);
            model[at..at + done].copy_from_slice(&bytes[..done]);
            written
        } else {
            let mut bytes = vec![0; len];
            let read = mapping.try_read(first + at, &mut bytes, PATIENCE);
            let done = done(&read, len);
            assert!(bytes[..done] == model[at..at + done], "thread {thread}: {len} bytes at {at}");
            read
        };
        match result {
            Ok(()) => rounds += 1,
            Err(FarError::Lost { .. }) => return (rounds, true),
            Err(error) => panic!("{error}"),
        }
    }
    (rounds, false)
}

/// How many bytes were copied.
fn done(result: &Result<(), FarError>, len: usize) -> usize {
    match result {
        Ok(()) => len,
        Err(FarError::Lost { done, .. } | FarError::Deadline { done, .. }) => *done,
        Err(error) => panic!("{error}"),
    }
}

/// Adds to words of its own chunks by pointer, and makes everything else move.
fn disturb(mapping: &FarMapping, must_stop: &AtomicBool) {
    let mut added = 0;
    while !must_stop.load(Ordering::Relaxed) {
        (TRIED..CHUNKS).for_each(|chunk| words(mapping).add(chunk * CHUNK, 1));
        added += 1;
        mapping.advise(0..mapping.len(), Advice::DontNeed).expect("it is inside");
        mapping.flush().expect("the server is there");
    }
    for chunk in TRIED..CHUNKS {
        let mut word = [0; 8];
        words(mapping).read(chunk * CHUNK, &mut word);
        assert_eq!(u64::from_ne_bytes(word), added, "chunk {chunk}");
    }
}

#[test]
fn those_who_try_get_along_with_everybody_and_are_told_of_the_end() {
    let place = Place::new();
    let seed = seed();
    for (by_tcp, has_agent) in [(false, false), (true, false), (false, true), (true, true)] {
        let daemon = Daemon::memory(&place, &place.socket(), &[]);
        let agent =
            has_agent.then(|| Daemon::agent(&place, &place.socket(), &daemon.local().to_string(), &[]));
        let door = |daemon: &Daemon| if by_tcp { daemon.remote().clone() } else { daemon.local().clone() };
        let far = connect(&far_options(&door(&daemon)).with_agent(agent.as_ref().map(door)));
        let path = if has_agent { Path::Agent } else { Path::Direct };
        let mut mapping = far.reserve((CHUNKS * CHUNK) as u64, &region(path)).unwrap();
        for (is_last, must_stop) in [(false, AtomicBool::new(false)), (true, AtomicBool::new(false))] {
            zero(&mut mapping);
            let evicted = far.stats().evictions;
            thread::scope(|scope| {
                let (mapping, must_stop) = (&mapping, &must_stop);
                let triers: Vec<_> = (0..TRIERS)
                    .map(|thread| {
                        let seed = seed + thread as u64;
                        scope.spawn(move || try_at_random(mapping, thread, seed, must_stop))
                    })
                    .collect();
                if !is_last {
                    scope.spawn(move || disturb(mapping, must_stop));
                }
                await_evictions(&far, evicted + 2000);
                if is_last {
                    daemon.process.signal(Signal::KILL);
                } else {
                    must_stop.store(true, Ordering::Relaxed);
                }
                for trier in triers {
                    let (rounds, was_lost) = trier.join().unwrap();
                    assert!(rounds > 0 && was_lost == is_last, "{rounds} rounds, seed {seed}");
                }
            });
        }
        drop((mapping, far));
        daemon.process.exit();
        if let Some(agent) = agent {
            agent.end();
        }
    }
    place.assert_nothing_left();
}

fn zero(mapping: &mut FarMapping) {
    let zeros = vec![0; mapping.len()];
    mapping.try_write(0, &zeros, PATIENCE).unwrap();
}

fn await_evictions(far: &FarMemory, wanted: u64) {
    await_state("chunks that give their places to others", || {
        let evicted = far.stats().evictions;
        if evicted >= wanted { Ok(()) } else { Err(evicted.to_string()) }
    });
}

/// What is lost and changed has the whole buffer, and somebody needs what is not lost.
#[test]
fn what_nobody_will_take_makes_room_for_what_is_not_lost() {
    let place = Place::new();
    for by_tcp in [false, true] {
        let [lasting, dying] = [0, 1].map(|_| Daemon::memory(&place, &place.socket(), &[]));
        let door = |daemon: &Daemon| if by_tcp { daemon.remote().clone() } else { daemon.local().clone() };
        let lost = door(&dying);
        let far = connect(&far_options(&door(&lasting)).with_others(vec![lost.clone()]));
        // By turns they lie at one server and the other.
        let reserve = |chunks: usize| far.reserve((chunks * CHUNK) as u64, &region(Path::Direct)).unwrap();
        let (good, mut bad) = (reserve(CHUNKS), reserve(SEATS));
        (0..CHUNKS).for_each(|chunk| words(&good).write(chunk * CHUNK, &[7]));
        good.flush().unwrap();
        bad.try_write(0, &vec![1; SEATS * CHUNK], PATIENCE).unwrap();
        bad.flush().unwrap();
        (0..SEATS).for_each(|chunk| words(&bad).touch(chunk * CHUNK));
        let mut losses = far.losses().unwrap();
        dying.process.kill();
        (0..SEATS).for_each(|chunk| drop(bad.try_write(chunk * CHUNK, &[2], Duration::ZERO)));
        let loss = losses.wait(PATIENCE).expect("it is told of");
        assert_eq!((loss.address, loss.objects.len()), (lost, 1));
        // By pointer and by trying, all of it comes.
        let count = AtomicU64::new(0);
        thread::scope(|scope| {
            scope.spawn(|| {
                for chunk in 0..CHUNKS {
                    let mut byte = [0];
                    words(&good).read(chunk * CHUNK, &mut byte);
                    count.fetch_add(u64::from(byte[0]), Ordering::Relaxed);
                }
            });
            for chunk in (0..CHUNKS).rev() {
                let mut byte = [0];
                good.try_read(chunk * CHUNK, &mut byte, PATIENCE).unwrap();
                count.fetch_add(u64::from(byte[0]), Ordering::Relaxed);
            }
        });
        assert_eq!(count.into_inner(), 2 * 7 * CHUNKS as u64);
        for chunk in 0..SEATS {
            let mut byte = [0];
            match bad.try_read(chunk * CHUNK, &mut byte, PATIENCE) {
                Ok(()) => assert!([1, 2].contains(&byte[0])),
                Err(error) => assert!(matches!(error, FarError::Lost { .. }), "{error}"),
            }
        }
        drop((good, bad, losses, far));
        lasting.end();
    }
    place.assert_nothing_left();
}
