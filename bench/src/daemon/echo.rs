//! How long does a client wait for an agent's answer?

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use outboard::{Client, Settings};
use outboard_link::{Address, Identity};
use outboard_wire::Role;

use super::host::{Host, MESSAGE_LEN};
use crate::BenchError;
use crate::error::Named;
use crate::harness::{Duel, Effort, Figure, Progress, Round, Side, Unit};

const VERSUS: &str =
    "a bare Unix socket ping-pong with the same process: 64 bytes each way, both sides sleep";

/// How many questions make a round.
const TRIPS: u64 = 300;

pub(super) fn ask(host: &Host, effort: Effort, progress: &Progress) -> Result<Vec<Figure>, BenchError> {
    let mut bare = host.bare_socket()?;
    let mut figures = Vec::new();
    for (name, at) in [("daemon.echo.shm.p50", &host.local), ("daemon.echo.tcp.p50", &host.remote)] {
        let mut client = connect(at)?;
        let trips = effort.items(TRIPS);
        let duel = Duel::run(effort, progress, |side| match side {
            Side::Ours => times(trips, || Ok(client.echo(&[7; MESSAGE_LEN]).map(drop)?)),
            Side::Yardstick => times(trips, || ping(&mut bare)),
        })?;
        figures.push(duel.figure(name, Unit::Nanoseconds, 1.0, VERSUS));
        client.close("that was all");
    }
    Ok(figures)
}

/// A client that asks.
pub(super) fn connect(at: &Address) -> Result<Client, BenchError> {
    let identity = Identity::new(Role::Application, "asking client");
    Ok(Client::connect(at, identity, &Settings::default().link)?)
}

fn times(count: u64, mut trip: impl FnMut() -> Result<(), BenchError>) -> Result<Round, BenchError> {
    let time = |_| {
        let began = Instant::now();
        trip().map(|()| began.elapsed().as_nanos() as u32)
    };
    (0..count).map(time).collect::<Result<_, _>>().map(Round::times)
}

fn ping(bare: &mut UnixStream) -> Result<(), BenchError> {
    let mut message = [7; MESSAGE_LEN];
    bare.write_all(&message).named("write")?;
    bare.read_exact(&mut message).named("read")
}
