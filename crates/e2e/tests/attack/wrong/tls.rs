//! Encrypted ports: what comes before trust, and what a member does with it.

use std::io::Write;

use outboard::{Address, Settings};
use outboard_e2e::Random;
use outboard_link::{Clock, Disposition, Exports, FrameSendError, Identity, Link, RemoteMemory, tcp};
use outboard_settings::KeysPlace;
use outboard_wire::Role;

use super::Episode;
use super::forge::{any_head, edge, some_bytes};
use super::raw::{Hung, connect_tcp, hello};
use crate::scene::Scene;

/// Bytes that are no TLS, or the beginning of it.
pub(super) fn strangers(scene: &Scene, random: &mut Random) -> Episode {
    let Some((Address::Tcp(at), _)) = &scene.secure else { return Ok(()) };
    for _ in 0..6 {
        let mut stream = connect_tcp(*at)?;
        let len = (edge(random) as u16).to_be_bytes();
        let record = [&[22, 3, 1 + random.below(4) as u8][..], &len, &some_bytes(4000, random)].concat();
        let bytes = match random.below(4) {
            0 => hello(Role::Application, random).encode().to_vec(),
            1 => random.bytes(500),
            2 => b"GET / HTTP/1.1\r\n\r\n".repeat(30),
            _ => record,
        };
        stream.write_all(&bytes)?;
    }
    Ok(())
}

/// Sends frames of any kind over a link of the library, which keeps the records below them in order.
pub(super) fn send_anything(link: &mut (impl Link + RemoteMemory), random: &mut Random) -> Episode {
    let clock = Clock::start();
    for _ in 0..300 {
        let head = any_head(random);
        // What the link says about itself ends it: seldom.
        if head.kind.is_for_link() && !random.once_in(50) {
            continue;
        }
        match link.send(head, &some_bytes(4096, random)) {
            Ok(()) | Err(FrameSendError::Full | FrameSendError::TooLong { .. }) => {}
            Err(FrameSendError::Lost(_)) => return Err(Hung),
        }
        link.flush().map_err(|_| Hung)?;
        link.progress(clock.now()).map_err(|_| Hung)?;
        if random.once_in(4) {
            link.receive(64, |_| Disposition::Taken).map_err(|_| Hung)?;
        }
    }
    Ok(())
}

/// A member of the cluster that is malicious.
pub(super) fn members(scene: &Scene, random: &mut Random) -> Episode {
    let Some((Address::Tcp(at), keys)) = &scene.secure else { return Ok(()) };
    let mut settings = Settings::default().link;
    settings.encryption = tcp::Encryption::All;
    settings.keys = KeysPlace::At(keys.clone());
    const ROLES: [Role; 4] = [Role::Application, Role::Agent, Role::MemoryServer, Role::Tool];
    let identity = Identity::new(ROLES[random.below(4) as usize], "member");
    let mut link = tcp::connect(*at, identity, Exports::new(), settings.tcp()).map_err(|_| Hung)?;
    send_anything(&mut link, random)
}
