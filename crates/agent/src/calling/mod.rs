//! Calls that an agent runs for its clients, on regions of the memory servers that it has dialled; and what daemons count of
//! the calls that they run.

mod server;

use std::collections::HashMap;
use std::sync::Arc;

use outboard_calling::{ExecutorConfig, TableLimits};
use outboard_driver::calling::{
    CallingDesk, DeskCounts, FindRegion, Refused, RemoteRegion, SharedCalls, is_of_call,
};
use outboard_driver::{LinkId, Outbox};
use outboard_link::{Completion, Disposition, Frame, Link, LinkError, Peer, RemoteMemory};
use outboard_settings::CallingSettings;
use outboard_wire::calling::{Allowed, CallerId, OPEN, Open, REGISTER, RegisterRefusal};
use outboard_wire::{Role, Time};

use crate::counts::Counts;
use crate::status::{Gauge, StatusPage};
use server::ServerSide;

/// What is counted of calls, by all workers together.
pub(crate) struct CallingCounts {
    calls_total: Gauge,
    calls_failed_total: Gauge,
    call_fuel_total: Gauge,
    registrations_refused_total: Gauge,
}

impl CallingCounts {
    pub(crate) fn new(page: &StatusPage) -> Self {
        Self {
            calls_total: page.gauge("calls_total"),
            calls_failed_total: page.gauge("calls_failed_total"),
            call_fuel_total: page.gauge("call_fuel_total"),
            registrations_refused_total: page.gauge("registrations_refused_total"),
        }
    }

    /// Adds what has happened at a desk.
    pub(crate) fn add(&self, counts: DeskCounts, asked: &Counts) {
        if counts == DeskCounts::default() {
            return;
        }
        self.calls_total.add(counts.replied);
        self.calls_failed_total.add(counts.failed);
        self.call_fuel_total.add(counts.fuel);
        self.registrations_refused_total.add(counts.refused);
        asked.questions_refused_total.add(counts.meaningless);
    }
}

/// The functions and callers of an agent, and what is counted of calls, by all workers together.
pub(crate) struct AgentCalling {
    calls: Arc<SharedCalls>,
    config: ExecutorConfig,
    counts: CallingCounts,
}

impl AgentCalling {
    pub(crate) fn new(page: &StatusPage, settings: &CallingSettings) -> Arc<Self> {
        let (functions, (config, limits)) = (page.gauge("functions"), quotas(settings));
        let calls = SharedCalls::new(limits, move |count| functions.set(count as u64));
        Arc::new(Self { calls, config, counts: CallingCounts::new(page) })
    }
}

/// What a site gives to each client and function.
pub(crate) fn quotas(settings: &CallingSettings) -> (ExecutorConfig, TableLimits) {
    let CallingSettings { fuel, calls_per_client, calls_per_function, functions_per_client, code } =
        *settings;
    let executor =
        ExecutorConfig { fuel_max: fuel, calls_per_client, calls_per_function, ..ExecutorConfig::default() };
    // The check of `code` leaves nothing that does not fit.
    let image_bytes = usize::try_from(code.0).unwrap_or(usize::MAX);
    (executor, TableLimits { functions_per_client, image_bytes, ..TableLimits::default() })
}

/// What one worker of an agent does about calls.
pub(crate) struct CallingWorker {
    shared: Arc<AgentCalling>,
    counts: Arc<Counts>,
    servers: Vec<ServerSide>,
    /// Who calls by which link, and on whose regions.
    clients: HashMap<LinkId, Open>,
    /// Answers those whose server is not there.
    nowhere: CallingDesk<RemoteRegion>,
}

/// Regions of servers that this agent has no link to.
struct Nowhere;

impl FindRegion for Nowhere {
    type Region = RemoteRegion;

    fn find(&mut self, _by: CallerId, allowed: &Allowed) -> Result<Option<RemoteRegion>, Refused> {
        let detail = format!("this agent has no link to the memory server of {}", allowed.region);
        Err((RegisterRefusal::NoRegion, detail))
    }
}

impl CallingWorker {
    pub(crate) fn new(shared: Arc<AgentCalling>, counts: Arc<Counts>) -> Self {
        let nowhere = CallingDesk::new(Arc::clone(&shared.calls), shared.config);
        Self { shared, counts, servers: Vec::new(), clients: HashMap::new(), nowhere }
    }

    /// A link to a peer that this agent has dialled is open: only such memory servers can own regions.
    pub(crate) fn on_dialled(&mut self, link: LinkId, peer: &Peer, outbox: &mut Outbox) {
        if peer.intro().role == Role::MemoryServer {
            self.servers.push(ServerSide::new(link, peer, (&self.shared.calls, self.shared.config), outbox));
        }
    }

    /// Does what a frame about calls asks.
    pub(crate) fn on_frame(
        &mut self,
        (link, frame, now): (LinkId, Frame<'_>, Time),
        outbox: &mut Outbox,
    ) -> Disposition {
        if let Some(side) = self.servers.iter_mut().find(|side| side.link == link) {
            side.hear(frame);
            return Disposition::Taken;
        }
        if frame.head.kind == OPEN {
            self.leave(link);
            if let Ok(open) = Open::decode(&frame.payload.to_vec()) {
                self.clients.insert(link, open);
            }
            return Disposition::Taken;
        }
        let open = self.clients.get(&link);
        let server = open.map(|open| open.server);
        match (self.servers.iter_mut().find(|side| Some(side.incarnation) == server), open) {
            (Some(side), Some(open)) => {
                // The server may have been found only now, or again.
                if frame.head.kind == REGISTER && !side.desk.has(link) {
                    side.desk.open_for(link, open.caller);
                }
                side.on_frame((link, frame, now), outbox)
            }
            _ => self.nowhere.on_frame((link, frame, now), &mut Nowhere, outbox),
        }
    }

    /// Runs calls while the link to their regions is at hand. Returns whether anything moved.
    pub(crate) fn send<L: Link + RemoteMemory>(
        &mut self,
        id: LinkId,
        link: &mut L,
        now: Time,
        outbox: &mut Outbox,
    ) -> Result<bool, LinkError> {
        let Some(side) = self.servers.iter_mut().find(|side| side.link == id) else { return Ok(false) };
        let moved = side.run(link, now, outbox)?;
        self.shared.counts.add(side.desk.take_counts(), &self.counts);
        Ok(moved)
    }

    /// Adds the links to servers: calls on their regions are run when they have their turn.
    pub(crate) fn rouse(&self, links: &mut Vec<LinkId>) {
        links.extend(self.servers.iter().map(|side| side.link));
    }

    /// A one-sided operation has ended. Returns whether it was one of a call.
    pub(crate) fn on_completion(&mut self, link: LinkId, completion: &Completion) -> bool {
        if !is_of_call(completion.token) {
            return false;
        }
        if let Some(side) = self.servers.iter_mut().find(|side| side.link == link) {
            side.on_completion(completion);
        }
        true
    }

    /// A client calls no more by this link.
    fn leave(&mut self, link: LinkId) {
        let Some(open) = self.clients.remove(&link) else { return };
        for side in &mut self.servers {
            side.desk.on_lost(link);
            side.access.caller_gone(open.caller);
        }
    }

    /// A link is gone. Clients whose server it led to are told of every call, and find no function here until they register
    /// it again.
    pub(crate) fn on_lost(&mut self, link: LinkId, outbox: &mut Outbox) {
        self.leave(link);
        if let Some(at) = self.servers.iter().position(|side| side.link == link) {
            let mut side = self.servers.swap_remove(at);
            side.desk.abandon(outbox);
            self.shared.counts.add(side.desk.take_counts(), &self.counts);
            self.clients.keys().for_each(|client| side.desk.on_lost(*client));
        }
    }
}
