//! An agent's half: calls that it runs for its clients, on regions of the memory servers that it has dialled.

mod server;

use std::collections::HashMap;
use std::sync::Arc;

use outboard_contract::{
    Completion, Disposition, Frame, Link, LinkError, LinkId, Outbox, Peer, RemoteMemory,
};
use outboard_wire::calling::{Allowed, CallerId, OPEN, Open, REGISTER, RegisterRefusal};
use outboard_wire::{Role, Time};

use crate::{Ambient, CallingDesk, DeskCounts, ExecutorConfig, FindRegion, Refused, SharedCalls};
use crate::{RemoteRegion, is_of_call};
use server::ServerSide;

/// What one worker of an agent does about calls.
pub struct AgentDesk {
    shared: Arc<SharedCalls>,
    config: ExecutorConfig,
    counts: DeskCounts,
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

impl AgentDesk {
    /// A desk without servers and clients.
    pub fn new(shared: Arc<SharedCalls>, config: ExecutorConfig) -> Self {
        let nowhere = CallingDesk::new(Arc::clone(&shared), config);
        let (counts, servers, clients) = (DeskCounts::default(), Vec::new(), HashMap::new());
        Self { shared, config, counts, servers, clients, nowhere }
    }

    /// A link to a peer that this agent has dialled is open: only such memory servers can own regions. The server
    /// knows the agent as `caller`, a name that no client can guess.
    pub fn on_dialled(
        &mut self,
        link: LinkId,
        peer: &Peer,
        (caller, ambient): (CallerId, Ambient),
        outbox: &mut Outbox,
    ) {
        if peer.intro().role == Role::MemoryServer {
            let desk = CallingDesk::new(Arc::clone(&self.shared), self.config);
            self.servers.push(ServerSide::new((link, peer), (caller, ambient), desk, outbox));
        }
    }

    /// Does what a frame about calls asks.
    pub fn on_frame(
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
    pub fn send<L: Link + RemoteMemory>(
        &mut self,
        id: LinkId,
        link: &mut L,
        now: Time,
        outbox: &mut Outbox,
    ) -> Result<bool, LinkError> {
        let Some(side) = self.servers.iter_mut().find(|side| side.link == id) else { return Ok(false) };
        let moved = side.run(link, now, outbox)?;
        self.counts += side.desk.take_counts();
        Ok(moved)
    }

    /// Adds the links to servers: calls on their regions are run when they have their turn.
    pub fn rouse(&self, links: &mut Vec<LinkId>) {
        links.extend(self.servers.iter().map(|side| side.link));
    }

    /// A one-sided operation has ended. Returns whether it was one of a call.
    pub fn on_completion(&mut self, link: LinkId, completion: &Completion) -> bool {
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
    pub fn on_lost(&mut self, link: LinkId, outbox: &mut Outbox) {
        self.leave(link);
        if let Some(at) = self.servers.iter().position(|side| side.link == link) {
            let mut side = self.servers.swap_remove(at);
            side.desk.abandon(outbox);
            self.counts += side.desk.take_counts();
            self.clients.keys().for_each(|client| side.desk.on_lost(*client));
        }
    }

    /// What has happened since this was last asked.
    pub fn take_counts(&mut self) -> DeskCounts {
        std::mem::take(&mut self.counts)
    }
}
