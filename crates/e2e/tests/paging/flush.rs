//! A flush ends when the server has all that was written before it began, whatever other threads touch meanwhile.

use std::sync::Barrier;
use std::thread;

use outboard::{Advice, FarMapping, FarMemory, Memory, Path, RegionOptions};
use outboard_paging::application::chunks::{Event, State};
use outboard_wire::Rights;

use super::{FarSetup, await_edge, connect, options, words};
use outboard_e2e::{Daemon, Place};

const CHUNK: usize = 4096;
const CHUNKS: usize = 100;
const NAME: &str = "flushed";

/// Far memory with one region, and a look at what the server has of it.
struct Scene {
    memory: FarMemory,
    mapping: FarMapping,
    server: Memory,
}

impl Scene {
    fn set(options: &FarSetup) -> Self {
        let memory = connect(options);
        let region = RegionOptions {
            chunk: CHUNK,
            path: Path::Direct,
            name: Some(NAME.to_owned()),
            ..Default::default()
        };
        let mapping = memory.reserve((CHUNKS * CHUNK) as u64, &region).unwrap();
        let server = options.memory(options.places().remove(0)).unwrap();
        Self { memory, mapping, server }
    }

    /// The first word of each chunk, as the server has it.
    fn at_server(&mut self) -> Vec<u64> {
        let region = self.server.open(NAME, Rights::READ).unwrap();
        let mut bytes = vec![0; CHUNKS * CHUNK];
        self.server.read(&region, 0, &mut bytes).unwrap();
        let word = |chunk: &[u8]| u64::from_ne_bytes(chunk[..8].try_into().unwrap());
        bytes.chunks(CHUNK).map(word).collect()
    }

    fn write_all(&self, value: u64) {
        let words = words(&self.mapping);
        (0..CHUNKS).for_each(|chunk| words.write(chunk * CHUNK, &value.to_ne_bytes()));
    }

    fn read_all(&self) {
        let words = words(&self.mapping);
        (0..CHUNKS).for_each(|chunk| words.touch(chunk * CHUNK));
    }
}

fn settings(daemon: &Daemon) -> FarSetup {
    let mut options = options(daemon.remote(), CHUNK, 2 * CHUNKS * CHUNK);
    (options.threads, options.ahead) = (Some(1), 0);
    options
}

#[test]
fn what_is_touched_before_it_was_sent_is_flushed() {
    let place = Place::new();
    let daemon = Daemon::memory(&place, &place.socket(), &[]);
    let mut scene = Scene::set(&settings(&daemon));
    scene.write_all(1);
    daemon.process.stop();
    thread::scope(|scope| {
        let flush = scope.spawn(|| scene.mapping.flush());
        await_edge(&scene.memory, State::Resident, Event::LeaveDirty, CHUNKS as u64);
        // Some are on their way, the others wait until those have arrived; all come back here.
        scene.read_all();
        assert!(!flush.is_finished());
        daemon.process.go_on();
        flush.join().unwrap().unwrap();
    });
    assert_eq!(scene.at_server(), [1; CHUNKS]);
    scene.mapping.free().unwrap();
    daemon.end();
}

#[test]
fn what_was_written_while_older_bytes_were_on_their_way_is_flushed() {
    let place = Place::new();
    let daemon = Daemon::memory(&place, &place.socket(), &[]);
    let mut scene = Scene::set(&settings(&daemon));
    scene.write_all(1);
    daemon.process.stop();
    scene.mapping.advise(0..CHUNKS * CHUNK, Advice::DontNeed).unwrap();
    await_edge(&scene.memory, State::Dirty, Event::Save, 30);
    scene.write_all(2);
    let start = Barrier::new(2);
    thread::scope(|scope| {
        let flush = scope.spawn(|| {
            start.wait();
            scene.mapping.flush()
        });
        start.wait();
        thread::yield_now();
        daemon.process.go_on();
        flush.join().unwrap().unwrap();
    });
    assert_eq!(scene.at_server(), [2; CHUNKS]);
    scene.mapping.free().unwrap();
    daemon.end();
}

#[test]
fn what_is_pinned_is_flushed_and_stays_pinned() {
    let place = Place::new();
    let daemon = Daemon::memory(&place, &place.socket(), &[]);
    let mut scene = Scene::set(&settings(&daemon));
    scene.mapping.pin(0..CHUNKS / 2 * CHUNK).unwrap();
    scene.write_all(1);
    scene.mapping.flush().unwrap();
    assert_eq!(scene.at_server(), [1; CHUNKS]);
    // Those that are pinned are there already, so they have not to be waited for.
    daemon.process.stop();
    scene.mapping.advise(0..CHUNKS * CHUNK, Advice::DontNeed).unwrap();
    let before = scene.memory.stats();
    (0..CHUNKS / 2).for_each(|chunk| words(&scene.mapping).touch(chunk * CHUNK));
    let after = scene.memory.stats();
    assert_eq!((before.faults_fetched, before.faults_rescued), (after.faults_fetched, after.faults_rescued));
    daemon.process.go_on();
    scene.mapping.free().unwrap();
    daemon.end();
}
