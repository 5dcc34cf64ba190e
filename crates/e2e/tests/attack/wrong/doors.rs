//! At the front desk: who is no client, or never becomes one.

use std::io::Write;
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::time::Duration;

use outboard::Address;
use outboard_e2e::Random;
use outboard_wire::{HANDSHAKE_LEN, Role};
use rustix::net::SendFlags;
use rustix::net::sockopt::{set_socket_linger, set_tcp_quickack};

use super::Episode;
use super::forge::{edge, mutate};
use super::raw::{Raw, connect_tcp, hello};
use super::shm::connect_unix;
use crate::scene::Scene;

/// How many come at once.
const CROWD: usize = 60;

/// A connection on which nothing was said, by either way.
fn knock(at: &Address) -> Result<OwnedFd, super::raw::Hung> {
    match at {
        Address::Tcp(socket) => Ok(connect_tcp(*socket)?.into()),
        Address::Abstract(name) => connect_unix(name),
        Address::Ofi(_) | Address::Path(_) => Err(super::raw::Hung),
    }
}

fn say(to: &OwnedFd, bytes: &[u8]) -> Episode {
    rustix::net::send(to, bytes, SendFlags::NOSIGNAL)?;
    Ok(())
}

fn pause(random: &mut Random) {
    std::thread::park_timeout(Duration::from_millis(random.below(5)));
}

/// A browser, or a scanner: more than a hello has, and nobody reads what is answered.
pub(super) fn http(scene: &Scene, random: &mut Random) -> Episode {
    let request = format!(
        "GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: {}\r\nAccept: */*\r\n\r\n",
        "x".repeat(340 + random.below(40) as usize)
    );
    for _ in 0..1 + random.below(4) {
        let mut stream = connect_tcp(scene.any_port(random))?;
        // What is answered is acknowledged late, so that it is still to be delivered when the other side has hung up.
        set_tcp_quickack(&stream, false)?;
        stream.write_all(request.as_bytes())?;
        pause(random);
        drop(stream);
    }
    Ok(())
}

/// Some bytes of a hello, and then nothing, the rest much later, or the end.
pub(super) fn half_hello(scene: &Scene, random: &mut Random) -> Episode {
    let mut waiting = Vec::new();
    for _ in 0..1 + random.below(30) {
        let socket = knock(scene.any(random))?;
        let whole = hello(Role::Application, random).encode();
        let some = random.below(HANDSHAKE_LEN as u64) as usize;
        if random.once_in(3) {
            for byte in whole.chunks(1).take(some.min(20)) {
                say(&socket, byte)?;
            }
        } else {
            say(&socket, &whole[..some])?;
        }
        if !random.once_in(3) {
            waiting.push(socket);
        }
    }
    pause(random);
    Ok(())
}

/// A hello that is nearly one.
pub(super) fn wrong_hello(scene: &Scene, random: &mut Random) -> Episode {
    for _ in 0..8 {
        let mut said = hello(Role::Application, random);
        match random.below(4) {
            0 => said.versions.min = edge(random) as u16,
            1 => said.versions.max = edge(random) as u16,
            2 => said.intro.max_payload = edge(random) as u32,
            _ => {}
        }
        let mut bytes = said.encode().to_vec();
        if !random.once_in(4) {
            bytes = mutate(bytes, random);
        }
        let socket = knock(scene.any(random))?;
        say(&socket, &bytes)?;
        if random.once_in(2) {
            say(&socket, &random.bytes(64))?;
        }
    }
    Ok(())
}

/// Connections that end by a reset, before, in and after the handshake.
pub(super) fn reset(scene: &Scene, random: &mut Random) -> Episode {
    for _ in 0..6 {
        let stream: TcpStream = match random.below(3) {
            0 => connect_tcp(scene.any_port(random))?,
            1 => {
                let mut stream = connect_tcp(scene.any_port(random))?;
                stream.write_all(&hello(Role::Application, random).encode())?;
                stream
            }
            _ => match Raw::connect(&Address::Tcp(scene.any_port(random)), Role::Tool, random)? {
                Raw::Tcp(tcp) => tcp.stream,
                Raw::Shm(_) => continue,
            },
        };
        set_socket_linger(&stream, Some(Duration::ZERO))?;
    }
    Ok(())
}

/// Many who are clients in order, and do nothing. Some of them say goodbye.
pub(super) fn crowd(scene: &Scene, random: &mut Random) -> Episode {
    const ROLES: [Role; 4] = [Role::Application, Role::Agent, Role::MemoryServer, Role::Tool];
    let mut here = Vec::new();
    for _ in 0..CROWD {
        let role = ROLES[random.below(4) as usize];
        here.push(Raw::connect(scene.any(random), role, random)?);
    }
    random.shuffle(&mut here);
    pause(random);
    Ok(())
}
