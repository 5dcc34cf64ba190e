//! The agent that drains is killed again and again while writers write.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use outboard::{Address, Settings, WriteOptions, WritePath, WriterOptions};
use outboard_link::AccessError;

use crate::support::{PATIENCE, Running, socket};
use crate::world::{Checker, Daemons, identity, memory, writer};

/// How often the agent is killed.
const KILLS: u64 = 20;

/// What writers and the killer know of each other.
#[derive(Default)]
struct Scene {
    writes: AtomicU64,
    /// How many agents there have been.
    agents: AtomicU64,
    is_over: AtomicBool,
}

pub(crate) fn start_agent(at: &str, memory: &Address) -> Running {
    let (mut agent, _) = Running::daemon(&[
        "agent",
        "--listen",
        at,
        "--memory-servers",
        &memory.to_string(),
        "--workers",
        "1",
    ]);
    agent.await_line("connected to");
    agent
}

#[test]
fn nothing_is_lost_and_nothing_old_returns_when_the_drainer_is_killed() {
    let daemons = Daemons::start();
    let at = socket();
    let mut agent = Some(start_agent(&at, &daemons.shm()));
    let scene = Arc::new(Scene::default());
    let threads: Vec<_> = [(daemons.shm(), 31), (daemons.tcp(), 32)]
        .into_iter()
        .map(|(address, seed)| {
            let (scene, at) = (Arc::clone(&scene), at.clone());
            std::thread::spawn(move || write_on(&scene, &address, &at.parse().unwrap(), seed))
        })
        .collect();
    let mut random = fastrand::Rng::with_seed(5);
    for _ in 0..KILLS {
        let until = scene.writes.load(Ordering::Relaxed) + random.u64(200..1500);
        while scene.writes.load(Ordering::Relaxed) < until {
            assert!(!threads.iter().any(std::thread::JoinHandle::is_finished), "a writer has given up");
            std::thread::yield_now();
        }
        // Dropping kills it.
        drop(agent.take());
        agent = Some(start_agent(&at, &daemons.shm()));
        scene.agents.fetch_add(1, Ordering::Release);
    }
    scene.is_over.store(true, Ordering::Release);
    let resent: u64 = threads.into_iter().map(|thread| thread.join().expect("its bytes are right")).sum();
    println!("{resent} entries were sent again");
}

/// Writes and checks until it is over, and always goes back to the agent. Returns how many entries were sent again.
fn write_on(scene: &Scene, address: &Address, agent: &Address, seed: u64) -> u64 {
    let options = WriterOptions { agent: Some(agent.clone()), ..WriterOptions::default() };
    let mut checker = Checker::new(address, options, seed);
    let mut known = 0;
    let settings = Settings::default();
    loop {
        let is_last = scene.is_over.load(Ordering::Acquire);
        checker.rounds(1, |writer| {
            scene.writes.fetch_add(1, Ordering::Relaxed);
            let agents = scene.agents.load(Ordering::Acquire);
            if agents != known && writer.drain_by(agent, identity(), &settings.link).is_ok() {
                known = agents;
            }
        });
        if is_last {
            return checker.counts().resent;
        }
    }
}

#[test]
fn a_writer_without_its_agent_goes_on_with_the_server() {
    let daemons = Daemons::start();
    let at = socket();
    let agent = start_agent(&at, &daemons.shm());
    let options = WriterOptions { agent: Some(at.parse().unwrap()), ..WriterOptions::default() };
    let mut checker = Checker::new(&daemons.shm(), options, 41);
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
    let (_agent, _) = Running::daemon(&["agent", "--listen", &at, "--memory-servers", "none"]);
    let options = WriterOptions { agent: Some(at.parse().unwrap()), ..WriterOptions::default() };
    Checker::new(&daemons.shm(), options, 51).rounds(2, |_| {});
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
            assert!(told.id == id && matches!(told.result, Err(AccessError::Lost(_))), "{told:?}");
        }
        let lost = writer.write_with_signal(target, 0, b"unseen").unwrap_err();
        assert!(matches!(lost, AccessError::Lost(_)), "{lost}");
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
