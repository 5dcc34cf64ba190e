//! After a handshake in order: records, and frames that no service has asked for.

use std::io::Write;
use std::net::Shutdown;

use outboard::Address;
use outboard_e2e::Random;
use outboard_wire::liveness::Liveness;
use outboard_wire::trial::{GIVE, TrialLength};
use outboard_wire::{FrameHead, Role, Text};

use super::Episode;
use super::forge::{any_head, edge, some_bytes};
use super::raw::{Hung, Raw, RawTcp, record};
use crate::scene::Scene;

fn tcp(scene: &Scene, random: &mut Random) -> Result<RawTcp, Hung> {
    match Raw::connect(&Address::Tcp(scene.any_port(random)), Role::Application, random)? {
        Raw::Tcp(tcp) => Ok(tcp),
        Raw::Shm(_) => Err(Hung),
    }
}

/// A link that breaks the rules is told so, and does not listen.
pub(super) fn bad_marker(scene: &Scene, random: &mut Random) -> Episode {
    let mut link = tcp(scene, random)?;
    // Something to be answered, so that the other side has something to say that nobody reads.
    let asked = record(FrameHead::new(GIVE), &TrialLength(100_000).encode());
    link.stream.write_all(&asked.repeat(random.below(40) as usize))?;
    link.stream.write_all(&[0xff; 64])?;
    if random.once_in(2) {
        std::thread::park_timeout(std::time::Duration::from_millis(random.below(20)));
    }
    Ok(())
}

/// Lengths that are lies, and records that end in the middle.
pub(super) fn lengths(scene: &Scene, random: &mut Random) -> Episode {
    for _ in 0..4 {
        let mut link = tcp(scene, random)?;
        let mut bytes = record(any_head(random), &some_bytes(4096, random));
        if random.once_in(2) {
            bytes[..4].copy_from_slice(&(edge(random) as u32).to_le_bytes());
        }
        let end = random.below(bytes.len() as u64 + 1) as usize;
        link.stream.write_all(&bytes[..end])?;
        match random.below(3) {
            0 => link.stream.shutdown(Shutdown::Write)?,
            1 => link.stream.shutdown(Shutdown::Read)?,
            _ => {}
        }
    }
    Ok(())
}

/// Asks for as much as there is and reads nothing, by either way.
pub(super) fn never_listens(scene: &Scene, random: &mut Random) -> Episode {
    let mut link = Raw::connect(scene.any(random), Role::Application, random)?;
    // More than answers are kept for, so that the next question is not even read.
    for _ in 0..4000 {
        let len = if random.once_in(4) { edge(random) } else { 128 << 10 };
        if !link.frame(FrameHead::new(GIVE).with_tag(random.next() as u32), &TrialLength(len).encode())? {
            break;
        }
    }
    std::thread::park_timeout(std::time::Duration::from_millis(50 + random.below(100)));
    Ok(())
}

/// What is said about the link itself, when nobody expects it.
pub(super) fn liveness(scene: &Scene, random: &mut Random) -> Episode {
    let mut link = Raw::connect(scene.any(random), Role::Application, random)?;
    for _ in 0..500 {
        let said = match random.below(40) {
            0 => Liveness::Goodbye { code: edge(random) as u16, reason: Text::new("or not") },
            1..20 => Liveness::Pong(edge(random)),
            _ => Liveness::Ping(edge(random)),
        };
        let mut payload = Vec::new();
        said.encode(&mut payload);
        let sent = match &mut link {
            Raw::Shm(shm) if random.once_in(2) => shm.message(FrameHead::new(said.kind()), &payload, &[])?,
            link => link.frame(FrameHead::new(said.kind()), &payload)?,
        };
        if !sent {
            break;
        }
    }
    Ok(())
}

/// Frames of every kind there is and of others, to every room, as anybody.
pub(super) fn nonsense(scene: &Scene, random: &mut Random) -> Episode {
    const ROLES: [Role; 4] = [Role::Application, Role::Agent, Role::MemoryServer, Role::Tool];
    let role = ROLES[random.below(4) as usize];
    let mut link = Raw::connect(scene.any(random), role, random)?;
    for _ in 0..300 {
        let head = any_head(random);
        // The link's own frames end most links: they come from others.
        if head.kind.is_for_link() && !random.once_in(50) {
            continue;
        }
        link.frame(head, &some_bytes(4096, random))?;
        if random.once_in(16) {
            link.take();
        }
    }
    Ok(())
}
