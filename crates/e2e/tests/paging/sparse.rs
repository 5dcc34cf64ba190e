//! Regions of which the server counts and keeps only what was written.

use std::thread;

use outboard::{FarError, RegionOptions};
use outboard_e2e::{Daemon, Place, await_state, run_outboard};

use super::{connect, options, words};

const CHUNK: usize = 64 << 10;
const BUFFER: usize = 2 << 20;
/// What the server has.
const CAPACITY: usize = 16 << 20;

fn daemon(place: &Place) -> Daemon {
    let (at, capacity) = (place.socket(), CAPACITY.to_string());
    let arguments = ["--listen", &at, "--listen", "tcp:127.0.0.1:0", "--capacity", &capacity];
    Daemon::start(place, "memory", "proof-memory", &arguments)
}

#[test]
fn a_region_much_larger_than_all_memory_costs_what_is_written() {
    let place = Place::new();
    let mut daemon = daemon(&place);
    for at in [daemon.local().clone(), daemon.remote().clone()] {
        let far = connect(&options(&at, CHUNK, BUFFER));
        let region = RegionOptions::default().with_chunk(CHUNK);
        let mapping = far.reserve(300 << 30, &region).unwrap();
        assert_eq!(daemon.number("used_bytes"), 0);
        // A few chunks here and there, some at the very end.
        let (bytes, apart) = (words(&mapping), 300_000_000);
        for number in 0..100 {
            bytes.write(number * apart + 17, &(number as u64 + 1).to_ne_bytes());
        }
        bytes.write((300 << 30) - 8, &[7; 8]);
        mapping.flush().unwrap();
        assert_eq!(daemon.number("used_bytes"), 101 * CHUNK as u64);
        for number in 0..100 {
            let mut word = [0; 8];
            bytes.read(number * apart + 17, &mut word);
            assert_eq!(u64::from_ne_bytes(word), number as u64 + 1);
        }
        // What is discarded is given back to the count.
        let mut mapping = mapping;
        mapping.discard(0..50 * apart).unwrap();
        daemon.await_number("used_bytes", 51 * CHUNK as u64);
        drop(mapping);
        daemon.await_number("used_bytes", 0);
    }
    daemon.end();
    place.assert_nothing_left();
}

#[test]
fn what_the_server_has_no_room_for_stays_here_until_it_has() {
    let place = Place::new();
    let mut daemon = daemon(&place);
    for at in [daemon.local().clone(), daemon.remote().clone()] {
        let far = connect(&options(&at, CHUNK, BUFFER));
        let region = RegionOptions::default().with_chunk(CHUNK);
        let refused = far.reserve(2 * CAPACITY as u64, &region.clone().with_guarantee()).err().unwrap();
        assert!(refused.to_string().contains("--capacity"), "{refused}");
        let other = far.reserve(CAPACITY as u64 / 2, &region.clone().with_guarantee()).unwrap();
        let mapping = far.reserve(2 * CAPACITY as u64, &region).unwrap();
        let bytes = words(&mapping);
        // As much as the server has left, and what the buffer can keep beside it.
        let chunks = (CAPACITY / 2 + BUFFER / 2) / CHUNK;
        (0..chunks).for_each(|chunk| bytes.write(chunk * CHUNK, &(chunk as u64 + 1).to_ne_bytes()));
        let error = await_state("a flush that is refused", || match mapping.flush() {
            Err(error @ FarError::NoRoom { .. }) => Ok(error),
            other => Err(format!("{other:?}")),
        });
        assert!(error.to_string().contains("has no room for them"), "{error}");
        // More than that waits, and goes on when another region is freed.
        let all = chunks + BUFFER / CHUNK;
        thread::scope(|scope| {
            let writer = scope.spawn(|| {
                (chunks..all).for_each(|chunk| bytes.write(chunk * CHUNK, &(chunk as u64 + 1).to_ne_bytes()));
            });
            await_state("a thread that waits for room", || {
                let parked = far.stats().faults_parked;
                if parked > 0 { Ok(()) } else { Err(parked.to_string()) }
            });
            assert!(!writer.is_finished());
            other.free().unwrap();
        });
        await_state("a flush", || mapping.flush().map_err(|error| error.to_string()));
        for chunk in 0..all {
            let mut word = [0; 8];
            bytes.read(chunk * CHUNK, &mut word);
            assert_eq!(u64::from_ne_bytes(word), chunk as u64 + 1, "chunk {chunk}");
        }
        drop(mapping);
        daemon.await_number("used_bytes", 0);
    }
    daemon.end();
    place.assert_nothing_left();
}

#[test]
fn a_sparse_region_is_reserved_by_hand_too_and_made_whole() {
    let place = Place::new();
    let mut daemon = daemon(&place);
    let at = daemon.local().to_string();
    let reserve = |arguments: &[&str]| {
        run_outboard(&[&["memory", "reserve", "--server", &at, "--name"], arguments].concat())
    };
    reserve(&["large", "--size", "1TiB"]).failed(1, &["1 TiB asked", "--capacity"]);
    reserve(&["large", "--size", "1TiB", "--sparse"]).succeeded();
    assert_eq!(daemon.number("used_bytes"), 0);
    reserve(&["whole", "--size", "8MiB", "--sparse", "--populate"]).succeeded();
    daemon.await_number("used_bytes", 8 << 20);
    reserve(&["more", "--size", "12MiB", "--sparse", "--populate"]).failed(1, &["too little is left"]);
    daemon.end();
    place.assert_nothing_left();
}
