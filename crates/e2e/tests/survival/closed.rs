//! Connections that end with bytes under way: the daemon keeps neither their descriptors nor their places in its poll sets.

use std::fs;

use outboard_e2e::{Daemon, Place, await_state};
use outboard_wire::HANDSHAKE_LEN;

use crate::nonsense::{Stranger, hello};

/// How many strangers do the same, one after the other.
const STRANGERS: usize = 16;

/// What a process holds: how many descriptors, and how many of them are watched.
fn holdings(process: u32) -> (usize, usize) {
    let files = |folder: &str| {
        fs::read_dir(format!("/proc/{process}/{folder}")).unwrap().flatten().collect::<Vec<_>>()
    };
    // A descriptor may be closed between two looks.
    let information = files("fdinfo").into_iter().filter_map(|file| fs::read_to_string(file.path()).ok());
    let watched = information.map(|text| text.lines().filter(|line| line.starts_with("tfd:")).count());
    (files("fd").len(), watched.sum())
}

/// Strangers do something at the daemon's port, which it counts by this name; after that it holds what it held before.
fn leaves_nothing(counted: &str, misbehave: impl Fn(&Stranger)) {
    let place = Place::new();
    let mut memory = Daemon::memory(&place, &place.socket(), &[]);
    let process = memory.process.pid();
    assert_eq!(memory.number(counted), 0);
    let before = holdings(process);
    // They stay, and do not even look at what the daemon has said.
    let strangers: Vec<Stranger> = (0..STRANGERS).map(|_| Stranger::connect(memory.remote())).collect();
    strangers.iter().for_each(misbehave);
    memory.await_number(counted, STRANGERS as u64);
    await_state(&format!("{before:?} descriptors and watches"), || match holdings(process) {
        now if now <= before => Ok(()),
        now => Err(format!("{now:?}")),
    });
    drop(strangers);
    memory.end();
    place.assert_nothing_left();
}

#[test]
fn a_refusal_that_is_not_read() {
    leaves_nothing("errors_total", |stranger| {
        let request = format!("GET / HTTP/1.1\r\nHost: localhost\r\nX-Padding: {}\r\n\r\n", "x".repeat(380));
        stranger.send(request.as_bytes());
    });
}

#[test]
fn a_farewell_that_is_not_read() {
    leaves_nothing("clients_lost_total", |stranger| {
        stranger.send(&hello());
        assert_eq!(stranger.receive().len(), HANDSHAKE_LEN);
        stranger.send(&[0xff; 64]);
    });
}
