//! The measures of a worker while memory is short. Queues do not grow then, and a link that waits for room tries again now and then. Memory
//! comes back when the client goes that holds most of it without moving.

use std::time::Duration;

use outboard_link::{Backlog, Link};
use outboard_wire::Time;

use crate::links::{Held, Links, for_each_kind};
use crate::{LinkId, LinkOrigin};

/// How often that is.
pub(crate) const EVERY: Duration = Duration::from_millis(20);
/// How long nothing may go through the queues of a client that fills them.
const PATIENCE: Duration = Duration::from_secs(1);
/// The bytes that a client may hold for as long as it likes.
const LITTLE: u64 = 16 << 10;

/// The reason that a client is given, and that others are told of it.
pub(crate) const REASON: &str = "what is kept for it to be taken, or completed, while memory is short";

/// Gives all links a turn, and marks the client that has to go, if there is one.
pub(crate) fn ease(links: &mut Links, now: Time) {
    let mut alarms = std::mem::take(&mut links.alarms);
    links.shm.wake_all(&mut alarms);
    links.tcp.wake_all(&mut alarms);
    links.alarms = alarms;
    let mut worst: Option<(u64, LinkId, Duration)> = None;
    for_each_kind!(*links, held => for held in held.all_mut() {
        if let Some((size, stuck)) = look(held, now)
            && worst.is_none_or(|(most, ..)| size > most)
        {
            worst = Some((size, held.id, stuck));
        }
    });
    let Some((_, id, stuck)) = worst else { return };
    for_each_kind!(*links, held => for held in held.all_mut().iter_mut().filter(|held| held.id == id) {
        held.stuck = Some(stuck);
    });
}

/// How much a client holds, and since when nothing of that has moved, if that is too long.
fn look<L: Link>(held: &mut Held<L>, now: Time) -> Option<(u64, Duration)> {
    let Backlog { held: size, moved } = held.link.backlog();
    if held.origin != LinkOrigin::Accepted || size < LITTLE {
        held.moved = None;
        return None;
    }
    match held.moved {
        Some((before, since)) if before == moved => {
            let stuck = now.since(since);
            (stuck >= PATIENCE).then_some((size, stuck))
        }
        _ => {
            held.moved = Some((moved, now));
            None
        }
    }
}
