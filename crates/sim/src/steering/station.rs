//! A place where work is done, after a time that depends on its load.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use fastrand::Rng;
use outboard_driver::{LinkId, LinkOrigin, Service};
use outboard_link::{Disposition, Frame, FrameSendError, Link, LinkError, Peer, RemoteMemory};
use outboard_steering::Site;
use outboard_wire::{FrameHead, FrameKind, Room, Time};

use super::watch::Watch;
use crate::Boot;

/// A piece of work.
pub(super) const WORK: FrameKind = FrameKind::new(Room::Trial, 4);
/// That it is done.
pub(super) const DONE: FrameKind = FrameKind::new(Room::Trial, 5);

/// How far from its mean a piece of work may be, in both directions.
const NOISE: f64 = 0.04;

/// Does work as fast as its load allows.
pub(super) struct Station {
    site: Site,
    watch: Rc<Watch>,
    random: Rng,
    under_way: BTreeSet<(Time, LinkId, u32)>,
    done: BTreeMap<LinkId, VecDeque<u32>>,
}

impl Station {
    pub(super) fn new(boot: Boot, site: Site, watch: Rc<Watch>) -> Self {
        Self { site, watch, random: boot.random, under_way: BTreeSet::new(), done: BTreeMap::new() }
    }
}

/// How long a piece of work takes at a site now.
pub(super) fn duration(site: Site, watch: &Watch, random: &mut Rng) -> Duration {
    let noise = 1.0 + NOISE * (2.0 * random.f64() - 1.0);
    Duration::from_nanos((watch.cost_ns(site) * noise) as u64)
}

impl Service for Station {
    type Note = ();

    fn on_open(&mut self, link: LinkId, _: &Peer, _: LinkOrigin, _: Time) {
        self.done.insert(link, VecDeque::new());
    }

    fn on_frame(&mut self, link: LinkId, frame: Frame<'_>, now: Time) -> Disposition {
        if frame.head.kind == WORK {
            let due = now + duration(self.site, &self.watch, &mut self.random);
            self.under_way.insert((due, link, frame.head.tag));
        }
        Disposition::Taken
    }

    fn send<L: Link + RemoteMemory>(&mut self, id: LinkId, link: &mut L, _: Time) -> Result<bool, LinkError> {
        let Some(done) = self.done.get_mut(&id) else { return Ok(false) };
        let mut any = false;
        while let Some(tag) = done.front() {
            match link.send(FrameHead::new(DONE).with_tag(*tag), &[]) {
                Ok(()) => any |= done.pop_front().is_some(),
                Err(FrameSendError::Lost(lost)) => return Err(lost),
                Err(_) => break,
            }
        }
        Ok(any)
    }

    fn on_lost(&mut self, link: LinkId, _: &LinkError, _: Time) {
        self.done.remove(&link);
    }

    fn next_deadline(&self) -> Option<Time> {
        self.under_way.first().map(|(due, ..)| *due)
    }

    fn on_time(&mut self, now: Time) {
        while let Some(work) = self.under_way.first().copied().filter(|(due, ..)| *due <= now) {
            let (_, link, tag) = work;
            self.under_way.remove(&work);
            if let Some(done) = self.done.get_mut(&link) {
                done.push_back(tag);
            }
        }
    }
}
