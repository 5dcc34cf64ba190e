//! A meeting place in a thread of its own, for jobs without an agent.

use std::collections::HashSet;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use outboard_driver::{
    FrontDesk, FrontDeskConfig, LinkId, LinkOrigin, Listener, Outbox, Service, Worker, WorkerConfig,
};
use outboard_link::{
    Address, Clock, ConnectError, Disposition, Exports, Frame, Identity, Link, LinkError, Peer, RemoteMemory,
};
use outboard_wire::control::{ControlAnswer, ControlFailure, JobSecret, Question};
use outboard_wire::{JobId, Time};
use rustix::io::Errno;
use thiserror::Error;

use crate::gathering::{Addressed, Rendezvous};

/// The job that a meeting is for.
#[derive(Clone, Copy, Debug)]
pub struct Expected {
    /// Which job.
    pub job: JobId,
    /// What its ranks know.
    pub secret: JobSecret,
    /// How many they are.
    pub size: u32,
}

/// Why a meeting could not be held.
#[derive(Error)]
pub enum HostError {
    /// The host cannot listen there.
    #[error(transparent)]
    Listen(#[from] ConnectError),
    /// The operating system refused.
    #[error("the operating system refused: {0}")]
    System(#[from] Errno),
    /// No thread could be made.
    #[error("no thread could be started: {0}")]
    Thread(std::io::Error),
}

outboard_wire::debug_with_causes!(HostError);

/// A meeting place. It ends when it is dropped; ranks that have met do not need it any more.
pub struct MeetingHost {
    address: Address,
    stop: Box<dyn Fn() + Send + Sync>,
    threads: Vec<JoinHandle<()>>,
}

impl MeetingHost {
    /// Waits at `address` for the ranks of one job, each at most `patience` after the start.
    pub fn start(
        address: &Address,
        identity: &Identity,
        expected: Expected,
        patience: Duration,
        config: FrontDeskConfig,
    ) -> Result<Self, HostError> {
        let clock = Clock::start();
        let mut rendezvous = Rendezvous::new(patience);
        rendezvous.expect(clock.now(), expected.job, expected.secret, expected.size);
        let service = Meeting { rendezvous, outbox: Outbox::default(), here: HashSet::new() };
        let listener = Listener::bind(address, identity, &Exports::new(), &config)?;
        let address = listener.address();
        let (worker, handle) = Worker::new(WorkerConfig::default(), clock, service)?;
        // Strangers are told why they are turned away; the host reports them to no other process.
        let desk = FrontDesk::new(config, clock, (vec![listener], Vec::new()), vec![handle.clone()], |_| {})?;
        let stop_desk = Arc::new(desk.stopper());
        let stop = Box::new(move || {
            stop_desk();
            handle.stop("the meeting is over");
        });
        // A thread that ends early ends the meeting, and the ranks' own deadlines tell of it.
        let threads = vec![
            spawn("rendezvous", move || {
                let _ = worker.run();
            })?,
            spawn("rendezvous-desk", move || {
                let _ = desk.run();
            })?,
        ];
        Ok(Self { address, stop, threads })
    }

    /// Where the ranks meet; a port that was left to the system is filled in.
    pub fn address(&self) -> &Address {
        &self.address
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, HostError> {
    std::thread::Builder::new().name(name.to_owned()).spawn(run).map_err(HostError::Thread)
}

impl Drop for MeetingHost {
    fn drop(&mut self) {
        (self.stop)();
        for thread in self.threads.drain(..) {
            // A panic there has been printed; there is nothing to add.
            let _ = thread.join();
        }
    }
}

struct Meeting {
    rendezvous: Rendezvous,
    outbox: Outbox,
    here: HashSet<LinkId>,
}

impl Meeting {
    fn deliver(&mut self, answers: Vec<Addressed>) {
        for Addressed { client, tag, answer } in answers {
            let link = LinkId(client);
            if self.here.contains(&link) {
                self.outbox.answer(link, tag, &answer);
            }
        }
    }
}

impl Service for Meeting {
    type Note = ();

    fn on_open(&mut self, link: LinkId, _peer: &Peer, _origin: LinkOrigin, _now: Time) {
        self.here.insert(link);
    }

    fn on_frame(&mut self, link: LinkId, frame: Frame<'_>, now: Time) -> Disposition {
        if !self.outbox.has_room(link) {
            return Disposition::Deferred;
        }
        let (kind, tag) = (frame.head.kind, frame.head.tag);
        match Question::decode(kind, &frame.payload.to_vec()) {
            Ok(Question::Join { job, secret, size, member }) => {
                let answers = self.rendezvous.on_join(now, (link.0, tag), (job, secret, size), member);
                self.deliver(answers);
            }
            Ok(_) => {
                let answer = ControlAnswer::failed(
                    ControlFailure::NotServed,
                    "here the ranks of a job meet, nothing else",
                );
                self.outbox.answer(link, tag, &answer);
            }
            Err(error) => {
                self.outbox.answer(
                    link,
                    tag,
                    &ControlAnswer::failed(ControlFailure::BadRequest, &error.to_string()),
                );
            }
        }
        Disposition::Taken
    }

    fn send<L: Link + RemoteMemory>(
        &mut self,
        id: LinkId,
        link: &mut L,
        _now: Time,
    ) -> Result<bool, LinkError> {
        self.outbox.send(id, link)
    }

    fn on_lost(&mut self, link: LinkId, _error: &LinkError, _now: Time) {
        self.here.remove(&link);
        self.outbox.forget(link);
        self.rendezvous.on_gone(link.0);
    }

    fn next_deadline(&self) -> Option<Time> {
        self.rendezvous.next_deadline()
    }

    fn on_time(&mut self, now: Time) {
        let answers = self.rendezvous.on_time(now);
        self.deliver(answers);
    }
}
