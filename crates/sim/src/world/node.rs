//! One simulated process and its turns.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use fastrand::Rng;
use outboard_driver::{LinkId, LinkOrigin, Service};
use outboard_link::loopback::LoopbackLink;
use outboard_link::{Exports, Identity, Link, LinkError, Loss, RemoteMemory};
use outboard_wire::{Incarnation, Role, Time};

use crate::Recorder;

/// The things that a service is given when its node begins a life.
pub struct Boot {
    /// The number that tells this life from all others.
    pub incarnation: Incarnation,
    /// The regions that this life lets others reach.
    pub exports: Arc<Exports>,
    /// Chances of its own.
    pub random: Rng,
    /// When the life begins.
    pub now: Time,
}

/// The description of a node.
#[derive(Clone, Debug)]
pub struct NodeSpec {
    /// The name people know it by.
    pub name: String,
    /// Its identity.
    pub role: Role,
    /// Whether it crashes when the weather says so.
    pub is_mortal: bool,
}

impl NodeSpec {
    /// A node that crashes when the weather says so.
    pub fn mortal(name: impl Into<String>, role: Role) -> Self {
        Self { name: name.into(), role, is_mortal: true }
    }

    /// A node that never crashes.
    pub fn immortal(name: impl Into<String>, role: Role) -> Self {
        Self { is_mortal: false, ..Self::mortal(name, role) }
    }
}

/// One simulated process, alive or not.
pub(super) struct Node<S> {
    pub(super) name: Rc<str>,
    pub(super) spec: NodeSpec,
    pub(super) boot: Box<dyn FnMut(Boot) -> S>,
    pub(super) lives: u64,
    pub(super) life: Option<Life<S>>,
    /// When it wants to run next; what the agenda says else is out of date.
    pub(super) wake: Option<Time>,
    pub(super) paused_until: Time,
    /// How often in a row it had something to do and could not.
    pub(super) fruitless: u32,
}

/// Everything that a crash takes away.
pub(super) struct Life<S> {
    pub(super) service: S,
    pub(super) identity: Identity,
    pub(super) exports: Arc<Exports>,
    pub(super) links: BTreeMap<LinkId, Held>,
}

/// One end of an open link.
pub(super) struct Held {
    pub(super) link: LoopbackLink,
    pub(super) origin: LinkOrigin,
    /// The node at the other end.
    pub(super) peer: usize,
}

/// The outcome of a turn.
pub(super) struct Turn {
    pub(super) moved: bool,
    pub(super) lost: Vec<(LinkId, Held)>,
}

/// When a node wants to run again.
pub(super) enum Rest {
    /// It could do something now, if only the others had made room.
    Stuck,
    /// Not before this.
    Until(Time),
}

impl<S: Service> Life<S> {
    /// Gives the service and every link a turn, as a worker thread does.
    pub(super) fn turn(&mut self, now: Time, frames_max: usize, recorder: &Recorder) -> Turn {
        let Self { service, links, .. } = self;
        let mut turn = Turn { moved: false, lost: Vec::new() };
        if service.next_deadline().is_some_and(|deadline| deadline <= now) {
            service.on_time(now);
            turn.moved = true;
        }
        turn.moved |= service.on_turn(now);
        let mut lost = Vec::new();
        for (id, held) in links.iter_mut() {
            match pump(service, *id, &mut held.link, (now, frames_max), recorder) {
                Ok(moved) => turn.moved |= moved,
                Err(error) => {
                    // Operations that ended before the loss, and those that the loss ended.
                    finish(service, *id, &mut held.link, now, recorder);
                    recorder.note("lost", &[("link", id.0), ("loss", loss_number(&error.loss))]);
                    service.on_lost(*id, &error, now);
                    lost.push(*id);
                }
            }
        }
        turn.moved |= !lost.is_empty();
        turn.lost = lost.into_iter().filter_map(|id| links.remove_entry(&id)).collect();
        turn
    }

    /// When to run again after a turn in which nothing moved.
    pub(super) fn rest(&mut self, now: Time) -> Rest {
        let mut until = self.service.next_deadline();
        let mut is_ready = false;
        for held in self.links.values_mut() {
            is_ready |= !held.link.prepare_to_wait();
            until = until.into_iter().chain(held.link.next_deadline()).min();
        }
        match until {
            _ if is_ready => Rest::Stuck,
            Some(until) if until <= now => Rest::Stuck,
            Some(until) => Rest::Until(until),
            None => Rest::Until(Time::MAX),
        }
    }
}

fn pump<S: Service, L: Link + RemoteMemory>(
    service: &mut S,
    id: LinkId,
    link: &mut L,
    (now, frames_max): (Time, usize),
    recorder: &Recorder,
) -> Result<bool, LinkError> {
    let mut moved = link.progress(now)?;
    let taken = link.receive(frames_max, |frame| {
        let (kind, tag) = (u64::from(frame.head.kind.0), u64::from(frame.head.tag));
        recorder.note("frame", &[("link", id.0), ("kind", kind), ("tag", tag)]);
        service.on_frame(id, frame, now)
    })?;
    moved |= taken > 0;
    moved |= finish(service, id, link, now, recorder);
    moved |= service.send(id, link, now)?;
    link.flush()?;
    Ok(moved)
}

/// Hands out the one-sided operations that have ended.
fn finish<S: Service, L: RemoteMemory>(
    service: &mut S,
    id: LinkId,
    link: &mut L,
    now: Time,
    recorder: &Recorder,
) -> bool {
    let ended = link.completions(|completion| {
        let facts = [("link", id.0), ("token", completion.token.0), ("ok", completion.result.is_ok().into())];
        recorder.note("completion", &facts);
        service.on_completion(id, completion, now);
    });
    ended > 0
}

fn loss_number(loss: &Loss) -> u64 {
    match loss {
        Loss::Closed { .. } => 1,
        Loss::ClosedHere => 2,
        Loss::Gone => 3,
        Loss::Stalled { .. } => 4,
        Loss::Broke(_) => 5,
        Loss::GivenUp { .. } => 6,
        _ => 0,
    }
}
