//! Every way from one state of a chunk to another is gone with a real userfaultfd, by several threads at once.

use std::thread;

use outboard::{Advice, FarMapping, FarMemory, Path, RegionOptions};
use outboard_e2e::{Daemon, Place};
use outboard_paging::application::chunks::{Event, State, TRANSITIONS};

use super::{await_edge, connect, not_known_to_be_zero, options, words};

const CHUNK: usize = 4096;
const THREADS: usize = 4;
/// More than one thread's saves that may be under way.
const CHUNKS: usize = 160;

/// Does something with every chunk of a region, each by one of several threads.
fn for_all(mapping: &FarMapping, act: impl Fn(usize) + Sync) {
    let chunks = mapping.len() / CHUNK;
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let act = &act;
            scope.spawn(move || (thread..chunks).step_by(THREADS).for_each(act));
        }
    });
}

fn write_all(mapping: &FarMapping, base: u64) {
    for_all(mapping, |chunk| words(mapping).write(chunk * CHUNK, &(base + chunk as u64).to_ne_bytes()));
}

fn check_all(mapping: &FarMapping, base: u64) {
    for_all(mapping, |chunk| {
        let mut word = [0; 8];
        words(mapping).read(chunk * CHUNK, &mut word);
        assert_eq!(u64::from_ne_bytes(word), base + chunk as u64, "chunk {chunk}");
    });
}

fn reserve(memory: &FarMemory, chunks: usize) -> FarMapping {
    let region = RegionOptions { chunk: CHUNK, path: Path::Direct, ..Default::default() };
    memory.reserve((chunks * CHUNK) as u64, &region).unwrap()
}

/// What happens while the server is there and everything is prompt.
fn by_day(memory: &FarMemory) {
    // Three times what there is room for.
    let mut mapping = reserve(memory, 6 * CHUNKS);
    write_all(&mapping, 100);
    check_all(&mapping, 100);
    // A scan is seen, and a chunk waits in its seat to show how far it got.
    let is_seen = |_| {
        (0..CHUNKS).for_each(|chunk| words(&mapping).touch(chunk * CHUNK));
        super::edges(memory, State::Fetching, Event::Wait) > 0
    };
    assert!((0..1000).any(is_seen), "{:?}", memory.stats());
    // Set aside, and wanted all the same.
    mapping.advise(0..CHUNKS * CHUNK, Advice::DontNeed).unwrap();
    check_all(&mapping, 100);
    discard(memory, &mut mapping);
    mapping.free().unwrap();
}

/// Discards chunks that are in the region, aside, and changed in their seats.
fn discard(memory: &FarMemory, mapping: &mut FarMapping) {
    let ways = [State::Resident, State::Aside, State::Dirty];
    let is_gone = |_| {
        // Some are moved out, most of them before all can have been saved.
        (0..CHUNKS).for_each(|chunk| words(mapping).write(chunk * CHUNK, &[1]));
        (CHUNKS..CHUNKS + 8).for_each(|chunk| words(mapping).touch(chunk * CHUNK));
        mapping.advise(8 * CHUNK..(CHUNKS + 4) * CHUNK, Advice::DontNeed).unwrap();
        mapping.discard(0..(CHUNKS + 8) * CHUNK).unwrap();
        ways.iter().all(|state| super::edges(memory, *state, Event::Discard) > 0)
    };
    assert!((0..1000).any(is_gone), "{:?}", memory.stats());
    let mut byte = [1];
    (0..CHUNKS + 8).for_each(|chunk| {
        words(mapping).read(chunk * CHUNK, &mut byte);
        assert_eq!(byte, [0], "chunk {chunk}");
    });
}

/// What happens while the server is silent, and when it goes on or is given up.
fn by_night(memory: &FarMemory, daemon: &Daemon) {
    let mapping = reserve(memory, CHUNKS);
    for (base, is_given_up) in [(1000, false), (2000, true)] {
        write_all(&mapping, base);
        daemon.process.stop();
        let saves = super::edges(memory, State::Dirty, Event::Save);
        mapping.advise(0..CHUNKS * CHUNK, Advice::DontNeed).unwrap();
        await_edge(memory, State::Dirty, Event::Save, saves + 10);
        // Some are on their way, the others could not be sent yet; half of both come back.
        for_all(&mapping, |chunk| {
            if chunk % 8 < 4 {
                words(&mapping).touch(chunk * CHUNK)
            }
        });
        if is_given_up {
            await_edge(memory, State::Saving, Event::SaveFail, 1);
            await_edge(memory, State::Returned, Event::SaveFail, 1);
        }
        daemon.process.go_on();
        check_all(&mapping, base);
        mapping.flush().unwrap();
        check_all(&mapping, base);
    }
    await_edge(memory, State::Returned, Event::Saved, 1);
    // Given up while changed: nobody wants it any more.
    write_all(&mapping, 3000);
    daemon.process.stop();
    mapping.advise(0..CHUNKS * CHUNK, Advice::DontNeed).unwrap();
    thread::scope(|scope| {
        let end = scope.spawn(|| drop(mapping));
        await_edge(memory, State::Dirty, Event::Evict, 1);
        daemon.process.go_on();
        end.join().unwrap();
    });
    // Given up while it was on its way here.
    let region = RegionOptions { chunk: CHUNK, path: Path::Direct, ..Default::default() };
    let array = not_known_to_be_zero(memory, "on its way", CHUNKS * CHUNK, &region);
    daemon.process.stop();
    let fetches = super::edges(memory, State::Absent, Event::Fetch);
    array.advise(0..CHUNKS * CHUNK, Advice::WillNeed).unwrap();
    await_edge(memory, State::Absent, Event::Fetch, fetches + 10);
    thread::scope(|scope| {
        let end = scope.spawn(|| drop(array));
        await_edge(memory, State::Fetching, Event::Fail, 1);
        daemon.process.go_on();
        end.join().unwrap();
    });
}

#[test]
fn every_way_between_states_is_gone() {
    let place = Place::new();
    let terms = ["--linger", "1h", "--link-deadline", "500ms", "--link-heartbeat", "50ms"];
    let daemon = Daemon::memory(&place, &place.socket(), &terms);
    let mut options = options(daemon.remote(), CHUNK, 2 * CHUNKS * CHUNK);
    options.threads = Some(2);
    let memory = connect(&options);
    by_day(&memory);
    by_night(&memory, &daemon);
    let edges = memory.stats().edges;
    for (way, count) in TRANSITIONS.iter().zip(edges) {
        println!("{count:7} × {way:?}");
    }
    for (way, count) in TRANSITIONS.iter().zip(edges) {
        assert!(count > 0, "{way:?} was never gone");
    }
    daemon.end();
    place.assert_nothing_left();
}
