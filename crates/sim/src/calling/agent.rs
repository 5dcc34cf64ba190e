//! An agent: runs calls of its clients on the server's memory, by one-sided accesses that take long and are torn.

use std::collections::BTreeMap;

use fastrand::Rng;
use outboard_calling::{
    Ambient, Client, Executor, ExecutorConfig, FindRegion, RemoteAccess, RemoteRegion, is_of_call,
};
use outboard_driver::{LinkId, Origin, Outbox, Service};
use outboard_link::{Completion, Disposition, Frame, Link, LinkError, Peer, RemoteMemory};
use outboard_wire::calling::{CALL, CallerId};
use outboard_wire::{Role, Time};

use super::desk::{answer, refuse, submit};
use super::table;

/// What a site does that has no regions of its own.
pub(super) struct Afar {
    pub(super) access: RemoteAccess,
    pub(super) executor: Executor<RemoteRegion>,
    /// The region, when it is open.
    pub(super) region: Option<RemoteRegion>,
}

impl Afar {
    pub(super) fn new(random: &mut Rng) -> Self {
        let executor = Executor::new(ExecutorConfig::default());
        let access = RemoteAccess::new(Ambient::new(random.u64(..), || 0, |_| {}), false);
        Self { access, executor, region: None }
    }

    /// Runs calls while the link to their regions is at hand.
    pub(super) fn run<L: Link + RemoteMemory>(
        &mut self,
        link: &mut L,
        now: Time,
        tell: impl FnMut(outboard_calling::Outcome<'_>),
    ) -> Result<bool, LinkError> {
        let Self { access, executor, region } = self;
        if region.is_none() {
            // It is neither freed nor taken away, so what is refused is asked again.
            *region = access.find(CallerId([7; 16]), &table::allowed()).ok().flatten();
        }
        let mut moved = access.work(link)?;
        access.refused(|ticket, answered| executor.complete(ticket, answered));
        if !executor.is_idle() {
            moved = true;
            executor.run(now, &mut access.site(link), 10_000, tell);
            access.refused(|ticket, answered| executor.complete(ticket, answered));
        }
        Ok(moved)
    }

    pub(super) fn on_completion(&mut self, completion: &Completion) {
        let Self { access, executor, .. } = self;
        if is_of_call(completion.token) {
            access.on_completion(completion, |ticket, answered| executor.complete(ticket, answered));
        }
    }
}

/// An agent. It forgets everything when it crashes, and its clients' calls when its server is lost.
pub(super) struct Agent {
    random: Rng,
    afar: Afar,
    server: Option<LinkId>,
    outbox: Outbox,
    clients: BTreeMap<LinkId, Client>,
    links: Vec<LinkId>,
}

impl Agent {
    pub(super) fn new(mut random: Rng) -> Self {
        let (outbox, clients, links) = (Outbox::default(), BTreeMap::new(), Vec::new());
        Self { afar: Afar::new(&mut random), random, server: None, outbox, clients, links }
    }

    fn client(&mut self, link: LinkId) -> Option<Client> {
        if let Some(client) = self.clients.get(&link) {
            return Some(*client);
        }
        let client = table::open(&mut self.afar.executor, self.afar.region.as_ref()?);
        if client.index() >= self.links.len() {
            self.links.resize(client.index() + 1, link);
        }
        self.links[client.index()] = link;
        self.clients.insert(link, client);
        Some(client)
    }
}

impl Service for Agent {
    type Note = ();

    fn on_open(&mut self, link: LinkId, peer: &Peer, _: Origin, _: Time) {
        if peer.intro().role == Role::MemoryServer {
            self.server = Some(link);
        }
    }

    fn on_frame(&mut self, link: LinkId, frame: Frame<'_>, now: Time) -> Disposition {
        if frame.head.kind != CALL {
            return Disposition::Taken;
        }
        match self.client(link) {
            Some(client) => submit(&mut self.afar.executor, (client, link), frame, now, &mut self.outbox),
            None => {
                refuse(link, frame, &mut self.outbox);
                Disposition::Taken
            }
        }
    }

    fn on_completion(&mut self, _: LinkId, completion: Completion, _: Time) {
        self.afar.on_completion(&completion);
    }

    fn send<L: Link + RemoteMemory>(
        &mut self,
        id: LinkId,
        link: &mut L,
        now: Time,
    ) -> Result<bool, LinkError> {
        let Self { afar, server, outbox, links, .. } = self;
        if *server == Some(id) {
            return afar.run(link, now, |outcome| answer(outbox, links, outcome));
        }
        outbox.send(id, link)
    }

    fn on_lost(&mut self, link: LinkId, _: &LinkError, _: Time) {
        self.outbox.forget(link);
        if let Some(client) = self.clients.remove(&link) {
            self.afar.executor.close(client);
        }
        if self.server.take_if(|server| *server == link).is_some() {
            let Self { afar, outbox, links, .. } = self;
            afar.executor.abandon(|outcome| answer(outbox, links, outcome));
            self.afar = Afar::new(&mut self.random);
            self.clients.clear();
        }
    }
}
