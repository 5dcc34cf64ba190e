//! The endpoint for Prometheus: readers that are slow, say too much, or say nothing that can be read.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use outboard::Address;
use outboard_e2e::Random;
use rustix::net::sockopt::set_socket_linger;

use super::Episode;
use super::forge::mutate;
use super::raw::{Hung, connect_tcp};
use crate::scene::Scene;

const REQUEST: &[u8] = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
/// How many readers come at once: more than are heard at the same time.
const CROWD: u64 = 60;

fn reader(scene: &Scene) -> Result<TcpStream, Hung> {
    match scene.metrics {
        Address::Tcp(socket) => connect_tcp(socket),
        _ => Err(Hung),
    }
}

fn pause(random: &mut Random) {
    std::thread::park_timeout(Duration::from_millis(random.below(5)));
}

/// Readers that say a byte at a time, stop in the middle, or read nothing of what they are answered.
pub(super) fn slow(scene: &Scene, random: &mut Random) -> Episode {
    let mut readers = Vec::new();
    for _ in 0..1 + random.below(CROWD) {
        let mut reader = reader(scene)?;
        let said = 1 + random.below(REQUEST.len() as u64) as usize;
        match random.below(3) {
            0 => reader.write_all(&REQUEST[..said])?,
            1 => REQUEST[..said].chunks(1).take(20).try_for_each(|byte| reader.write_all(byte))?,
            _ => reader.write_all(REQUEST)?,
        }
        readers.push(reader);
    }
    random.shuffle(&mut readers);
    pause(random);
    // Some are reset with their answer unread.
    for reader in readers.iter().filter(|_| random.once_in(2)) {
        set_socket_linger(reader, Some(Duration::ZERO))?;
    }
    Ok(())
}

/// Bytes that are no request, and requests that are nearly one.
pub(super) fn garbage(scene: &Scene, random: &mut Random) -> Episode {
    for _ in 0..8 {
        let mut reader = reader(scene)?;
        let bytes = match random.below(4) {
            0 => random.bytes(500),
            1 => b"\r\n\r\n".to_vec(),
            2 => [b"GET /".to_vec(), random.bytes(100), b"\r\n\r\n".to_vec()].concat(),
            _ => mutate(REQUEST.to_vec(), random),
        };
        reader.write_all(&bytes)?;
        if random.once_in(2) {
            reader.set_read_timeout(Some(Duration::from_millis(20)))?;
            let _ = reader.read(&mut [0; 64]);
        }
    }
    Ok(())
}

/// Requests without an end.
pub(super) fn huge(scene: &Scene, random: &mut Random) -> Episode {
    let mut reader = reader(scene)?;
    let line = if random.once_in(2) { b"X: ".repeat(1000) } else { b"GET /metrics HTTP/1.1\r\n".repeat(100) };
    // It is hung up on long before.
    for _ in 0..1000 {
        reader.write_all(&line)?;
    }
    Ok(())
}
