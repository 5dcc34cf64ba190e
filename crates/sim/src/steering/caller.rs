//! An application that has work done where it is cheapest.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use fastrand::Rng;
use outboard_driver::{LinkId, LinkOrigin, Service};
use outboard_link::{Disposition, Frame, FrameSendError, Link, LinkError, Peer, RemoteMemory};
use outboard_steering::{Chooser, Evidence, Preference, Signal, Site, SteeringConfig};
use outboard_wire::{FrameHead, Role, Time};

use super::station::{DONE, WORK, duration};
use super::watch::Watch;
use crate::Boot;

/// A piece of work that is not done.
struct Piece {
    site: Site,
    begun: Time,
}

/// Has a piece of work at a steady pace, and asks the chooser where to do each.
pub(super) struct Caller {
    watch: Rc<Watch>,
    random: Rng,
    chooser: Chooser<Site, 3>,
    latency: [Signal; 3],
    links: BTreeMap<LinkId, Site>,
    /// Work that waits for room on a link.
    outgoing: [VecDeque<u32>; 3],
    under_way: BTreeMap<u32, Piece>,
    /// Work that this process does itself.
    own: BTreeSet<(Time, u32)>,
    next_tag: u32,
    pace: Duration,
    next_at: Time,
    until: Time,
    ended: u32,
}

impl Caller {
    pub(super) fn new(boot: Boot, watch: Rc<Watch>, config: SteeringConfig, until: Time) -> Self {
        let mut random = boot.random;
        // Only a preference for something else than the options is refused.
        let chooser = Chooser::new(Site::ALL, Preference::Auto, config, boot.now).expect("no preference");
        Self {
            watch,
            chooser,
            latency: Site::ALL.map(|_| Signal::new(&config)),
            links: BTreeMap::new(),
            outgoing: Default::default(),
            under_way: BTreeMap::new(),
            own: BTreeSet::new(),
            next_tag: 0,
            pace: Duration::from_micros(random.u64(40..90)),
            random,
            next_at: boot.now,
            until,
            ended: 0,
        }
    }

    /// Where most work is done now.
    pub(super) fn chosen(&self) -> Site {
        self.chooser.decision().chosen
    }

    /// Whether every site has been measured.
    pub(super) fn knows_all(&self) -> bool {
        self.latency.iter().all(|signal| signal.estimate().is_some())
    }

    /// Whether all work is done, each piece once.
    pub(super) fn is_done(&self, now: Time) -> bool {
        now >= self.until && self.ended == self.next_tag && self.under_way.is_empty()
    }

    fn is_here(&self, site: Site) -> bool {
        site == Site::Application || self.links.values().any(|linked| *linked == site)
    }

    fn begin(&mut self, now: Time) {
        self.next_at = now + self.pace;
        let tag = self.next_tag;
        self.next_tag += 1;
        self.place(tag, now);
    }

    fn place(&mut self, tag: u32, now: Time) {
        let picked = self.chooser.pick();
        // A site may have gone since the last review, or have never come; a piece of work is done all the same.
        let site = if self.is_here(picked) { picked } else { Site::Application };
        self.under_way.insert(tag, Piece { site, begun: now });
        match site {
            Site::Application => {
                let due = now + duration(site, &self.watch, &mut self.random);
                self.own.insert((due, tag));
            }
            Site::Agent | Site::Server => self.outgoing[site as usize].push_back(tag),
        }
    }

    fn end(&mut self, tag: u32, now: Time) {
        let Some(Piece { site, begun }) = self.under_way.remove(&tag) else {
            return self.watch.recorder().fail(format!("each piece of work ends once, but {tag} did again"));
        };
        self.ended += 1;
        self.latency[site as usize].observe(now, now.since(begun).as_nanos() as f64);
        self.review(now);
    }

    fn review(&mut self, now: Time) {
        let evidence = Site::ALL.map(|site| {
            if self.is_here(site) {
                Evidence::from_signal(&self.latency[site as usize])
            } else {
                Evidence::Excluded
            }
        });
        match self.chooser.review(now, &evidence) {
            Some(decision) => {
                let is_here = self.is_here(decision.chosen);
                self.watch.recorder().expect(is_here, || format!("nothing moves to {}", decision.chosen));
                self.watch.moves(now, &decision);
            }
            None => self.watch.stays(now, self.chosen()),
        }
    }
}

impl Service for Caller {
    type Note = ();

    fn on_open(&mut self, link: LinkId, peer: &Peer, _: LinkOrigin, now: Time) {
        let site = if peer.intro().role == Role::Agent { Site::Agent } else { Site::Server };
        self.links.insert(link, site);
        self.review(now);
    }

    fn on_frame(&mut self, _: LinkId, frame: Frame<'_>, now: Time) -> Disposition {
        if frame.head.kind == DONE {
            self.end(frame.head.tag, now);
        }
        Disposition::Taken
    }

    fn send<L: Link + RemoteMemory>(&mut self, id: LinkId, link: &mut L, _: Time) -> Result<bool, LinkError> {
        let Some(site) = self.links.get(&id) else { return Ok(false) };
        let waiting = &mut self.outgoing[*site as usize];
        let mut any = false;
        while let Some(tag) = waiting.front() {
            match link.send(FrameHead::new(WORK).with_tag(*tag), &[]) {
                Ok(()) => any |= waiting.pop_front().is_some(),
                Err(FrameSendError::Lost(lost)) => return Err(lost),
                Err(_) => break,
            }
        }
        Ok(any)
    }

    /// Work that was under way there is done elsewhere.
    fn on_lost(&mut self, link: LinkId, _: &LinkError, now: Time) {
        let Some(site) = self.links.remove(&link) else { return };
        self.outgoing[site as usize].clear();
        self.review(now);
        let left = self.under_way.iter().filter(|(_, piece)| piece.site == site);
        let left: Vec<u32> = left.map(|(tag, _)| *tag).collect();
        left.into_iter().for_each(|tag| self.place(tag, now));
    }

    fn next_deadline(&self) -> Option<Time> {
        let next_at = (self.next_at < self.until).then_some(self.next_at);
        let own = self.own.first().map(|(due, _)| *due);
        next_at.into_iter().chain(own).min()
    }

    fn on_time(&mut self, now: Time) {
        while let Some((due, tag)) = self.own.first().copied().filter(|(due, _)| *due <= now) {
            self.own.remove(&(due, tag));
            self.end(tag, now);
        }
        if now >= self.next_at && now < self.until {
            self.begin(now);
        }
    }
}
