//! The open links of one worker, kept by type so that every loop over them is compiled for its link.

use std::time::Duration;

use outboard_limits::{KeptMemory, growth};
use outboard_link::AnyLink;
use outboard_link::ofi::OfiLink;
use outboard_link::shaped::{Shaped, Wire};
use outboard_link::shm::ShmLink;
use outboard_link::tcp::TcpLink;
use outboard_wire::Time;
use rustix::io::Errno;

use crate::poller::Interest;
use crate::roster::{Alarms, Roster};
use crate::{LinkId, LinkOrigin};

/// One call asks for all sockets what a look at each would find out, and is cheaper than this many looks.
const LOOKED_AT_ONE_BY_ONE: usize = 2;

/// A link with what the worker remembers of it.
pub(crate) struct Held<L> {
    pub(crate) id: LinkId,
    pub(crate) origin: LinkOrigin,
    pub(crate) link: L,
    /// The events that the poller wakes for.
    pub(crate) interest: Interest,
    /// When anything last moved on it.
    pub(crate) moved_at: Time,
    /// Whether a frame lies there that the service could not take.
    pub(crate) is_deferred: bool,
    /// When it wants a turn, while it rests.
    pub(crate) alarm: Option<Time>,
    /// How much had gone through when something last did, and when that was, while memory is short.
    pub(crate) moved: Option<(u64, Time)>,
    /// Since when nothing has, if it has to go for that.
    pub(crate) stuck: Option<Duration>,
    /// The bytes that its queues take without asking.
    _kept: KeptMemory,
}

/// The bytes that the queues of a link take without asking: each of its own two, and the answers that wait for it.
pub(crate) const KEPT: u64 = 3 * (64 << 10);

impl<L> Held<L> {
    pub(crate) fn new(id: LinkId, origin: LinkOrigin, link: L, interest: Interest) -> Self {
        Self {
            id,
            origin,
            link,
            interest,
            moved_at: Time::ZERO,
            is_deferred: false,
            alarm: None,
            moved: None,
            stuck: None,
            _kept: growth().keep(KEPT),
        }
    }
}

/// All links of a worker.
#[derive(Default)]
pub(crate) struct Links {
    pub(crate) shm: Roster<ShmLink>,
    pub(crate) tcp: Roster<TcpLink>,
    pub(crate) ofi: Roster<OfiLink>,
    /// Slowed down, of any kind: finding that out is nothing beside what they wait for, and the loops are compiled once for them.
    pub(crate) slow: Roster<Shaped<AnyLink>>,
    /// Of those that rest.
    pub(crate) alarms: Alarms,
}

/// Runs the same code for the links of each type.
macro_rules! for_each_kind {
    ($links:expr, $held:ident => $body:expr) => {{
        let links = &mut $links;
        {
            let $held = &mut links.shm;
            $body
        }
        {
            let $held = &mut links.tcp;
            $body
        }
        {
            let $held = &mut links.ofi;
            $body
        }
        {
            let $held = &mut links.slow;
            $body
        }
    }};
}
pub(crate) use for_each_kind;

impl Links {
    /// Takes a new link in, slowed down to `wire` if there is one.
    pub(crate) fn add(
        &mut self,
        (id, origin): (LinkId, LinkOrigin),
        new: AnyLink,
        wire: Option<Wire>,
    ) -> Result<(), Errno> {
        fn hold<L>(links: &mut Roster<L>, (id, origin): (LinkId, LinkOrigin), link: L) {
            links.push(Held::new(id, origin, link, Interest::READ));
        }
        let known = (id, origin);
        match (new, wire) {
            (AnyLink::Shm(link), None) => hold(&mut self.shm, known, *link),
            (AnyLink::Tcp(link), None) => hold(&mut self.tcp, known, *link),
            (AnyLink::Ofi(link), None) => hold(&mut self.ofi, known, *link),
            (link, Some(wire)) => hold(&mut self.slow, known, Shaped::new(link, wire)?),
        }
        Ok(())
    }

    /// Whether looking for work costs nothing but time.
    pub(crate) fn can_spin(&self) -> bool {
        !self.shm.is_empty() || !self.slow.is_empty()
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.shm.count() + self.tcp.count() + self.ofi.count() + self.slow.count()
    }

    /// Whether one look at all descriptors costs less than a look at each link that is awake, or finds more.
    pub(crate) fn are_many(&self) -> bool {
        self.resting() > 0 || self.tcp.len() + self.ofi.len() > LOOKED_AT_ONE_BY_ONE
    }

    /// How many rest. Only links of the two kinds that come in crowds do: fabrics want to be looked at, and slowed links
    /// are few.
    pub(crate) fn resting(&self) -> usize {
        self.shm.resting() + self.tcp.resting()
    }

    /// Gives a link turns again.
    pub(crate) fn wake(&mut self, id: LinkId) {
        let alarms = &mut self.alarms;
        // The worker tells it of its descriptor with the others.
        if self.shm.wake(id, alarms).is_none() {
            self.tcp.wake(id, alarms);
        }
    }

    /// Gives turns again to those whose time has come.
    pub(crate) fn wake_due(&mut self, now: Time) {
        while let Some((due, id)) = self.alarms.first().copied().filter(|(due, _)| *due <= now) {
            self.wake(id);
            self.alarms.remove(&(due, id));
        }
    }
}
