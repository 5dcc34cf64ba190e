//! Far memory by an agent: its cache never shows what is old, and its death costs nothing but time.

use std::time::{Duration, Instant};

use outboard::{CacheMode, FarMapping, FarMemory, FarStats, Path, RegionOptions};
use outboard_e2e::{Daemon, PATIENCE, Place, Random, await_state, seed};

use super::mixture::{IsDone, Run, play};
use super::{connect, options, words};

const CHUNK: usize = 4096;

/// All that an agent may be asked to do with a region that is written.
const MODES: [(Path, CacheMode); 6] = [
    (Path::Agent, CacheMode::Off),
    (Path::Agent, CacheMode::Dynamic),
    (Path::Agent, CacheMode::Static),
    (Path::Agent, CacheMode::Auto),
    (Path::Auto, CacheMode::Dynamic),
    (Path::Auto, CacheMode::Auto),
];

fn run(chunk: usize, mode: (Path, CacheMode)) -> Run {
    Run { path: mode.0, cache: mode.1, ..Run::new(chunk, 2) }
}

#[test]
fn what_goes_by_an_agent_is_never_old() {
    let place = Place::new();
    let memory = Daemon::memory(&place, &place.socket(), &[]);
    let mut agent = Daemon::agent(&place, &place.socket(), &memory.local().to_string(), &[]);
    agent.await_number("memory_servers_connected", 1);
    let seed = seed();
    for (number, mode) in (0..).zip(MODES) {
        for by_tcp in [false, true] {
            let (server, by) = match by_tcp {
                false => (memory.local(), agent.local()),
                true => (memory.remote(), agent.remote()),
            };
            let run = run(if by_tcp { 65_536 } else { 4096 }, mode);
            println!("{run:?} by {by}");
            let options = options(server, run.largest(), run.buffer()).with_agent(Some(by.clone()));
            play(&options, &run, seed + 2 * number + u64::from(by_tcp), |_| {});
        }
    }
    agent.end();
    memory.end();
    place.assert_nothing_left();
}

#[test]
fn an_agent_that_stops_is_passed_by() {
    let place = Place::new();
    let memory = Daemon::memory(&place, &place.socket(), &[]);
    let mut agent = Daemon::agent(&place, &place.socket(), &memory.local().to_string(), &[]);
    agent.await_number("memory_servers_connected", 1);
    for path in [Path::Agent, Path::Auto] {
        let options = options(memory.local(), CHUNK, 16 * CHUNK).with_agent(Some(agent.local().clone()));
        let far = connect(&options);
        let region = RegionOptions { chunk: CHUNK, path, cache: CacheMode::Dynamic, ..Default::default() };
        let mapping = far.reserve(64 * CHUNK as u64, &region).unwrap();
        assert!(far.wait_for_agent(Duration::from_secs(20)));
        (0..64).for_each(|chunk| words(&mapping).add(chunk * CHUNK, 1));
        agent.process.stop();
        // Nobody else is there to answer, and nothing is told of the agent's state by its links.
        (0..3).for_each(|_| (0..64).for_each(|chunk| words(&mapping).add(chunk * CHUNK, 1)));
        mapping.flush().unwrap();
        agent.process.go_on();
        (0..64).for_each(|chunk| words(&mapping).add(chunk * CHUNK, 1));
        for chunk in 0..64 {
            let mut word = [0; 8];
            words(&mapping).read(chunk * CHUNK, &mut word);
            assert_eq!(u64::from_ne_bytes(word), 5, "chunk {chunk}, {path:?}");
        }
    }
    agent.end();
    memory.end();
    place.assert_nothing_left();
}

/// Kills the agent and starts another in its place, again and again.
fn die_and_live(agent: &mut Option<Daemon>, start: &dyn Fn() -> Daemon, seed: u64, is_done: IsDone<'_>) {
    let mut random = Random::new(seed);
    while !is_done() {
        if let Some(agent) = agent.take() {
            agent.process.idle(Duration::from_millis(random.below(60)));
            agent.process.kill();
        }
        *agent = Some(start());
    }
}

#[test]
fn the_death_of_an_agent_loses_nothing() {
    let place = Place::new();
    let memory = Daemon::memory(&place, &place.socket(), &[]);
    let at = place.socket();
    let start = || Daemon::agent(&place, &at, &memory.local().to_string(), &[]);
    let mut agent = Some(start());
    let seed = seed();
    for (number, mode) in (0..).zip(MODES) {
        let run = run(4096, mode);
        println!("{run:?}");
        let by = at.parse().unwrap();
        let options = options(memory.local(), run.largest(), run.buffer()).with_agent(Some(by));
        play(&options, &run, seed + number, |is_done| die_and_live(&mut agent, &start, seed, is_done));
    }
    if let Some(agent) = agent {
        agent.end();
    }
    memory.end();
    place.assert_nothing_left();
}

/// Uses a region, all of it by turns, until chunks come by the agent.
#[track_caller]
fn await_flow(memory: &FarMemory, mapping: &FarMapping) {
    let by_agent = |stats: FarStats| stats.traffic.by_agent + stats.traffic.by_copy;
    let before = by_agent(memory.stats());
    let mut chunk = 0;
    await_state("bytes that come by the agent", || {
        chunk += 1;
        // Half of it is written, by the agent or past it.
        let (at, value) = (chunk * CHUNK % mapping.len(), chunk as u64);
        match chunk % 2 {
            0 => words(mapping).touch(at),
            _ => words(mapping).write(at, &value.to_ne_bytes()),
        }
        if by_agent(memory.stats()) > before { Ok(()) } else { Err(format!("{:?}", memory.stats())) }
    });
}

#[test]
fn the_application_goes_on_without_its_agent_and_the_work_flows_back() {
    let place = Place::new();
    let memory = Daemon::memory(&place, &place.socket(), &[]);
    for mode in MODES.into_iter().filter(|(path, _)| *path == Path::Agent) {
        let at = place.socket();
        let start = || Daemon::agent(&place, &at, &memory.local().to_string(), &[]);
        let mut options = options(memory.local(), CHUNK, 16 * CHUNK).with_agent(Some(at.parse().unwrap()));
        options.ahead = 0;
        // A wait until the agent is given up would be one for so long.
        options.link.deadline = PATIENCE;
        let agent = start();
        let far = connect(&options);
        let region = RegionOptions { chunk: CHUNK, path: mode.0, cache: mode.1, ..Default::default() };
        let mapping = far.reserve(64 * CHUNK as u64, &region).unwrap();
        await_flow(&far, &mapping);
        agent.process.kill();
        let began = Instant::now();
        (0..64).for_each(|chunk| words(&mapping).write(chunk * CHUNK, &[1]));
        assert!(began.elapsed() < PATIENCE, "{:?} without an agent", began.elapsed());
        let agent = start();
        await_flow(&far, &mapping);
        assert_eq!(far.stats().agent_losses, 2, "one of each fault thread");
        drop(mapping);
        agent.end();
    }
    memory.end();
    place.assert_nothing_left();
}

/// One that is stopped is not dead, but of no use.
#[test]
fn the_application_goes_on_past_an_agent_that_does_not_answer() {
    let place = Place::new();
    let memory = Daemon::memory(&place, &place.socket(), &[]);
    for by_tcp in [false, true] {
        let agent = Daemon::agent(&place, &place.socket(), &memory.local().to_string(), &[]);
        let at = if by_tcp { agent.remote() } else { agent.local() };
        let mut options = options(memory.local(), CHUNK, 16 * CHUNK).with_agent(Some(at.clone()));
        options.ahead = 0;
        let far = connect(&options);
        let region = RegionOptions { chunk: CHUNK, path: Path::Agent, ..Default::default() };
        let mapping = far.reserve(64 * CHUNK as u64, &region).unwrap();
        await_flow(&far, &mapping);
        agent.process.stop();
        (0..64).for_each(|chunk| words(&mapping).write(chunk * CHUNK, &[1]));
        mapping.flush().unwrap();
        agent.process.go_on();
        await_flow(&far, &mapping);
        drop(mapping);
        agent.end();
    }
    memory.end();
    place.assert_nothing_left();
}
