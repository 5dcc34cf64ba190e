//! Remote writes that are unloaded: batches with gaps, attempts of others, writers by the thousand.

use outboard_e2e::Random;
use outboard_wire::writing::{
    ATTACH, AttachWriter, BATCH, Batch, ENTRIES_MAX, EntryHead, LEAVE, Leave, PRESENT, Present, WriterId,
};
use outboard_wire::{FrameHead, Grant, Incarnation, RegionDescriptor, Role};

use super::Episode;
use super::control::tenant;
use super::forge::{self, edge, mostly_below, perhaps};
use super::raw::Raw;
use crate::scene::Scene;

fn writer(random: &mut Random) -> WriterId {
    let mut name = [0; 16];
    name[..8].copy_from_slice(&random.next().to_le_bytes());
    WriterId(name)
}

fn server_of(descriptor: &RegionDescriptor) -> Incarnation {
    descriptor.extents.first().map_or(Incarnation(0), |extent| extent.incarnation)
}

fn entry(slot: u32, offset: u64, len: u32) -> Vec<u8> {
    let head = EntryHead { slot, len, offset };
    let bytes = vec![9; EntryHead::stride((len as usize).min(4096)) - EntryHead::LEN];
    [&head.encode()[..], &bytes].concat()
}

/// Everything that a writer says, at the server or by the agent, with numbers that do not fit together.
pub(super) fn batches(scene: &Scene, random: &mut Random) -> Episode {
    let (mut owner, descriptor) = tenant(scene, random)?;
    let Grant { region, generation, key, size, .. } = descriptor.grant;
    let mut other = Raw::connect(scene.agent(random), Role::Application, random)?;
    let (writer, server) = (writer(random), server_of(&descriptor));
    let mut first = 1;
    for _ in 0..120 {
        let link = if random.once_in(2) { &mut owner } else { &mut other };
        let attempt = mostly_below(3, random) as u32;
        let count = 1 + random.below(4) as u32;
        let entries: Vec<u8> = (0..count)
            .flat_map(|_| {
                let (slot, len) = (mostly_below(2, random) as u32, mostly_below(64, random) as u32);
                entry(slot, mostly_below(size, random), len)
            })
            .collect();
        let (kind, payload) = match random.below(8) {
            0 => (ATTACH, AttachWriter { writer, attempt, server }.encode().to_vec()),
            1 => (LEAVE, Leave { writer, attempt }.encode().to_vec()),
            2 | 3 => {
                let slot = mostly_below(2, random) as u32;
                let key = if random.once_in(4) { forge::key(random) } else { key };
                (PRESENT, Present { writer, attempt, slot, region, generation, key }.encode().to_vec())
            }
            _ => {
                let (said, settled) = (if random.once_in(6) { edge(random) } else { first }, 0);
                let batch = Batch { writer, attempt, count, first: said, settled };
                first += u64::from(count);
                (BATCH, [&batch.encode()[..], &entries].concat())
            }
        };
        link.frame_patiently(FrameHead::new(kind), &perhaps(payload, random))?;
        link.take();
    }
    Ok(())
}

/// Attaches as more writers than are known at once, and leaves them all behind.
pub(super) fn crowd(scene: &Scene, random: &mut Random) -> Episode {
    let (mut link, descriptor) = tenant(scene, random)?;
    let server = server_of(&descriptor);
    for _ in 0..800 {
        let attach = AttachWriter { writer: writer(random), attempt: 1, server };
        link.frame_patiently(FrameHead::new(ATTACH), &attach.encode())?;
        if random.once_in(16) {
            link.take();
        }
    }
    Ok(())
}

/// What the server answers has to pass by the agent, whose client does not take it: long answers, full of refusals.
pub(super) fn deaf_writer(scene: &Scene, random: &mut Random) -> Episode {
    let (_owner, descriptor) = tenant(scene, random)?;
    let mut link = Raw::connect(scene.agent(random), Role::Application, random)?;
    let (writer, server) = (writer(random), server_of(&descriptor));
    let attach = AttachWriter { writer, attempt: 1, server }.encode();
    link.frame_patiently(FrameHead::new(ATTACH), &attach)?;
    let batch = Batch { writer, attempt: 1, count: ENTRIES_MAX, first: 1, settled: 0 };
    let entries = entry(5, 0, 0).repeat(ENTRIES_MAX as usize);
    link.frame_patiently(FrameHead::new(BATCH), &[&batch.encode()[..], &entries].concat())?;
    for _ in 0..4000 {
        if !link.frame(FrameHead::new(ATTACH), &attach)? {
            break;
        }
    }
    std::thread::park_timeout(std::time::Duration::from_millis(300));
    Ok(())
}
