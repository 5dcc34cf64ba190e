//! The memory server: its store and its half of paging, as they are in the product.

use std::collections::BTreeMap;
use std::time::Duration;

use outboard_agent::{Parting, RegionStore, StoreConfig};
use outboard_driver::{LinkId, LinkOrigin, Outbox, Service};
use outboard_link::{Disposition, Frame, Link, LinkError, Peer, RemoteMemory};
use outboard_paging::{is_paging, read_request, server};
use outboard_wire::control::{ControlAnswer, Question};
use outboard_wire::paging::PagingRequest;
use outboard_wire::{Incarnation, Rights, ServerId, Time};

use super::books::Books;
use super::layout::GRAIN;
use crate::Boot;

/// Leases regions, and takes what is written back to them.
pub(super) struct Server {
    life: Incarnation,
    store: RegionStore,
    outbox: Outbox,
    processes: BTreeMap<LinkId, Incarnation>,
    books: Books,
}

impl Server {
    /// A process whose links are lost keeps its leases for `linger`.
    pub(super) fn new(boot: &Boot, books: Books, linger: Duration) -> Self {
        books.server_starts();
        let config = StoreConfig {
            server: ServerId(1),
            incarnation: boot.incarnation,
            capacity: u64::MAX,
            regions_max: usize::MAX,
            linger,
        };
        Self {
            life: boot.incarnation,
            store: RegionStore::new(config, boot.exports.clone()),
            outbox: Outbox::default(),
            processes: BTreeMap::new(),
            books,
        }
    }

    fn answer(&mut self, link: LinkId, tag: u32, question: &Question, now: Time) {
        let Some(process) = self.processes.get(&link).copied() else { return };
        let answer = self.store.answer(now, process, question);
        match (&answer, question) {
            (ControlAnswer::Region(descriptor), Question::OpenNamed { .. } | Question::Reserve { .. }) => {
                let region = descriptor.grant.region;
                let writes = !matches!(question, Question::OpenNamed { rights, .. } if !rights.includes(Rights::WRITE));
                if let Some(gate) = self.store.gate(region) {
                    self.books.leased((self.life, region), process, gate, writes);
                }
            }
            (ControlAnswer::Released, Question::Release { region, .. }) => {
                self.books.released((self.life, *region), process);
            }
            _ => {}
        }
        self.outbox.answer(link, tag, &answer);
    }
}

impl Service for Server {
    type Note = ();

    fn on_open(&mut self, link: LinkId, peer: &Peer, _: LinkOrigin, now: Time) {
        self.processes.insert(link, peer.incarnation());
        self.store.link_opened(now, peer.incarnation(), 1, &peer.to_string());
    }

    fn on_frame(&mut self, link: LinkId, frame: Frame<'_>, now: Time) -> Disposition {
        if !self.outbox.has_room(link) {
            return Disposition::Deferred;
        }
        if is_paging(frame.head.kind) {
            let store = &self.store;
            let returned =
                server::on_frame(link, &frame, &mut self.outbox, |region| store.gate(region).cloned());
            if let (1, Some((PagingRequest::WriteBack(back), _))) = (returned.done, read_request(&frame)) {
                let (start, len) = (back.offset as usize, back.length as usize);
                let grains = start / GRAIN..(start + len).div_ceil(GRAIN);
                self.books.look((self.life, back.region), grains);
            }
            return Disposition::Taken;
        }
        match Question::decode(frame.head.kind, &frame.payload.to_vec()) {
            Ok(question) => self.answer(link, frame.head.tag, &question, now),
            Err(error) => self.books.recorder().fail(format!("what was asked can be read: {error}")),
        }
        Disposition::Taken
    }

    fn send<L: Link + RemoteMemory>(&mut self, id: LinkId, link: &mut L, _: Time) -> Result<bool, LinkError> {
        self.outbox.send(id, link)
    }

    fn on_lost(&mut self, link: LinkId, error: &LinkError, now: Time) {
        self.outbox.forget(link);
        if let Some(process) = self.processes.remove(&link) {
            self.store.link_lost(now, process, Parting::of(error));
        }
    }

    fn next_deadline(&self) -> Option<Time> {
        self.store.next_deadline()
    }

    fn on_time(&mut self, now: Time) {
        self.store.on_time(now);
    }
}
