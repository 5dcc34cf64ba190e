//! Fabrics: the socket beside one, and what a member sends over it.

use std::io::Write;

use outboard::{Address, Settings};
use outboard_e2e::Random;
use outboard_link::{Exports, Identity, ofi};
use outboard_wire::Role;

use super::Episode;
use super::forge::{edge, mutate};
use super::raw::{Hung, connect_tcp, hello};
use super::tls::send_anything;
use crate::scene::Scene;

/// How long the first words on the socket beside a fabric are.
const PREFACE_LEN: usize = 344;

/// Words on the socket that offer an endpoint which is none.
pub(super) fn strangers(scene: &Scene, random: &mut Random) -> Episode {
    let Some(Address::Ofi(at)) = &scene.fabric else { return Ok(()) };
    let mut stream = connect_tcp(*at)?;
    let mut preface = [&b"outb-ofi"[..], &[0; PREFACE_LEN - 8]].concat();
    preface[8..12].copy_from_slice(&(edge(random) as u32).to_le_bytes());
    preface[12..16].copy_from_slice(&(edge(random) as u32).to_le_bytes());
    let bytes = match random.below(4) {
        0 => preface,
        1 => mutate(preface, random),
        2 => hello(Role::Application, random).encode().to_vec(),
        _ => random.bytes(400),
    };
    stream.write_all(&bytes)?;
    std::thread::park_timeout(std::time::Duration::from_millis(random.below(50)));
    Ok(())
}

/// A member of the fabric that is malicious.
pub(super) fn members(scene: &Scene, random: &mut Random) -> Episode {
    let Some(Address::Ofi(at)) = &scene.fabric else { return Ok(()) };
    let settings = Settings::default().link;
    let identity = Identity::new(Role::Application, "member");
    let mut link = ofi::connect(*at, identity, Exports::new(), settings.ofi()).map_err(|_| Hung)?;
    send_anything(&mut link, random)
}
