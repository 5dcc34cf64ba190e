//! The agent that drains is killed again and again while writers write.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use outboard::{Address, WriteError, WriteOptions, WritePath, WriterOptions};
use outboard_e2e::{Daemon, PATIENCE, outboard, socket};

use crate::world::{Checker, Daemons, memory, outboard_at, writer};

/// How often the agent is killed.
const KILLS: u64 = 20;

/// The state of the writers, and the killer's word that it is over.
#[derive(Default)]
struct Scene {
    writes: AtomicU64,
    /// Whether an agent drains what each writer unloads.
    by_agent: [AtomicBool; 2],
    is_over: AtomicBool,
}

impl Scene {
    /// Waits until an agent drains for all writers, or for none.
    fn await_drainers(&self, by_agent: bool, threads: &[JoinHandle<u64>]) {
        let until = Instant::now() + PATIENCE;
        while self.by_agent.iter().any(|is| is.load(Ordering::Relaxed) != by_agent) {
            assert!(!threads.iter().any(JoinHandle::is_finished), "a writer has given up");
            assert!(Instant::now() < until, "drained by the agent: {by_agent} is never seen by all");
            std::thread::yield_now();
        }
    }
}

pub(crate) fn start_agent(at: &str, memory: &Address) -> Daemon {
    let memory = memory.to_string();
    let mut agent =
        Daemon::of(outboard(&["agent", "--listen", at, "--memory-servers", &memory, "--workers", "1"]));
    agent.process.await_said("connected to");
    agent
}

#[test]
fn nothing_is_lost_when_the_drainer_is_killed_and_writers_find_the_next_one() {
    let daemons = Daemons::start();
    let at = socket();
    let mut agent = Some(start_agent(&at, &daemons.shm()));
    let scene = Arc::new(Scene::default());
    let threads: Vec<_> = [daemons.shm(), daemons.tcp()]
        .into_iter()
        .enumerate()
        .map(|(number, address)| {
            let (scene, at) = (Arc::clone(&scene), at.clone());
            std::thread::spawn(move || write_on(&scene, &address, &at.parse().unwrap(), number))
        })
        .collect();
    let mut random = fastrand::Rng::with_seed(5);
    for _ in 0..KILLS {
        let until = scene.writes.load(Ordering::Relaxed) + random.u64(200..1500);
        while scene.writes.load(Ordering::Relaxed) < until {
            assert!(!threads.iter().any(JoinHandle::is_finished), "a writer has given up");
            std::thread::yield_now();
        }
        // Dropping kills it.
        drop(agent.take());
        scene.await_drainers(false, &threads);
        agent = Some(start_agent(&at, &daemons.shm()));
        scene.await_drainers(true, &threads);
    }
    scene.is_over.store(true, Ordering::Release);
    let resent: u64 = threads.into_iter().map(|thread| thread.join().expect("its bytes are right")).sum();
    println!("{resent} entries were sent again");
}

/// Writes and checks until it is over. Returns how many entries were sent again.
fn write_on(scene: &Scene, address: &Address, agent: &Address, number: usize) -> u64 {
    let outboard = outboard_at(address).with_agent(agent.clone());
    let seed = 31 + number as u64;
    let mut checker = Checker::at(&outboard, WriterOptions::default().with_writes_by_agent(), seed);
    loop {
        let is_last = scene.is_over.load(Ordering::Acquire);
        checker.rounds(1, |writer| {
            scene.writes.fetch_add(1, Ordering::Relaxed);
            let is_by_agent = writer.drained_by().contains("agent");
            scene.by_agent[number].store(is_by_agent, Ordering::Relaxed);
        });
        if is_last {
            return checker.stats().resent;
        }
    }
}

#[test]
fn a_writer_without_its_agent_goes_on_with_the_server() {
    let daemons = Daemons::start();
    let at = socket();
    let agent = start_agent(&at, &daemons.shm());
    let outboard = outboard_at(&daemons.shm()).with_agent(at.parse().unwrap());
    let mut checker = Checker::at(&outboard, WriterOptions::default().with_writes_by_agent(), 41);
    checker.rounds(2, |_| {});
    assert!(checker.writer.drained_by().contains("agent"), "{}", checker.writer.drained_by());
    drop(agent);
    checker.rounds(2, |_| {});
    assert!(checker.writer.drained_by().contains("memory"), "{}", checker.writer.drained_by());
}

#[test]
fn an_agent_that_does_not_know_the_server_is_done_without() {
    let daemons = Daemons::start();
    let at = socket();
    let _agent = Daemon::of(outboard(&["agent", "--listen", &at, "--memory-servers", "none"]));
    let outboard = outboard_at(&daemons.shm()).with_agent(at.parse().unwrap());
    Checker::at(&outboard, WriterOptions::default().with_writes_by_agent(), 51).rounds(2, |_| {});
}

#[test]
fn the_servers_death_ends_every_write_with_its_name() {
    let daemons = Daemons::start();
    let address = daemons.shm();
    let mut memory = memory(&address);
    let region = memory.reserve(1 << 16, None).unwrap();
    let mut writer = writer(&address, WriterOptions::default());
    let target = writer.open(&region).unwrap();
    drop(daemons);
    let began = std::time::Instant::now();
    let lost = loop {
        assert!(began.elapsed() < PATIENCE, "the loss is never told");
        if let Err(error) = writer.write(target, 0, b"in vain").and_then(|()| writer.flush()) {
            break error;
        }
        while writer.poll().is_some() {}
    };
    assert!(lost.to_string().contains("memory"), "{lost}");
}

#[test]
fn a_flush_does_not_call_visible_what_a_dead_server_never_took() {
    let daemons = Daemons::start();
    let options = WriterOptions { path: Some(WritePath::Unload), ..WriterOptions::default() };
    let (_memory, region, mut writer) = daemons.writer(&daemons.shm(), options);
    let target = writer.open(&region).unwrap();
    writer.write(target, 0, b"taken").unwrap();
    writer.flush().unwrap();
    daemons.stop();
    writer.write(target, 0, b"never taken").unwrap();
    drop(daemons);
    let lost = writer.flush().unwrap_err();
    assert!(lost.to_string().contains("memory"), "{lost}");
    assert!(writer.flush().is_err(), "and it stays so");
    assert!(writer.poll().expect("it is told").result.is_err());
}

/// How often a link over shared memory looks whether its peer lives; longer than it needs to.
const LOOK: Duration = Duration::from_millis(2);

#[test]
fn a_completion_does_not_call_visible_what_a_dead_server_can_show_nobody() {
    for path in [None, Some(WritePath::Offload)] {
        let daemons = Daemons::start();
        let options = WriterOptions { path, ..WriterOptions::default() };
        let (_memory, region, mut writer) = daemons.writer(&daemons.shm(), options);
        let target = writer.open(&region).unwrap();
        writer.write_with_signal(target, 0, b"seen").unwrap();
        writer.wait(PATIENCE).unwrap().result.unwrap();
        for number in 0..100_000 {
            writer.write(target, number % 1000 * 64, &[1; 64]).unwrap();
        }
        writer.flush().unwrap();
        drop(daemons);
        // tidy: allow(sleep) the promise begins when the link has had time to look
        std::thread::sleep(LOOK);
        // As long as nobody has looked these may begin.
        let begun: Vec<_> =
            (0..100).map_while(|_| writer.write_with_signal(target, 0, b"unseen").ok()).collect();
        for id in begun {
            let told = writer.wait(PATIENCE).expect("it is told");
            assert!(told.id == id && matches!(told.result, Err(WriteError::Lost(_))), "{told:?}");
        }
        let lost = writer.write_with_signal(target, 0, b"unseen").unwrap_err();
        assert!(matches!(lost, WriteError::Lost(_)), "{lost}");
        assert!(writer.flush().is_err());
    }
}

#[test]
fn whoever_only_writes_hears_within_1024_writes_that_the_server_is_gone() {
    for path in [None, Some(WritePath::Offload)] {
        for signal in [false, true] {
            let daemons = Daemons::start();
            let options = WriterOptions { path, ..WriterOptions::default() };
            let (_memory, region, mut writer) = daemons.writer(&daemons.shm(), options);
            let target = writer.open(&region).unwrap();
            for number in 0..100_000 {
                writer.write(target, number % 1000 * 64, &[1; 64]).unwrap();
            }
            drop(daemons);
            // tidy: allow(sleep) the promise begins when the link has had time to look
            std::thread::sleep(LOOK);
            let options = WriteOptions { signal, ..WriteOptions::default() };
            let begun = (0..5000).take_while(|_| writer.write_with(target, 0, b"unseen", options).is_ok());
            let begun = begun.count();
            assert!(begun <= 1056, "{begun} writes to memory that nobody has");
        }
    }
}
