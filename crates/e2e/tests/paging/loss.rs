//! Memory servers that stop, go on, die and come back as somebody else.

use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use outboard::{Address, Advice, Path, RegionOptions};
use outboard_e2e::{Daemon, PATIENCE, Place, Process, Random, await_state, seed};
use rustix::process::Signal;

use super::mixture::{IsDone, Run, play};
use super::user::{Act, TOLD_OF_SIGNALS, User, share};
use super::{connect, not_known_to_be_zero, options, words};

/// How long a server may be away where a test wants to see the end of patience.
const SHORT: Duration = Duration::from_millis(200);
/// And where it does not.
const LONG: Duration = Duration::from_secs(600);

/// A server at fixed doors, so that another can take its place.
fn serve(place: &Place, at: &[&str]) -> Daemon {
    let listen: Vec<&str> = at.iter().flat_map(|at| ["--listen", at]).collect();
    Daemon::start(place, "memory", "proof-memory", &[&listen[..], &["--capacity", "64MiB"]].concat())
}

fn begin(place: &Place, act: Act, server: &Address, grace: Duration) -> Process {
    let mut process = User { act, server: server.clone(), agent: None, grace }.start(place);
    process.await_line(["working"]);
    process
}

/// The one line that tells people what was lost, where, and why.
#[track_caller]
fn assert_told(said: &[String], server: &Daemon, pid: u32, why: &str) {
    let told: Vec<&String> = said.iter().filter(|line| line.starts_with("outboard: far memory")).collect();
    assert_eq!(told.len(), 1, "{said:?}");
    for part in ["“precious”", &server.name, &format!("(process {pid})"), why, "SIGBUS"] {
        assert!(told[0].contains(part), "no “{part}” in {}", told[0]);
    }
}

#[test]
fn the_death_of_a_server_is_a_sigbus_where_its_bytes_are_needed() {
    let place = Place::new();
    for way in 0..2 {
        for act in [Act::Touch(1), Act::Touch(2), Act::Die] {
            let daemon = serve(&place, &[&place.socket(), "tcp:127.0.0.1:0"]);
            let server = [daemon.local(), daemon.remote()][way].clone();
            let mut user = begin(&place, act, &server, SHORT);
            let pid = daemon.process.pid();
            daemon.process.signal(Signal::KILL);
            user.tell("go");
            user.await_line(["what is here is as it was"]);
            let (status, said) = user.exit();
            match act {
                Act::Touch(threads) => {
                    assert_eq!(status.code(), Some(TOLD_OF_SIGNALS), "{said:?}");
                    for thread in 0..threads {
                        let has_told = |chunk: &usize| said.contains(&format!("SIGBUS  at chunk {chunk:03}"));
                        assert_eq!(share(thread).filter(|chunk| has_told(chunk)).count(), 1, "{said:?}");
                    }
                }
                _ => assert_eq!(status.signal(), Some(libc::SIGBUS), "{said:?}"),
            }
            assert_told(&said, &daemon, pid, "it has been away for 0.2 s");
            daemon.process.exit();
        }
    }
    place.assert_nothing_left();
}

#[test]
fn whoever_has_nothing_but_changes_here_is_told_of_a_lost_server_too() {
    let place = Place::new();
    for way in 0..2 {
        let daemon = serve(&place, &[&place.socket(), "tcp:127.0.0.1:0"]);
        let server = [daemon.local(), daemon.remote()][way].clone();
        let mut user = begin(&place, Act::Full, &server, SHORT);
        daemon.process.signal(Signal::KILL);
        user.tell("go");
        user.await_line(["what is here is as it was"]);
        let (status, said) = user.exit();
        assert_eq!(status.code(), Some(TOLD_OF_SIGNALS), "{said:?}");
        daemon.process.exit();
    }
    place.assert_nothing_left();
}

#[test]
fn an_agent_does_not_hide_the_death_of_a_server() {
    let place = Place::new();
    for by_tcp in [false, true] {
        let daemon = serve(&place, &[&place.socket(), "tcp:127.0.0.1:0"]);
        let mut agent = Daemon::agent(&place, &place.socket(), &daemon.local().to_string(), &[]);
        agent.await_number("memory_servers_connected", 1);
        let doors =
            if by_tcp { [&daemon, &agent].map(Daemon::remote) } else { [&daemon, &agent].map(Daemon::local) };
        let [server, by] = doors.map(Address::clone);
        let mut user = User { act: Act::Touch(2), server, agent: Some(by), grace: SHORT }.start(&place);
        user.await_line(["working"]);
        let pid = daemon.process.pid();
        daemon.process.signal(Signal::KILL);
        user.tell("go");
        let (status, said) = user.exit();
        assert_eq!(status.code(), Some(TOLD_OF_SIGNALS), "{said:?}");
        assert_told(&said, &daemon, pid, "it has been away for 0.2 s");
        daemon.process.exit();
        agent.end();
    }
    place.assert_nothing_left();
}

#[test]
fn another_server_in_its_place_is_refused() {
    let place = Place::new();
    for by_tcp in [false, true] {
        let local = place.socket();
        let first = serve(&place, &[&local, "tcp:127.0.0.1:0"]);
        let remote = first.remote().to_string();
        let at = if by_tcp { first.remote().clone() } else { first.local().clone() };
        let mut user = begin(&place, Act::Touch(2), &at, LONG);
        first.process.kill();
        user.tell("go");
        user.await_line(["touching"]);
        let second = serve(&place, &[&local, &remote]);
        let (status, said) = user.exit();
        assert_eq!(status.code(), Some(TOLD_OF_SIGNALS), "{said:?}");
        assert_told(&said, &second, second.process.pid(), "it has been started anew and no longer has it");
        second.end();
    }
    place.assert_nothing_left();
}

/// Stops a server for longer than its links wait, again and again.
fn stop_and_go(daemon: &Daemon, seed: u64, is_done: IsDone<'_>) {
    let mut random = Random::new(seed);
    while !is_done() {
        daemon.process.stop();
        let longest = if random.once_in(2) { 600 } else { 20 };
        daemon.process.idle(Duration::from_millis(random.below(longest)));
        daemon.process.go_on();
        daemon.process.idle(Duration::from_millis(random.below(50)));
    }
}

#[test]
fn a_server_that_stops_and_goes_on_loses_nothing() {
    let place = Place::new();
    let terms = ["--linger", "1h", "--link-deadline", "250ms", "--link-heartbeat", "50ms"];
    let daemon = Daemon::memory(&place, &place.socket(), &terms);
    let seed = seed();
    let ways = [(daemon.remote(), 4096), (daemon.remote(), 65_536), (daemon.local(), 4096)];
    for (number, (at, chunk)) in (0..).zip(ways) {
        let run = Run::new(chunk, 2);
        let mut options = options(at, run.largest(), run.buffer());
        (options.threads, options.grace) = (Some(2), LONG);
        play(&options, &run, seed + number, |is_done| stop_and_go(&daemon, seed, is_done));
    }
    daemon.end();
    place.assert_nothing_left();
}

/// What was asked for in advance and is no longer wanted holds nobody up.
#[test]
fn a_region_can_be_dropped_while_its_chunks_are_on_their_way() {
    let place = Place::new();
    let daemon = Daemon::memory(&place, &place.socket(), &["--linger", "1h"]);
    for at in [daemon.local(), daemon.remote()] {
        let (chunk, chunks) = (4096, 4096);
        let mut options = options(at, chunk, chunk * chunks);
        // A wait for whoever does not answer would be one for so long.
        (options.grace, options.link.deadline) = (LONG, PATIENCE);
        let memory = connect(&options);
        let region = RegionOptions { chunk, path: Path::Direct, ..Default::default() };
        for round in 0..3 {
            let name = format!("round {round} at {at}");
            let array = not_known_to_be_zero(&memory, &name, chunk * chunks, &region);
            daemon.process.stop();
            array.advise(0..chunk * chunks, Advice::WillNeed).unwrap();
            await_state("chunks that are asked for", || match memory.stats().chunks_ahead {
                0 => Err("none".to_owned()),
                some => Ok(some),
            });
            daemon.process.go_on();
            let began = Instant::now();
            drop(array);
            assert!(began.elapsed() < options.link.deadline, "{:?}", began.elapsed());
        }
        // All places in the buffer can be had again.
        let mapping = memory.reserve((chunk * chunks) as u64, &region).unwrap();
        (0..chunks).for_each(|index| words(&mapping).write(index * chunk, &[1]));
        mapping.flush().unwrap();
    }
    daemon.end();
    place.assert_nothing_left();
}
