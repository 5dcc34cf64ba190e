//! What a rank knows of another one.

use std::collections::VecDeque;

use outboard_contract::{LinkId, OpenRegion};
use outboard_wire::routing::Run;
use outboard_wire::{Grant, Incarnation, Time};

use super::{Incoming, Outgoing};

/// A rank that is not there any more.
#[derive(Clone, Debug)]
pub struct Departed {
    /// Which one.
    pub rank: u32,
    /// What is known of it.
    pub why: String,
    /// Whether it said goodbye.
    pub has_left: bool,
}

/// What goes between two ranks in one message space.
#[derive(Default)]
pub(super) struct Traffic {
    pub(super) outgoing: Outgoing,
    pub(super) incoming: Incoming,
    /// It does not know yet what we have of its runs.
    pub(super) is_owed: bool,
}

/// What a rank knows of another one.
pub(super) struct PeerRank {
    pub(super) incarnation: Incarnation,
    pub(super) link: Option<LinkId>,
    /// Whether it can read our memory and we its.
    pub(super) is_mapped: bool,
    pub(super) has_greeting: bool,
    /// What opens its memory, until that has been presented.
    pub(super) grant: Option<Grant>,
    pub(super) region: Option<OpenRegion>,
    /// For every message space, and for signals.
    pub(super) traffic: Vec<Traffic>,
    /// Runs whose bytes are to be read from its memory.
    pub(super) to_read: VecDeque<Run>,
    /// Runs that came with their bytes when there was no slot for them. It keeps them until it knows that we have them,
    /// so there are never many.
    pub(super) aside: VecDeque<(Run, Vec<u8>)>,
    /// When the link was lost, and why.
    pub(super) lost: Option<(Time, String)>,
    pub(super) has_departed: bool,
    /// Something that was given to the agent is not known to have arrived.
    pub(super) is_carried: bool,
}

impl PeerRank {
    pub(super) fn new(incarnation: Incarnation, spaces: usize) -> Self {
        Self {
            incarnation,
            link: None,
            is_mapped: false,
            has_greeting: false,
            grant: None,
            region: None,
            traffic: (0..spaces).map(|_| Traffic::default()).collect(),
            to_read: VecDeque::new(),
            aside: VecDeque::new(),
            lost: None,
            has_departed: false,
            is_carried: false,
        }
    }

    /// A link to it is open: what was sent by an earlier one is sent again.
    pub(super) fn connected(&mut self, link: LinkId) {
        self.link = Some(link);
        (self.grant, self.region) = (None, None);
        self.to_read.clear();
        self.has_greeting = false;
        self.lost = None;
        for traffic in &mut self.traffic {
            traffic.outgoing.on_way_lost();
            traffic.is_owed = true;
        }
    }

    /// The agent does not reach it any more, and may have lost what was given to it.
    pub(super) fn way_lost_at_agent(&mut self) {
        let is_carried = std::mem::take(&mut self.is_carried);
        for traffic in &mut self.traffic {
            traffic.is_owed = true;
            if is_carried {
                traffic.outgoing.on_way_lost();
            }
        }
    }

    /// Its link is gone, and with it what was about to be read.
    pub(super) fn disconnected(&mut self, now: Time, why: String) {
        self.link = None;
        (self.grant, self.region) = (None, None);
        self.to_read.clear();
        self.lost = Some((now, why));
        self.traffic.iter_mut().for_each(|traffic| traffic.outgoing.on_way_lost());
    }
}
