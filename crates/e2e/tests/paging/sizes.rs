//! Buffers that grow and shrink while threads use far memory.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use outboard::{BufferSize, FarMemory, FarOptions, FaultAnswer, Outboard, RegionOptions};
use outboard_e2e::{Daemon, Place, Random, await_state, seed};

use super::{connect, options, words};

const CHUNK: usize = 16 << 10;
/// How many threads add to words.
const THREADS: usize = 8;
/// How often the buffer changes, and how often all threads together add meanwhile.
const CHANGES: u64 = 24;
const STEPS: u64 = 500;
const WORDS: usize = 6 << 20;
const LEAST: usize = 64 * CHUNK;
const MOST: usize = 40 << 20;

/// Waits until no more is here than may be.
fn await_shrunk(far: &FarMemory) {
    await_state("a buffer that has shrunk", || {
        let (used, size) = (far.stats().buffer_used, far.buffer() as u64);
        if used <= size { Ok(()) } else { Err(format!("{used} bytes of {size} are in use")) }
    });
}

/// Threads add to words of a region and of plain memory while the buffer goes up and down.
fn add_and_resize(far: &FarMemory, seed: u64) {
    let region = RegionOptions::default().with_chunk(CHUNK);
    let mapping = far.reserve(8 * WORDS as u64, &region).unwrap();
    let near: Vec<AtomicU64> = std::iter::repeat_with(AtomicU64::default).take(WORDS).collect();
    let (far_words, begun, done) = (words(&mapping), AtomicU64::new(0), AtomicU64::new(0));
    let allowed = AtomicU64::new(0);
    let mut random = Random::new(seed);
    thread::scope(|scope| {
        for number in 0..THREADS as u64 {
            let mut random = Random::new(seed + 1 + number);
            let (near, begun, done, allowed) = (&near, &begun, &done, &allowed);
            scope.spawn(move || {
                loop {
                    let step = begun.fetch_add(1, Ordering::Relaxed);
                    if step >= CHANGES * STEPS {
                        return;
                    }
                    while step >= allowed.load(Ordering::Acquire) {
                        thread::yield_now();
                    }
                    // Half of all go to few words, so that chunks come back soon after they went.
                    let words = if random.once_in(2) { WORDS / 64 } else { WORDS };
                    let (at, addend) = (random.below(words as u64) as usize, random.next());
                    far_words.add(8 * at, addend);
                    near[at].fetch_add(addend, Ordering::Relaxed);
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for change in 1..=CHANGES {
            let size = match random.below(3) {
                0 => LEAST,
                1 => MOST,
                _ => LEAST + random.below((MOST - LEAST) as u64) as usize,
            };
            far.set_buffer(BufferSize::Bytes(size)).unwrap();
            assert_eq!(far.buffer(), size);
            allowed.store(change * STEPS, Ordering::Release);
            // Sometimes it has shrunk before it changes again.
            if random.once_in(3) {
                await_shrunk(far);
            }
            await_state("threads that go on", || {
                let done = done.load(Ordering::Relaxed);
                if done + STEPS / 2 >= change * STEPS {
                    Ok(())
                } else {
                    Err(format!("{done} of {change} times {STEPS}"))
                }
            });
        }
    });
    far.set_buffer(BufferSize::Bytes(LEAST)).unwrap();
    await_shrunk(far);
    assert!(far.stats().buffer_used <= LEAST as u64);
    let mut bytes = vec![0; 8 * WORDS];
    far_words.read(0, &mut bytes);
    let wrong = bytes.chunks_exact(8).zip(&near).filter(|(far, near)| {
        u64::from_ne_bytes(std::array::from_fn(|at| far[at])) != near.load(Ordering::Relaxed)
    });
    assert_eq!(wrong.count(), 0, "words differ from those in plain memory");
    mapping.free().unwrap();
}

#[test]
fn every_update_is_there_while_the_buffer_grows_and_shrinks() {
    let place = Place::new();
    let daemon = Daemon::memory(&place, &place.socket(), &[]);
    let seed = seed();
    let ways = [
        (daemon.local(), FaultAnswer::Threads),
        (daemon.remote(), FaultAnswer::Threads),
        (daemon.local(), FaultAnswer::Signal),
    ];
    for (at, faults) in ways {
        println!("at {at} with {faults:?}, seed {seed}");
        let far = connect(&options(at, CHUNK, LEAST).with(|options| {
            options.buffer_max = Some(MOST);
            (options.threads, options.faults) = (Some(2), faults);
        }));
        add_and_resize(&far, seed);
        let stats = far.stats();
        assert!(stats.evictions > 0 && stats.saves > 0, "{stats:?}");
    }
    daemon.end();
    place.assert_nothing_left();
}

#[test]
fn a_buffer_keeps_what_is_promised_and_says_what_it_cannot() {
    let place = Place::new();
    let daemon = Daemon::memory(&place, &place.socket(), &[]);
    let setup = options(daemon.local(), CHUNK, MOST / 2).with(|options| options.buffer_max = Some(MOST));
    let far = connect(&setup);
    let region = RegionOptions::default().with_chunk(CHUNK);
    let mut mapping = far.reserve(MOST as u64, &region).unwrap();
    let refused = |size: usize, parts: &[&str]| {
        let before = far.buffer();
        let error = far.set_buffer(BufferSize::Bytes(size)).unwrap_err().to_string();
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        assert_eq!(far.buffer(), before);
    };
    refused(MOST + 1, &["more than the 40 MiB", "buffer_max"]);
    refused(CHUNK, &["too small for chunks of 16 KiB", "it needs at least"]);
    mapping.pin(0..MOST / 8).unwrap();
    refused(MOST / 8, &["are pinned", "unpin some"]);
    // It may still grow, and shrink when nothing is pinned any more.
    far.set_buffer(BufferSize::Bytes(MOST)).unwrap();
    mapping.unpin();
    far.set_buffer(BufferSize::Bytes(MOST / 8)).unwrap();
    let none = far.set_buffer("1/2".parse().unwrap()).unwrap_err().to_string();
    assert!(none.contains("1/2"), "{none}");
    drop(mapping);
    daemon.end();
}

#[test]
fn a_buffer_that_follows_memory_says_so_until_it_is_set() {
    let place = Place::new();
    let daemon = Daemon::memory(&place, &place.socket(), &[]);
    let far = Outboard::at(daemon.local().clone())
        .far_with(FarOptions { buffer_max: Some(MOST), ..FarOptions::default() })
        .unwrap();
    let line = || far.explain().into_iter().find(|line| line.starts_with("the buffer")).unwrap();
    await_state("a look at what memory is left", || {
        let line = line();
        if line.contains("have to stay free") { Ok(()) } else { Err(line) }
    });
    assert!(line().contains("follows what memory is left"), "{}", line());
    far.set_buffer(BufferSize::Bytes(LEAST)).unwrap();
    assert!(line().contains("stays as large as it was set") && far.buffer() == LEAST, "{}", line());
    far.set_buffer(BufferSize::Auto).unwrap();
    await_state("a buffer that grows", || if far.buffer() > LEAST { Ok(()) } else { Err(line()) });
    drop(far);
    daemon.end();
}
