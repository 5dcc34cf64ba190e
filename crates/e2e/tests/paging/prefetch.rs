//! Chunks that a program says it will touch next.

use outboard::{FarError, Path, RegionOptions};
use outboard_e2e::{Daemon, Place};
use outboard_paging::application::chunks::{Event, State};

use super::{await_edge, connect, edges, not_known_to_be_zero, options, words};

const CHUNK: usize = 4096;

#[test]
fn a_list_of_spans_is_here_before_it_is_touched() {
    let place = Place::new();
    let daemons = [0, 1].map(|_| Daemon::memory(&place, &place.socket(), &[]));
    let region = RegionOptions { chunk: CHUNK, path: Path::Direct, ..Default::default() };
    for (name, at, others) in [
        ("shm", daemons[0].local(), vec![]),
        ("tcp", daemons[0].remote(), vec![]),
        ("striped", daemons[0].remote(), vec![daemons[1].remote().clone()]),
    ] {
        let mut options = options(at, CHUNK, 512 * CHUNK).with_others(others);
        options.stripe = 8 * CHUNK;
        let memory = connect(&options);
        let array = not_known_to_be_zero(&memory, name, 400 * CHUNK, &region);
        // In no order, some of them twice, some beginning within a chunk.
        let chunks = [390, 7, 8, 200, 9, 7, 100];
        let mut spans: Vec<_> = chunks.map(|chunk| chunk * CHUNK..(chunk + 1) * CHUNK).into();
        spans.push(300 * CHUNK + 5..302 * CHUNK + 1);
        array.prefetch(spans).unwrap();
        await_edge(&memory, State::Fetching, Event::Arrive, 9);
        let before = memory.stats();
        assert_eq!((before.chunks_ahead, before.faults_fetched), (9, 0));
        for chunk in chunks.into_iter().chain(300..303) {
            words(array.mapping()).touch(chunk * CHUNK);
        }
        let after = memory.stats();
        assert_eq!((after.faults_fetched, after.chunks_ahead), (0, 9), "{after:?}");
        let outside = array.prefetch([0..1, 400 * CHUNK..400 * CHUNK + 1]);
        assert!(matches!(outside, Err(FarError::OutOfBounds { .. })), "{outside:?}");
        assert_eq!(memory.stats().chunks_ahead, 9);
    }
    daemons.into_iter().for_each(|daemon| _ = daemon.end());
    place.assert_nothing_left();
}

/// What is asked for in advance pushes out no more than there is room for, and waits for no server.
#[test]
fn a_list_is_bounded_by_the_room_there_is() {
    let place = Place::new();
    let daemon = Daemon::memory(&place, &place.socket(), &["--linger", "1h"]);
    let region = RegionOptions { chunk: CHUNK, path: Path::Direct, ..Default::default() };
    let (chunks, buffer) = (4096, 512);
    let memory = connect(&options(daemon.remote(), CHUNK, buffer * CHUNK));
    let array = not_known_to_be_zero(&memory, "bounded", chunks * CHUNK, &region);
    let fetches = || edges(&memory, State::Absent, Event::Fetch);
    daemon.process.stop();
    for _ in 0..20 {
        array.prefetch(std::iter::once(0..array.len())).unwrap();
    }
    daemon.process.go_on();
    // The last of them can only be fetched if a thread waits for it.
    words(array.mapping()).touch((chunks - 1) * CHUNK);
    await_edge(&memory, State::Fetching, Event::Arrive, buffer as u64 / 2);
    assert!(fetches() <= (buffer + buffer / 8 + 1) as u64, "{}", fetches());
    drop(array);
    drop(memory);
    daemon.end();
    place.assert_nothing_left();
}
