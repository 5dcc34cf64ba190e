//! Applications attach regions. The right to one is proven where it is: at its server, which is asked to open it with
//! the grant that the application presents.

use outboard_contract::{AccessError, LinkId, OpenRegion};
use outboard_steering::SteeringConfig;
use outboard_wire::paging::{AttachRefusal, AttachRegion, CacheMode, DetachRegion, PagingReply};
use outboard_wire::{Grant, Rights, Time};

use super::cache::{AttachError, CacheSwitch, RegionAttachment, RegionIdentity, RegionNumber, ServerMeter};
use super::client::{ATTACHED_MAX, Attached, ClientAnswer};
use super::server::{Opened, Opening, ServerSide};
use super::shared::{RegionState, SharedPaging, SharedState};
use super::worker::{PagingWorker, Pending};

fn name_of(attach: &AttachRegion) -> RegionIdentity {
    RegionIdentity { server: attach.server, region: attach.grant.region, generation: attach.grant.generation }
}

impl PagingWorker {
    /// An application wants to use a region through this agent.
    pub(super) fn attach(&mut self, link: LinkId, tag: u32, attach: AttachRegion, now: Time) {
        if let Err((reason, detail)) = self.admit(link, &attach) {
            if let Some(client) = self.clients.get_mut(&link) {
                client.answer(tag, PagingReply::refused(reason, detail));
            }
            return;
        }
        let Some(index) = self.servers.iter().position(|side| side.incarnation() == attach.server) else {
            return;
        };
        if let Some(client) = self.clients.get_mut(&link) {
            client.under_way += 1;
        }
        let number = self.pending.insert(Pending::Attach { client: link, tag, attach, number: None });
        let (name, side) = (name_of(&attach), &mut self.servers[index]);
        if side.find(&name, &attach.grant.key, attach.rights).is_some() {
            return self.complete_attachment(index, number, now);
        }
        let (grant, rights) = (attach.grant, attach.rights);
        side.openings.insert(Opening { name, grant, rights, request: Some(number), is_asked: false });
    }

    /// Whether an attachment makes sense at all.
    fn admit(&self, link: LinkId, attach: &AttachRegion) -> Result<(), (AttachRefusal, &'static str)> {
        if !self.servers.iter().any(|side| side.incarnation() == attach.server) {
            let detail = "the agent has no link to that memory server; add it to agent.memory_servers";
            return Err((AttachRefusal::NoServer, detail));
        }
        if !attach.rights.includes(Rights::READ) || attach.grant.size == 0 {
            return Err((AttachRefusal::BadRequest, "attach some bytes, with the right to read them"));
        }
        let Some(client) = self.clients.get(&link) else { return Ok(()) };
        let key = (attach.grant.region, attach.grant.generation);
        let is_of_another = |attached: &Attached| {
            attached.name.server != attach.server
                && self.servers.iter().any(|side| side.incarnation() == attached.name.server)
        };
        // One that is on its way would be replaced by this one.
        let is_expected = self.pending.iter().any(|(_, pending)| {
            matches!(pending, Pending::Attach { client, attach: other, .. } if *client == link
                && (other.grant.region, other.grant.generation) == key && other.server != attach.server)
        });
        if is_expected || client.attached.get(&key).is_some_and(is_of_another) {
            let detail = "another server's region of that number is attached on this link; use another link";
            return Err((AttachRefusal::BadRequest, detail));
        }
        if client.attached.len() >= ATTACHED_MAX && !client.attached.contains_key(&key) {
            return Err((AttachRefusal::NoRoom, "too many regions are attached on this link; detach some"));
        }
        Ok(())
    }

    /// A server has answered an opening.
    pub(super) fn opened(
        &mut self,
        index: usize,
        number: u32,
        result: Result<OpenRegion, AccessError>,
        now: Time,
    ) {
        let side = &mut self.servers[index];
        let Some(Opening { name, grant, rights, request, .. }) = side.openings.remove(number) else { return };
        match (result, request) {
            (Ok(region), request) => {
                let number = self.shared.state().cache.find(&name).filter(|_| request.is_none());
                side.opened.push(Opened { name, key: grant.key, rights, region, number });
                match request {
                    Some(request) => self.complete_attachment(index, request, now),
                    None => self.close_unused(index),
                }
            }
            (Err(AccessError::Lost(_)), Some(request)) => {
                self.refuse(
                    request,
                    AttachRefusal::NoServer,
                    "the agent has lost the memory server; attach again",
                );
            }
            (Err(AccessError::NoRight { .. }), Some(request)) => {
                self.refuse(
                    request,
                    AttachRefusal::NoRight,
                    "the key does not carry the rights that were asked for",
                );
            }
            (Err(AccessError::OutOfBounds { .. }), Some(request)) => {
                self.refuse(request, AttachRefusal::BadRequest, "the grant has more bytes than the region");
            }
            (Err(AccessError::NotOpen), Some(request)) => {
                let detail = "the memory server knows no such region, generation and key";
                self.refuse(request, AttachRefusal::NotOpen, detail);
            }
            (Err(_), Some(request)) => {
                self.refuse(
                    request,
                    AttachRefusal::NoRoom,
                    "the memory server has no room for another open region",
                );
            }
            (Err(_), None) => {}
        }
    }

    fn refuse(&mut self, request: u32, reason: AttachRefusal, detail: &str) {
        if let Some(Pending::Attach { client, tag, .. }) = self.pending.remove(request) {
            self.answer(client, ClientAnswer::Plain { tag, reply: PagingReply::refused(reason, detail) });
        }
    }

    /// The right is proven: the region becomes known to the cache.
    fn complete_attachment(&mut self, index: usize, request: u32, now: Time) {
        let Some(Pending::Attach { client, tag, attach, .. }) = self.pending.get(request) else { return };
        let (client, tag, attach) = (*client, *tag, *attach);
        if !self.clients.contains_key(&client) {
            self.pending.remove(request);
            return self.close_unused(index);
        }
        let mode = if self.shared.has_cache() || attach.mode == CacheMode::Static {
            attach.mode
        } else {
            CacheMode::Off
        };
        let waiter = self.waiter(request);
        let mut state = self.shared.state();
        let (number, mode) = match self.shared.attach(&mut state, &attach, mode, now) {
            Ok(number) if mode == CacheMode::Static => {
                (number, self.shared.copy_region(&mut state, number, attach.grant.size))
            }
            Ok(number) => (number, mode),
            Err(error) => {
                drop(state);
                let reason = match error {
                    AttachError::TooMany { .. } => AttachRefusal::NoRoom,
                    _ => AttachRefusal::BadRequest,
                };
                self.refuse(request, reason, &error.to_string());
                return self.close_unused(index);
            }
        };
        let grant = state.wait_for_copy(number, mode, waiter);
        drop(state);
        let side = &mut self.servers[index];
        let name = name_of(&attach);
        side.opened.iter_mut().filter(|it| it.name == name).for_each(|it| it.number = Some(number));
        let (size, key, rights) = (attach.grant.size, attach.grant.key, attach.rights);
        let attached = Attached { number, name, size, key, rights, mode };
        let former = self
            .clients
            .get_mut(&client)
            .and_then(|side| side.attached.insert((name.region, name.generation), attached));
        if let Some(former) = former {
            self.give_up(&former, false);
        }
        match (grant, self.pending.get_mut(request)) {
            (Some(static_grant), _) => {
                self.pending.remove(request);
                self.answer(
                    client,
                    ClientAnswer::Plain { tag, reply: PagingReply::Attached { mode, static_grant } },
                );
            }
            (None, Some(Pending::Attach { number: waits_for, .. })) => *waits_for = Some(number),
            (None, _) => {}
        }
    }

    /// An application no longer needs a region.
    pub(super) fn detach(&mut self, link: LinkId, detach: &DetachRegion) {
        let key = (detach.region, detach.generation);
        self.cancel_attachments(link, |attach| (attach.grant.region, attach.grant.generation) == key);
        let client = self.clients.get_mut(&link);
        let attached = client.and_then(|it| it.attached.remove(&key));
        if let Some(attached) = attached {
            self.give_up(&attached, false);
        }
    }

    /// Attachments of a client that still wait are of no use to it any more: no worker must take them for a reason to keep
    /// their regions open.
    pub(super) fn cancel_attachments(&mut self, link: LinkId, is_over: impl Fn(&AttachRegion) -> bool) {
        let is_it = |pending: &Pending| matches!(pending, Pending::Attach { client, attach, .. } if *client == link && is_over(attach));
        let requests: Vec<u32> =
            self.pending.iter().filter(|(_, pending)| is_it(pending)).map(|it| it.0).collect();
        for request in requests {
            let sides = self.servers.iter_mut().flat_map(|side| side.openings.iter_mut());
            for (_, opening) in sides.filter(|(_, opening)| opening.request == Some(request)) {
                // When it is open, it is closed, unless another client wants it.
                opening.request = None;
            }
            self.refuse(request, AttachRefusal::NotOpen, "it was detached before it was attached");
        }
    }

    /// Ends one attachment. If it was not ended by the application itself and could write, the application may go on
    /// writing by another way: what is cached is dropped.
    pub(super) fn give_up(&mut self, attached: &Attached, is_lost: bool) {
        let mut state = self.shared.state();
        if is_lost && attached.rights.includes(Rights::WRITE) {
            state.cache.invalidate(attached.number);
        }
        self.shared.detach_from(&mut state, attached);
        drop(state);
        let server = self.servers.iter().position(|side| side.incarnation() == attached.name.server);
        if let Some(index) = server {
            self.close_unused(index);
        }
    }

    /// Closes regions at a server that no application here has attached any more.
    fn close_unused(&mut self, index: usize) {
        let (clients, pending) = (&self.clients, &self.pending);
        let side = &mut self.servers[index];
        let ServerSide { opened, closing, .. } = side;
        opened.retain(|opened| {
            let is_same = |name: &RegionIdentity, key| *name == opened.name && opened.key.matches(key);
            let mut all = clients.values().flat_map(|client| client.attached.values());
            let is_used = all.any(|attached| is_same(&attached.name, &attached.key))
                || pending.iter().any(|(_, pending)| {
                    matches!(pending, Pending::Attach { attach, .. } if is_same(&name_of(attach), &attach.grant.key))
                });
            if !is_used {
                closing.push(opened.region);
            }
            is_used
        });
    }

    /// A server is there again: what is attached of this life of it is opened once more.
    pub(super) fn open_again(&mut self, link: LinkId) {
        let Some(side) = self.servers.iter_mut().find(|side| side.link == link) else { return };
        let incarnation = side.incarnation();
        let steering = SteeringConfig::default();
        self.shared.state().net.entry(incarnation).or_insert_with(|| ServerMeter::new(&steering));
        let attached = self.clients.values().flat_map(|client| client.attached.values());
        for attached in attached.filter(|attached| attached.name.server == incarnation) {
            let Attached { name, size, key, rights, .. } = *attached;
            let (region, generation) = (name.region, name.generation);
            let grant = Grant { region, generation, key, rights, size };
            let is_known = side.openings.iter().any(|(_, it)| it.name == name && it.grant.key.matches(&key));
            if !is_known {
                side.openings.insert(Opening { name, grant, rights, request: None, is_asked: false });
            }
        }
    }

    /// A server is lost: attachments that wait for it are refused.
    pub(super) fn refuse_attachments(&mut self, side: &ServerSide) {
        let waits = |pending: &Pending| matches!(pending, Pending::Attach { attach, .. } if attach.server == side.incarnation());
        let requests: Vec<u32> =
            self.pending.iter().filter(|(_, pending)| waits(pending)).map(|it| it.0).collect();
        for request in requests {
            self.refuse(
                request,
                AttachRefusal::NoServer,
                "the agent has lost the memory server; attach again",
            );
        }
    }
}

impl SharedPaging {
    fn attach(
        &self,
        state: &mut SharedState,
        attach: &AttachRegion,
        mode: CacheMode,
        now: Time,
    ) -> Result<RegionNumber, AttachError> {
        let name = name_of(attach);
        let attachment = RegionAttachment {
            name,
            size: attach.grant.size,
            chunk_log2: attach.chunk_log2,
            is_writable: attach.rights.includes(Rights::WRITE),
            epoch: attach.epoch,
        };
        let number = state.cache.attach(&attachment)?;
        let fresh = || RegionState { attachment, mode, switch: None, reviewed_at: now, copy: None, users: 0 };
        if state.regions.get(&number).is_some_and(|region| region.attachment.epoch != attach.epoch) {
            self.drop_outdated_copy(state, number);
        }
        let region = state.regions.entry(number).or_insert_with(fresh);
        (region.attachment, region.mode) = (attachment, mode);
        region.users += 1;
        if mode == CacheMode::Auto && region.switch.is_none() {
            region.switch = Some(CacheSwitch::new(SteeringConfig::default(), now));
            state.shadow.attach(number, &attachment);
        }
        Ok(number)
    }

    fn detach_from(&self, state: &mut SharedState, attached: &Attached) {
        state.cache.detach(attached.number);
        let Some(region) = state.regions.get_mut(&attached.number) else { return };
        region.users = region.users.saturating_sub(1);
        if region.users == 0 {
            state.shadow.detach(attached.number);
            self.drop_outdated_copy(state, attached.number);
            state.regions.remove(&attached.number);
        }
    }
}
