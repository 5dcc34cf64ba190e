//! Little room, many threads, many regions.

use std::thread;

use outboard::{FarMapping, FarMemory, Mover, Path, RegionOptions};
use outboard_e2e::{Daemon, Place, await_state, seed};

use super::mixture::{Run, play};
use super::{connect, options, words};

const CHUNK: usize = 4096;
const THREADS: usize = 64;

fn reserve(memory: &FarMemory, chunks: usize) -> FarMapping {
    let region = RegionOptions { chunk: CHUNK, path: Path::Direct, ..Default::default() };
    memory.reserve((chunks * CHUNK) as u64, &region).unwrap_or_else(|error| panic!("{error}"))
}

/// Every thread waits for another chunk while the server is silent, and there is room for a few.
#[test]
fn more_threads_wait_than_there_is_room_for() {
    let place = Place::new();
    let daemon = Daemon::memory(&place, &place.socket(), &[]);
    let mut options = options(daemon.remote(), CHUNK, 8 * CHUNK);
    (options.threads, options.ahead) = (Some(2), 0);
    let memory = connect(&options);
    let mapping = reserve(&memory, THREADS);
    for round in 1..=5u8 {
        daemon.process.stop();
        let parked = memory.stats().faults_parked;
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let mapping = &mapping;
                scope.spawn(move || {
                    let mut byte = [0];
                    words(mapping).read(thread * CHUNK, &mut byte);
                    assert_eq!(byte, [round - 1]);
                    words(mapping).write(thread * CHUNK, &[round]);
                });
            }
            await_state("faults without room", || match memory.stats().faults_parked - parked {
                0..10 => Err(format!("{:?}", memory.stats())),
                _ => Ok(()),
            });
            daemon.process.go_on();
        });
    }
    mapping.flush().unwrap();
    drop(mapping);
    daemon.end();
    place.assert_nothing_left();
}

/// The least room that is allowed, with threads whose single instructions need much of it.
#[test]
fn the_smallest_buffer_is_large_enough() {
    let place = Place::new();
    let daemon = Daemon::memory(&place, &place.socket(), &[]);
    let seed = seed();
    for (number, mover) in (0..).zip([Mover::Move, Mover::Copy]) {
        for (way, at) in (0..).zip([daemon.local(), daemon.remote()]) {
            let run = Run { chunks: vec![CHUNK; 2], seats: 4, steps: 60, ..Run::new(CHUNK, 2) };
            let mut options = options(at, run.largest(), run.buffer());
            (options.threads, options.mover) = (Some(2), Some(mover));
            play(&options, &run, seed + 2 * number + way, |_| {});
        }
    }
    daemon.end();
    place.assert_nothing_left();
}

/// Regions come and go while others are used; nothing of them stays.
#[test]
fn many_regions_come_and_go() {
    let place = Place::new();
    let mut daemon = Daemon::memory(&place, &place.socket(), &[]);
    for at in [daemon.local().clone(), daemon.remote().clone()] {
        let memory = connect(&options(&at, CHUNK, 64 * CHUNK));
        let constant = reserve(&memory, 200);
        (0..200).for_each(|chunk| words(&constant).write(chunk * CHUNK, &[chunk as u8]));
        thread::scope(|scope| {
            for thread in 0..4u8 {
                let memory = &memory;
                scope.spawn(move || {
                    for _ in 0..20 {
                        let mapping = reserve(memory, 20);
                        (0..20).for_each(|chunk| words(&mapping).write(chunk * CHUNK, &[thread]));
                        let mut byte = [99];
                        (0..20).for_each(|chunk| {
                            words(&mapping).read(chunk * CHUNK, &mut byte);
                            assert_eq!(byte, [thread]);
                        });
                    }
                });
            }
        });
        let mut byte = [0];
        for chunk in 0..200 {
            words(&constant).read(chunk * CHUNK, &mut byte);
            assert_eq!(byte, [chunk as u8]);
        }
        drop(constant);
        daemon.await_number("used_bytes", 0);
    }
    daemon.end();
    place.assert_nothing_left();
}

#[test]
fn a_thousand_regions_live_at_once() {
    let place = Place::new();
    let daemon = Daemon::memory(&place, &place.socket(), &[]);
    let memory = connect(&options(daemon.local(), CHUNK, 64 * CHUNK));
    let all: Vec<FarMapping> = (0..1000).map(|_| reserve(&memory, 1)).collect();
    all.iter().zip(0u64..).for_each(|(mapping, number)| words(mapping).write(0, &number.to_ne_bytes()));
    for (mapping, number) in all.iter().zip(0u64..) {
        let mut word = [0; 8];
        words(mapping).read(0, &mut word);
        assert_eq!(u64::from_ne_bytes(word), number);
    }
    drop(all);
    daemon.end();
}
