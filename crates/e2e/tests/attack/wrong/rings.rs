//! Shared memory: what lies in the segment and on the socket beside it belongs to the other side as much as to us.

use std::sync::atomic::Ordering::Relaxed;

use outboard_agent::STATUS_GRANT;
use outboard_e2e::Random;
use outboard_wire::access::{AccessReply, AccessRequest, AccessStatus, Slot};
use outboard_wire::trial::{ECHO, GRANT};
use outboard_wire::{FrameHead, Role};

use super::Episode;
use super::forge::{any_head, edge, mutate, some_bytes};
use super::raw::{Hung, header, hello};
use super::shm::{RawShm, send_with};
use crate::scene::Scene;

fn link(scene: &Scene, random: &mut Random) -> Result<RawShm, Hung> {
    RawShm::connect(scene.any_socket(random), &hello(Role::Application, random).encode())
}

/// Counts that no ring can have.
pub(super) fn indices(scene: &Scene, random: &mut Random) -> Episode {
    let mut link = link(scene, random)?;
    for _ in 0..random.below(8) {
        link.frame(FrameHead::new(ECHO), &some_bytes(2000, random))?;
    }
    for _ in 0..4 {
        let count = link.any_count(random);
        let old = count.load(Relaxed);
        let new = match random.below(5) {
            0 => edge(random),
            1 => old.wrapping_add(random.below(1 << 22)),
            2 => old.wrapping_sub(16 * random.below(64)),
            3 => old ^ 1 << random.below(64),
            _ => old.wrapping_add(16 * random.below(64)),
        };
        count.store(new, Relaxed);
        link.doorbell()?;
    }
    Ok(())
}

/// A vandal between whose blows frames go there and back.
pub(super) fn scribble(scene: &Scene, random: &mut Random) -> Episode {
    let mut link = link(scene, random)?;
    let len = link.segment.len() as u64;
    for _ in 0..200 {
        link.frame(FrameHead::new(ECHO).with_tag(7), &some_bytes(500, random))?;
        let noise = random.next().to_le_bytes();
        // Rarely in the counts, which would end it at once.
        let at = if random.once_in(40) { random.below(512) } else { 512 + random.below(len - 520) };
        link.segment.window_mut(at as usize, 8).write(0, &noise);
        link.take();
    }
    Ok(())
}

/// Frames that are published before they are whole, or longer than what is published.
pub(super) fn headers(scene: &Scene, random: &mut Random) -> Episode {
    let link = link(scene, random)?;
    let mut tail = 0;
    for _ in 0..50 {
        let len = edge(random) as u32;
        let forged = header(any_head(random), len);
        let said = if random.once_in(2) { len } else { random.below(4096) as u32 };
        link.write(tail, &forged);
        tail += u64::from(said).next_multiple_of(16) % (1 << 19) + 16;
        link.publish(tail)?;
        // What was read once may be different when it is read again.
        let other = header(any_head(random), edge(random) as u32);
        link.write(tail.saturating_sub(16), &other);
    }
    Ok(())
}

/// Wakes somebody who has nothing to do, and says that it sleeps when it does not.
pub(super) fn doorbells(scene: &Scene, random: &mut Random) -> Episode {
    let mut link = link(scene, random)?;
    for _ in 0..2000 {
        link.doorbell()?;
        if random.once_in(8) {
            link.any_count(random).fetch_xor(1 << 32, Relaxed);
        }
        if random.once_in(64) {
            link.frame(FrameHead::new(ECHO), &[1; 16])?;
        }
    }
    Ok(())
}

/// Messages that are empty, too long, of no kind, or answers to what nobody has asked.
pub(super) fn messages(scene: &Scene, random: &mut Random) -> Episode {
    let link = link(scene, random)?;
    for _ in 0..30 {
        let head = any_head(random);
        match random.below(6) {
            0 => send_with(&link.socket, &random.bytes(300), &[])?,
            1 => send_with(&link.socket, &some_bytes(16, random), &[])?,
            2 => {
                let reply =
                    AccessReply::Opened { status: AccessStatus::Done, slot: Slot(0), size: edge(random) };
                let head = FrameHead::new(reply.kind()).with_tag(random.below(4) as u32);
                link.message(head, reply.encode().as_bytes(), &[link.segment.descriptor()])?;
            }
            3 => {
                let close = AccessRequest::Close { slot: Slot(edge(random) as u32) };
                link.message(FrameHead::new(close.kind()), close.encode().as_bytes(), &[])?;
            }
            4 => {
                let len = edge(random) as u32;
                send_with(&link.socket, &header(head, len), &[])?;
            }
            _ => {
                link.message(head, &mutate(vec![0; 16], random), &[])?;
            }
        }
    }
    Ok(())
}

/// Every opening makes the owner send a descriptor. Nobody takes them.
pub(super) fn opens(scene: &Scene, random: &mut Random) -> Episode {
    let link = link(scene, random)?;
    let grant = if random.once_in(2) { STATUS_GRANT } else { GRANT };
    let (region, generation, key) = (grant.region, grant.generation, grant.key);
    for _ in 0..1500 {
        let request = AccessRequest::Open { region, generation, rights: grant.rights, key };
        if !link.message(FrameHead::new(request.kind()), request.encode().as_bytes(), &[])? {
            std::thread::park_timeout(std::time::Duration::from_millis(1));
        }
        if random.once_in(16) {
            // The count of what is held goes down, though nothing is given back.
            let close = AccessRequest::Close { slot: Slot(0) };
            link.message(FrameHead::new(close.kind()), close.encode().as_bytes(), &[])?;
        }
    }
    Ok(())
}
