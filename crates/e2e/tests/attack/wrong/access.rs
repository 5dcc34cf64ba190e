//! One-sided access as messages: slots, spans and keys that were made up.

use outboard::Address;
use outboard_e2e::Random;
use outboard_wire::access::{AccessReply, AccessRequest, AccessStatus, RegionSpan, Slot};
use outboard_wire::trial::GRANT;
use outboard_wire::{FrameHead, Generation, RegionId, Role};

use super::Episode;
use super::forge::{edge, key, mostly_below, perhaps, rights};
use super::raw::{Hung, Raw};
use crate::scene::Scene;

fn link(scene: &Scene, random: &mut Random) -> Result<Raw, Hung> {
    Raw::connect(&Address::Tcp(scene.any_port(random)), Role::Application, random)
}

fn ask(link: &mut Raw, tag: u32, request: &AccessRequest, data: &[u8]) -> Result<bool, Hung> {
    let payload = [request.encode().as_bytes(), data].concat();
    link.frame(FrameHead::new(request.kind()).with_tag(tag), &payload)
}

/// Opens the region that everybody may open, and returns its slot.
fn open_trial(link: &mut Raw) -> Result<Slot, Hung> {
    let (region, generation, key) = (GRANT.region, GRANT.generation, GRANT.key);
    let request = AccessRequest::Open { region, generation, rights: GRANT.rights, key };
    ask(link, 1, &request, &[])?;
    let (head, payload) = link.await_frame(|head| AccessReply::is_reply(head.kind))?;
    match AccessReply::decode(head.kind, payload.get(..AccessReply::FIXED_LEN).unwrap_or_default()) {
        Ok(AccessReply::Opened { status: AccessStatus::Done, slot, .. }) => Ok(slot),
        _ => Err(Hung),
    }
}

/// Guesses.
pub(super) fn keys(scene: &Scene, random: &mut Random) -> Episode {
    let mut link = link(scene, random)?;
    for tag in 0..200 {
        let region = match random.below(3) {
            0 => RegionId(u64::MAX - random.below(4)),
            _ => RegionId(mostly_below(64, random)),
        };
        let generation = Generation(mostly_below(4, random) as u32);
        let request = AccessRequest::Open { region, generation, rights: rights(random), key: key(random) };
        ask(&mut link, tag, &request, &[])?;
        link.take();
    }
    Ok(())
}

fn span(slot: Slot, random: &mut Random) -> RegionSpan {
    let slot = match random.below(4) {
        0 => Slot(edge(random) as u32),
        1 => Slot(slot.0.wrapping_add((random.below(4) as u32) << 16)),
        _ => slot,
    };
    RegionSpan { slot, offset: mostly_below(64 << 20, random), len: mostly_below(4096, random) as u32 }
}

/// Every access of every place, right and wrong, some as answers.
pub(super) fn spans(scene: &Scene, random: &mut Random) -> Episode {
    let mut link = link(scene, random)?;
    let slot = open_trial(&mut link)?;
    for tag in 0..120 {
        let span = span(slot, random);
        let word = RegionSpan { len: if random.once_in(8) { span.len } else { 8 }, ..span };
        let (request, data) = match random.below(7) {
            0 => (AccessRequest::Read(span), Vec::new()),
            1 => (AccessRequest::Write(span), vec![7; (span.len as usize).min(4096)]),
            2 => (AccessRequest::CompareSwap { span: word, expected: 0, desired: edge(random) }, Vec::new()),
            3 => (AccessRequest::FetchAdd { span: word, addend: edge(random) }, Vec::new()),
            4 => (AccessRequest::Close { slot: span.slot }, Vec::new()),
            5 if random.once_in(20) => (AccessRequest::Withdrawn { slot: span.slot }, Vec::new()),
            _ => (
                AccessRequest::Read(RegionSpan { slot, offset: random.below(1 << 20), len: 64 << 10 }),
                Vec::new(),
            ),
        };
        let bytes = [request.encode().as_bytes(), &data].concat();
        // What is malformed is the end of the link: not too early.
        let bytes = if random.once_in(60) { perhaps(bytes, random) } else { bytes };
        link.frame(FrameHead::new(request.kind()).with_tag(tag), &bytes)?;
        if random.once_in(3) {
            link.take();
        }
    }
    let reply = AccessReply::Done { status: AccessStatus::Done, old: edge(random) };
    link.frame(FrameHead::new(reply.kind()).with_tag(edge(random) as u32), reply.encode().as_bytes())?;
    Ok(())
}

/// Reads of all that is there, more of them than may be under way, and no answer is read.
pub(super) fn too_many(scene: &Scene, random: &mut Random) -> Episode {
    let mut link = link(scene, random)?;
    let slot = open_trial(&mut link)?;
    for tag in 0..400 {
        let span = RegionSpan { slot, offset: random.below(60 << 20), len: 100_000 };
        ask(&mut link, tag, &AccessRequest::Read(span), &[])?;
    }
    std::thread::park_timeout(std::time::Duration::from_millis(random.below(100)));
    Ok(())
}
