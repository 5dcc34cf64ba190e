//! What is discarded is zero, takes no memory, and stays so.

use std::os::unix::fs::MetadataExt;

use outboard::{CacheMode, FarError, Path, RegionOptions};
use outboard_e2e::{Daemon, PATIENCE, Place};

use super::{connect, options, words};

const CHUNK: usize = 16 << 10;
const CHUNKS: usize = 256;

/// How many bytes of regions have memory at a memory server.
pub(super) fn memory_of(daemon: &Daemon) -> u64 {
    let folder = format!("/proc/{}/fd", daemon.process.pid());
    let files = std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
    let is_region = |path: &std::path::PathBuf| {
        std::fs::read_link(path).is_ok_and(|to| to.to_string_lossy().contains("outboard-region"))
    };
    files
        .filter(is_region)
        .filter_map(|path| std::fs::metadata(path).ok())
        .map(|file| file.blocks() * 512)
        .sum()
}

fn word(mapping: &outboard::FarMapping, at: usize) -> u64 {
    let mut word = [0; 8];
    words(mapping).read(at, &mut word);
    u64::from_ne_bytes(word)
}

#[test]
fn what_is_discarded_is_zero_here_and_takes_no_memory_there() {
    let place = Place::new();
    let daemon = Daemon::memory(&place, &place.socket(), &[]);
    for (at, name) in [(daemon.local(), "near"), (daemon.remote(), "far")] {
        let memory = connect(&options(at, CHUNK, 32 * CHUNK));
        let region = RegionOptions {
            chunk: CHUNK,
            path: Path::Direct,
            name: Some(name.to_owned()),
            ..Default::default()
        };
        let before = memory_of(&daemon);
        let mut mapping = memory.reserve((CHUNKS * CHUNK) as u64, &region).unwrap();
        // What was never written takes no memory either, and is not fetched.
        (0..CHUNKS).for_each(|chunk| assert_eq!(word(&mapping, chunk * CHUNK), 0));
        mapping.flush().unwrap();
        assert_eq!((memory.stats().traffic.demand, memory.stats().saves), (0, 0));
        assert_eq!(memory_of(&daemon), before);
        for at in (0..CHUNKS * CHUNK).step_by(4096) {
            words(&mapping).write(at, &(at as u64 + 1).to_ne_bytes());
        }
        mapping.flush().unwrap();
        assert_eq!(memory_of(&daemon) - before, (CHUNKS * CHUNK) as u64);
        // Some of it is here, some is there, one chunk is pinned, and the span begins and ends within chunks.
        mapping.pin(20 * CHUNK..21 * CHUNK).unwrap();
        let (start, end) = (10 * CHUNK + 4096, 200 * CHUNK + 8);
        mapping.discard(start..end).unwrap();
        for at in (0..CHUNKS * CHUNK).step_by(4096) {
            let is_discarded = (start..end).contains(&at);
            assert_eq!(word(&mapping, at), if is_discarded { 0 } else { at as u64 + 1 }, "at {at}");
        }
        mapping.unpin();
        words(&mapping).write(50 * CHUNK, &7u64.to_ne_bytes());
        mapping.flush().unwrap();
        let left = (memory_of(&daemon) - before) as usize;
        assert!(left <= (CHUNKS - 189 + 2) * CHUNK, "{left} bytes have memory");
        // Others see it as it is.
        drop(mapping);
        let array = memory.open::<u64>(name, &region).unwrap();
        for (index, found) in array.iter().enumerate().step_by(512) {
            let at = index * 8;
            let expected = match at {
                _ if at == 50 * CHUNK => 7,
                at if (start..end).contains(&at) => 0,
                at => at as u64 + 1,
            };
            assert_eq!(*found, expected, "at {at}");
        }
    }
    daemon.end();
    place.assert_nothing_left();
}

#[test]
fn an_agent_shows_nothing_of_what_was_discarded() {
    let place = Place::new();
    let daemon = Daemon::memory(&place, &place.socket(), &[]);
    let agent = Daemon::agent(&place, &place.socket(), &daemon.local().to_string(), &[]);
    let settings = options(daemon.local(), CHUNK, 16 * CHUNK).with_agent(Some(agent.local().clone()));
    let memory = connect(&settings);
    let region = RegionOptions {
        chunk: CHUNK,
        path: Path::Agent,
        cache: CacheMode::Dynamic,
        name: Some("cached".to_owned()),
        ..Default::default()
    };
    let mut mapping = memory.reserve((CHUNKS * CHUNK) as u64, &region).unwrap();
    assert!(memory.wait_for_agent(PATIENCE));
    let fill = |mapping: &outboard::FarMapping, value: u64| {
        (0..CHUNKS * CHUNK).step_by(4096).for_each(|at| words(mapping).write(at, &value.to_ne_bytes()));
    };
    for round in 1..4 {
        fill(&mapping, round);
        // The agent has it now.
        (0..CHUNKS * CHUNK).step_by(4096).for_each(|at| assert_eq!(word(&mapping, at), round));
        mapping.discard(0..100 * CHUNK).unwrap();
        // One page of each chunk is written, so that the rest is known to the server alone.
        (0..100).for_each(|chunk| words(&mapping).write(chunk * CHUNK, &9u64.to_ne_bytes()));
        for _ in 0..2 {
            for at in (0..CHUNKS * CHUNK).step_by(4096) {
                let expected = match at {
                    at if at >= 100 * CHUNK => round,
                    at if at % CHUNK == 0 => 9,
                    _ => 0,
                };
                assert_eq!(word(&mapping, at), expected, "at {at} in round {round}");
            }
        }
    }
    drop((mapping, memory));
    agent.end();
    daemon.end();
    place.assert_nothing_left();
}

#[test]
fn what_cannot_be_discarded_is_refused() {
    let place = Place::new();
    let daemon = Daemon::memory(&place, &place.socket(), &[]);
    let memory = connect(&options(daemon.local(), CHUNK, 32 * CHUNK));
    let region = RegionOptions { chunk: CHUNK, ..Default::default() };
    let mut mapping = memory.reserve((4 * CHUNK) as u64, &region).unwrap();
    let outside = mapping.discard(0..4 * CHUNK + 1).unwrap_err();
    assert!(matches!(outside, FarError::OutOfBounds { .. }), "{outside}");
    mapping.discard(CHUNK..CHUNK).unwrap();
    let mut mapping = mapping.freeze().unwrap();
    let frozen = mapping.discard(0..CHUNK).unwrap_err();
    assert!(matches!(frozen, FarError::ReadOnly { .. }), "{frozen}");
    drop(mapping);
    daemon.end();
    place.assert_nothing_left();
}
