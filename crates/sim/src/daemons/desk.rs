//! A daemon that keeps regions and gathers ranks.

use std::time::Duration;

use outboard_agent::{Parting, RegionStore, StoreConfig};
use outboard_driver::{LinkId, LinkOrigin, Outbox, Service};
use outboard_link::{Disposition, Frame, Link, LinkError, Peer, RemoteMemory};
use outboard_rendezvous::{Addressed, Rendezvous};
use outboard_wire::control::{JobSecret, Question};
use outboard_wire::{Incarnation, JobId, ServerId, Time};

use super::books::Books;
use crate::Boot;

/// How many bytes there are for regions: few enough that they run out.
pub(super) const CAPACITY: u64 = 256 * 1024;
/// How long a job waits for its last rank.
pub(super) const PATIENCE: Duration = Duration::from_millis(60);
/// The job that is announced before anyone joins.
pub(super) const ANNOUNCED: JobId = JobId(1);
/// The secret that the ranks of every job know.
pub(super) const SECRET: JobSecret = JobSecret([3; JobSecret::LEN_MAX]);

/// Runs the machines of the daemons over simulated links, and lets the books follow.
pub(super) struct Desk {
    pub(super) store: RegionStore,
    rendezvous: Rendezvous,
    pub(super) outbox: Outbox,
    pub(super) books: Books,
    /// The answer to a join that was given last.
    pub(super) last: Option<Addressed>,
}

impl Desk {
    pub(super) fn new(boot: Boot, mut books: Books, ranks: u32) -> Self {
        let config = StoreConfig {
            server: ServerId(1),
            incarnation: boot.incarnation,
            capacity: CAPACITY,
            regions_max: usize::MAX,
            linger: Duration::ZERO,
        };
        let mut rendezvous = Rendezvous::new(PATIENCE);
        rendezvous.expect(boot.now, ANNOUNCED, SECRET, ranks);
        books.announce(boot.now, ANNOUNCED, SECRET, ranks);
        Self {
            store: RegionStore::new(config, boot.exports),
            rendezvous,
            outbox: Outbox::default(),
            books,
            last: None,
        }
    }

    fn ask(&mut self, link: LinkId, tag: u32, question: &Question, now: Time) {
        if let Question::Join { job, secret, size, member } = *question {
            self.books.on_join(now, (link.0, tag), (job, secret, size), member);
            let answers = self.rendezvous.on_join(now, (link.0, tag), (job, secret, size), member);
            self.deliver(answers);
            return;
        }
        let answer = self.store.answer(now, process(link), question);
        self.books.on_answer(link.0, question, &answer);
        self.audit();
        self.outbox.answer(link, tag, &answer);
    }

    fn deliver(&mut self, answers: Vec<Addressed>) {
        for addressed in answers {
            self.books.on_gathered(&addressed);
            self.outbox.answer(LinkId(addressed.client), addressed.tag, &addressed.answer);
            self.last = Some(addressed);
        }
    }

    /// The store must agree with the books.
    fn audit(&self) {
        self.books.audit(self.store.used(), self.store.count());
    }
}

/// The process behind a link. Each link is taken for a process of its own: a tenant that has lost its link cannot know
/// whether the daemon still counts it when the next one opens.
pub(super) fn process(link: LinkId) -> Incarnation {
    Incarnation(link.0)
}

impl Service for Desk {
    type Note = ();

    fn on_open(&mut self, link: LinkId, peer: &Peer, _: LinkOrigin, now: Time) {
        self.store.link_opened(now, process(link), peer.intro().rank.0, &peer.to_string());
    }

    fn on_frame(&mut self, link: LinkId, frame: Frame<'_>, now: Time) -> Disposition {
        if !self.outbox.has_room(link) {
            return Disposition::Deferred;
        }
        match Question::decode(frame.head.kind, &frame.payload.to_vec()) {
            Ok(question) => self.ask(link, frame.head.tag, &question, now),
            Err(error) => self.books.recorder().fail(format!("what was asked can be read: {error}")),
        }
        Disposition::Taken
    }

    fn send<L: Link + RemoteMemory>(&mut self, id: LinkId, link: &mut L, _: Time) -> Result<bool, LinkError> {
        self.outbox.send(id, link)
    }

    fn on_lost(&mut self, link: LinkId, error: &LinkError, now: Time) {
        self.outbox.forget(link);
        let released = self.store.link_lost(now, process(link), Parting::of(error));
        self.rendezvous.on_gone(link.0);
        self.books.on_gone(link.0, released);
        self.audit();
    }

    fn next_deadline(&self) -> Option<Time> {
        self.rendezvous.next_deadline()
    }

    fn on_time(&mut self, now: Time) {
        let answers = self.rendezvous.on_time(now);
        self.deliver(answers);
        self.books.on_time(now);
    }
}
