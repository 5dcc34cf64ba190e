//! The agent's half: it passes on what writers unload to the memory server that owns their regions, and its answers back. It
//! keeps nothing: what a writer has not heard of, the writer sends again.

use std::collections::BTreeMap;

use outboard_contract::{Disposition, Frame, LinkId, Outbox, Peer};
use outboard_wire::writing::{ATTACH, AttachWriter, DRAINED, LEAVE, Leave, REFUSED, WriterId};
use outboard_wire::{FrameHead, Incarnation, Role};

/// How many writers one worker passes on for.
const WRITERS_MAX: usize = 1024;

/// Between whom a writer's frames go.
#[derive(Clone, Copy)]
struct Route {
    client: LinkId,
    server: LinkId,
    attempt: u32,
}

/// What one worker of an agent does with frames about writes.
#[derive(Default)]
pub struct Relay {
    /// In order, so that a simulated agent does the same again.
    routes: BTreeMap<WriterId, Route>,
    servers: Vec<(LinkId, Incarnation)>,
    counts: RelayCounts,
}

/// What a relay has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RelayCounts {
    /// Frames that were passed on.
    pub frames: u64,
    /// Writers that were told to find another way.
    pub refused: u64,
}

impl Relay {
    /// What was done since this was asked last.
    pub fn take_counts(&mut self) -> RelayCounts {
        std::mem::take(&mut self.counts)
    }

    /// A link to a peer that this agent has dialled is open: only such memory servers can own regions.
    pub fn on_dialled(&mut self, link: LinkId, peer: &Peer) {
        if peer.intro().role == Role::MemoryServer {
            self.servers.push((link, peer.incarnation()));
        }
    }

    /// Passes a frame on.
    pub fn on_frame(&mut self, link: LinkId, frame: &Frame<'_>, outbox: &mut Outbox) -> Disposition {
        if frame.payload.len() < size_of::<WriterId>() {
            return Disposition::Taken;
        }
        let writer = WriterId(frame.payload.array(0));
        let is_from_server = self.servers.iter().any(|(server, _)| *server == link);
        if !is_from_server && frame.head.kind == ATTACH {
            self.find_server(link, writer, frame);
        }
        let to = match self.routes.get(&writer) {
            Some(route) if is_from_server && route.server == link => Some(route.client),
            Some(route) if !is_from_server && route.client == link => Some(route.server),
            _ => None,
        };
        let may_pass = !is_from_server || matches!(frame.head.kind, DRAINED | REFUSED);
        match to {
            Some(to) if may_pass => {
                if !outbox.has_room(to) {
                    // A server's answer waits for no writer: others hear from the server by the same link. A later
                    // answer says all that this one does, and a writer that misses the last asks again.
                    return if is_from_server { Disposition::Taken } else { Disposition::Deferred };
                }
                outbox.push(to, frame.head, frame.payload.to_vec());
                self.counts.frames += 1;
                if frame.head.kind == LEAVE {
                    self.routes.remove(&writer);
                }
            }
            None if !is_from_server => self.refuse(link, writer, 0, outbox),
            _ => {}
        }
        Disposition::Taken
    }

    fn find_server(&mut self, client: LinkId, writer: WriterId, frame: &Frame<'_>) {
        let Ok(attach) = AttachWriter::decode(&frame.payload.to_vec()) else { return };
        let server = self.servers.iter().find(|(_, incarnation)| *incarnation == attach.server);
        if let Some((server, _)) = server
            && (self.routes.len() < WRITERS_MAX || self.routes.contains_key(&writer))
        {
            self.routes.insert(writer, Route { client, server: *server, attempt: attach.attempt });
        }
    }

    fn refuse(&mut self, client: LinkId, writer: WriterId, attempt: u32, outbox: &mut Outbox) {
        self.counts.refused += 1;
        outbox.push_copy(client, FrameHead::new(REFUSED), &Leave { writer, attempt }.encode());
    }

    /// A link is gone. Writers whose server it led to are told, so that they find another way; servers are told of writers
    /// that are gone.
    pub fn on_lost(&mut self, link: LinkId, outbox: &mut Outbox) {
        self.servers.retain(|(server, _)| *server != link);
        let lost: Vec<(WriterId, Route)> = self
            .routes
            .iter()
            .filter(|(_, route)| route.client == link || route.server == link)
            .map(|(writer, route)| (*writer, *route))
            .collect();
        for (writer, route) in lost {
            self.routes.remove(&writer);
            if route.client != link {
                self.refuse(route.client, writer, route.attempt, outbox);
            } else {
                // The server keeps a place for everybody who has not left.
                let leave = Leave { writer, attempt: route.attempt }.encode();
                outbox.push_copy(route.server, FrameHead::new(LEAVE), &leave);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use outboard_wire::{Auth, Introduction, JobId, Rank, StoreId, Text, Versions};

    use super::*;

    #[test]
    fn a_writer_that_takes_no_answers_holds_up_no_other() {
        let incarnation = Incarnation(9);
        let peer = Introduction {
            incarnation,
            role: Role::MemoryServer,
            job: JobId(0),
            rank: Rank(0),
            pid: 1,
            name: Text::new("server"),
            max_payload: 1 << 16,
            auth: Auth::NONE,
            store: StoreId::NONE,
        };
        let (server, client, mut outbox, mut relay) =
            (LinkId(1), LinkId(2), Outbox::default(), Relay::default());
        relay.on_dialled(server, &Peer::new(peer, Versions::NEWEST, "nowhere"));
        let writer = WriterId([7; 16]);
        let frame = |kind, payload| Frame { head: FrameHead::new(kind), payload };
        let attach = AttachWriter { writer, attempt: 1, server: incarnation }.encode();
        relay.on_frame(client, &frame(ATTACH, attach[..].into()), &mut outbox);
        let answer = [&writer.0[..], &[0; 16 << 10]].concat();
        for _ in 0..100 {
            let disposition = relay.on_frame(server, &frame(DRAINED, answer[..].into()), &mut outbox);
            assert_eq!(disposition, Disposition::Taken);
        }
        assert!(!outbox.has_room(client));
    }
}
