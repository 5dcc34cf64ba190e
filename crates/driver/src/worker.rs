//! The thread that owns links and runs a service over them.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use outboard_limits::growth;
use outboard_link::shaped::Wire;
use outboard_link::{AnyLink, Clock, Disposition, Link, LinkError, Loss, RemoteMemory};
use outboard_wire::{Role, Time};
use rustix::io::Errno;

use crate::desk::Order;
use crate::easing::{self, ease};
use crate::links::{Held, Links, for_each_kind};
use crate::mailbox::Mailbox;
use crate::poller::{Interest, Poller};
use crate::pulse::Pulse;
use crate::roster::{Alarms, Fate, Roster};
use crate::{LinkId, LinkOrigin, Service};

/// The settings of a worker.
#[derive(Clone, Copy, Debug)]
pub struct WorkerConfig {
    /// How long to look for work before sleeping; default 20 µs. Longer answers faster and burns a core. A worker that
    /// has only links over sockets sleeps at once: looking costs a system call, and the kernel likes to run both ends of
    /// a socket on one core, where a side that spins keeps the other from answering.
    pub spin: Duration,
    /// How many frames are taken from one link before the next has its turn; default 64.
    pub frames_per_turn: usize,
    /// A slower wire that every link is made to look like; default none.
    pub wire: Option<Wire>,
    /// A slower wire for the links that this side dialled, in place of `wire`; default none.
    pub dial_wire: Option<Wire>,
    /// A slower wire for links whose other end is no agent, in place of both; default none.
    pub server_wire: Option<Wire>,
}

impl Default for WorkerConfig {
    fn default() -> Self {
        Self {
            spin: Duration::from_micros(20),
            frames_per_turn: 64,
            wire: None,
            dial_wire: None,
            server_wire: None,
        }
    }
}

enum Letter<N> {
    Link(AnyLink, LinkOrigin),
    Note(N),
    Stop(String),
}

/// How others reach a worker whose service takes notes of type `N`.
pub struct WorkerHandle<N> {
    shared: Arc<Shared<N>>,
}

impl<N> Clone for WorkerHandle<N> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

struct Shared<N> {
    letters: Mailbox<Letter<N>>,
    links: AtomicUsize,
    desk: OnceLock<Arc<Mailbox<Order>>>,
    pulse: Arc<Pulse>,
}

impl<N> WorkerHandle<N> {
    /// Makes the worker the owner of a link.
    pub fn give(&self, link: AnyLink, origin: LinkOrigin) {
        self.shared.letters.post(Letter::Link(link, origin));
    }

    /// Tells the worker's service something.
    pub fn tell(&self, note: N) {
        self.shared.letters.post(Letter::Note(note));
    }

    /// Tells the worker to close its links with this reason and end.
    pub fn stop(&self, reason: &str) {
        self.shared.letters.post(Letter::Stop(reason.to_owned()));
    }

    /// How many links it has.
    pub fn links(&self) -> usize {
        self.shared.links.load(Ordering::Relaxed)
    }

    /// How long its turns take.
    pub fn pulse(&self) -> &Arc<Pulse> {
        &self.shared.pulse
    }

    pub(crate) fn set_desk(&self, desk: Arc<Mailbox<Order>>) {
        // A worker belongs to one desk; a second one is not listened to.
        let _ = self.shared.desk.set(desk);
    }
}

/// Owns links and runs a service over them: spins for a while when there is nothing to do, then sleeps.
pub struct Worker<S: Service> {
    config: WorkerConfig,
    clock: Clock,
    service: S,
    shared: Arc<Shared<S::Note>>,
    poller: Poller,
    links: Links,
    /// Whether links may rest: the service says when it has something for them.
    may_rest: bool,
    /// The links that the service has something for; kept for its capacity.
    roused: Vec<LinkId>,
    /// When the descriptors were last looked at, and when quiet links were last laid to rest.
    polled_at: Time,
    sorted_at: Time,
    /// When it was last seen to what memory there is, while that is short.
    eased_at: Time,
}

/// How long a link is quiet before it rests.
const QUIET: Duration = Duration::from_millis(5);
/// How often a worker that does not sleep lays quiet links to rest, and looks whether one that rests has to wake.
const SORT_EVERY: Duration = Duration::from_millis(1);
const LOOK_EVERY: Duration = Duration::from_micros(50);
/// The poller's key of the mailbox; links have their ids, which begin at one.
const LETTERS_KEY: u64 = 0;
/// The poller's key of what else wakes the service.
const SERVICE_KEY: u64 = u64::MAX;

impl<S: Service> Worker<S> {
    /// A worker without links.
    pub fn new(
        config: WorkerConfig,
        clock: Clock,
        service: S,
    ) -> Result<(Self, WorkerHandle<S::Note>), Errno> {
        let letters = Mailbox::new()?;
        let shared = Arc::new(Shared {
            pulse: letters.pulse(),
            letters,
            links: AtomicUsize::new(0),
            desk: OnceLock::new(),
        });
        let poller = Poller::new()?;
        poller.add(shared.letters.descriptor(), LETTERS_KEY, Interest::READ)?;
        let handle = WorkerHandle { shared: Arc::clone(&shared) };
        let worker = Self {
            config,
            clock,
            service,
            shared,
            poller,
            links: Links::default(),
            may_rest: false,
            roused: Vec::new(),
            polled_at: Time::ZERO,
            sorted_at: Time::ZERO,
            eased_at: Time::ZERO,
        };
        Ok((worker, handle))
    }

    /// Wakes the worker when this becomes readable, besides its links and notes. Several workers may share it: one of those
    /// that sleep is woken.
    pub fn wake_on(&self, descriptor: BorrowedFd<'_>) -> Result<(), Errno> {
        self.poller.add_shared(descriptor, SERVICE_KEY)
    }

    /// Works until told to stop, and gives the service back.
    pub fn run(mut self) -> Result<S, Errno> {
        let mut busy_at = self.clock.now();
        loop {
            let now = self.clock.now();
            self.shared.pulse.turn(now);
            if self.shared.letters.is_filled()
                && let Some(reason) = self.read_letters()
            {
                self.close(&reason);
                return Ok(self.service);
            }
            self.rouse(now);
            if self.turn(now) {
                busy_at = now;
                if !self.links.can_spin() && self.links.are_many() {
                    self.poll(now, Some(now))?;
                }
                self.look_around(now)?;
            } else if self.looks_on(now.since(busy_at)) {
                std::hint::spin_loop();
                self.look_around(now)?;
            } else if !self.rouse(now) {
                self.shared.pulse.rest(self.clock.now());
                self.sleep(now)?;
                busy_at = self.clock.now();
            }
        }
    }

    /// Whether it looks for work though there was none for so long.
    fn looks_on(&mut self, idle: Duration) -> bool {
        self.links.can_spin() && self.service.looks_on(idle).unwrap_or(idle < self.config.spin)
    }

    /// Does what there is to do now, for a caller without a thread to spare: as a turn of [`run`](Self::run), without
    /// sleeping. Returns whether anything moved.
    pub fn step(&mut self) -> Result<bool, Errno> {
        if self.shared.letters.is_filled() {
            self.read_letters();
        }
        Ok(self.turn(self.clock.now()))
    }

    /// Sleeps until there may be something to do, but not longer than `most`.
    pub fn rest(&mut self, most: Duration) -> Result<(), Errno> {
        let now = self.clock.now();
        self.sleep_until(now, Some(now + most))
    }

    /// The service, for the thread that owns the worker.
    #[inline]
    pub fn service(&mut self) -> &mut S {
        &mut self.service
    }

    /// The service, to look at.
    pub fn service_ref(&self) -> &S {
        &self.service
    }

    /// Closes all links with this reason. What was flushed before is still delivered.
    pub fn close(&mut self, reason: &str) {
        for_each_kind!(self.links, held => held.all_mut().iter_mut().for_each(|held| held.link.close(reason)));
    }

    /// Wakes links for which the service has something, and those whose time has come. Returns whether there were any.
    fn rouse(&mut self, now: Time) -> bool {
        if now.since(self.eased_at) >= easing::EVERY && growth().is_short() {
            self.eased_at = now;
            ease(&mut self.links, now);
        }
        let resting = self.links.resting();
        self.may_rest = self.service.rouse(&mut self.roused);
        for id in self.roused.drain(..) {
            self.links.wake(id);
        }
        self.links.wake_due(now);
        self.links.resting() < resting
    }

    /// Does now and then what sleeping does, for a worker that has no time to sleep: links that are quiet are laid to
    /// rest, and those that rest are woken.
    fn look_around(&mut self, now: Time) -> Result<(), Errno> {
        if now.since(self.sorted_at) >= SORT_EVERY {
            self.lay_to_rest(now);
        }
        if self.links.resting() > 0 && now.since(self.polled_at) >= LOOK_EVERY {
            self.poll(now, Some(now))?;
        }
        Ok(())
    }

    /// Leaves links out of turns that have been quiet for a while.
    fn lay_to_rest(&mut self, now: Time) {
        self.sorted_at = now;
        if self.may_rest {
            let Links { shm, tcp, alarms, .. } = &mut self.links;
            shm.sort(alarms, |held| rest_if_quiet(&self.poller, held, now));
            tcp.sort(alarms, |held| rest_if_quiet(&self.poller, held, now));
        }
    }

    /// Gives every link that does not rest and the service a turn. Returns whether anything moved.
    fn turn(&mut self, now: Time) -> bool {
        let mut moved = false;
        let (service, most) = (&mut self.service, self.config.frames_per_turn);
        let keepers = (&*self.shared, &self.poller);
        if service.next_deadline().is_some_and(|deadline| deadline <= now) {
            service.on_time(now);
            moved = true;
        }
        moved |= service.on_turn(now);
        let mut alarms = std::mem::take(&mut self.links.alarms);
        for_each_kind!(self.links, held => moved |= pump_all(service, (held, &mut alarms), keepers, most, now));
        self.links.alarms = alarms;
        moved
    }

    /// Sleeps until there is something to do.
    fn sleep(&mut self, now: Time) -> Result<(), Errno> {
        self.sleep_until(now, None)
    }

    fn sleep_until(&mut self, now: Time, most: Option<Time>) -> Result<(), Errno> {
        self.lay_to_rest(now);
        let alarm = self.links.alarms.first().map(|(due, _)| *due);
        let easing = growth().is_short().then(|| now + easing::EVERY);
        let mut until = self.service.next_deadline().into_iter().chain(most).chain(alarm).chain(easing).min();
        let mut ready = false;
        let poller = &self.poller;
        for_each_kind!(self.links, held => for held in held.iter_mut() {
            ready |= !held.link.prepare_to_wait();
            until = until.into_iter().chain(held.link.next_deadline()).min();
            watch(poller, held)?;
        });
        if !ready {
            self.poll(now, until)?;
        }
        Ok(())
    }

    /// Sleeps until something happens or `until`, and tells every link whether it happened to that.
    fn poll(&mut self, now: Time, until: Option<Time>) -> Result<(), Errno> {
        self.polled_at = now;
        for key in self.poller.wait(now, until)? {
            self.links.wake(LinkId(*key));
        }
        let poller = &self.poller;
        for_each_kind!(self.links, held => for held in held.iter_mut() {
            if let Some(has_something) = poller.has_seen(held.id.0) {
                held.link.polled(has_something);
            }
        });
        if let Some(has_something) = poller.has_seen(SERVICE_KEY) {
            self.service.polled(has_something);
        }
        Ok(())
    }

    fn read_letters(&mut self) -> Option<String> {
        for letter in self.shared.letters.take() {
            match letter {
                Letter::Stop(reason) => return Some(reason),
                Letter::Link(link, origin) => self.take_in(link, origin),
                Letter::Note(note) => self.service.on_note(note, self.clock.now()),
            }
        }
        None
    }

    /// Takes a link in. One that cannot be watched is closed: the system may have no room for more, and the other links
    /// go on.
    fn take_in(&mut self, link: AnyLink, origin: LinkOrigin) {
        let id = LinkId::next();
        let now = self.clock.now();
        let is_agent = link.peer().intro().role == Role::Agent;
        let wire = self.config.server_wire.filter(|_| !is_agent).or(match origin {
            LinkOrigin::Dialled(_) => self.config.dial_wire.or(self.config.wire),
            LinkOrigin::Accepted => self.config.wire,
        });
        let mut taken = self.links.add((id, origin), link, wire);
        let (service, poller) = (&mut self.service, &self.poller);
        let mut alarms = std::mem::take(&mut self.links.alarms);
        for_each_kind!(self.links, held => if let Some(new) = held.wake(id, &mut alarms) {
            taken = watch_new(poller, new);
            match taken {
                Ok(()) => service.on_open(id, new.link.peer(), origin, now),
                Err(_) => held.sort(&mut alarms, |held| if held.id == id { Fate::Goes } else { Fate::Stays }),
            }
        });
        self.links.alarms = alarms;
        if taken.is_err() {
            redial(&self.shared, origin);
        }
        self.shared.links.store(self.links.count(), Ordering::Relaxed);
    }
}

/// Watches a new link, or closes it where that cannot be done.
fn watch_new<L: Link>(poller: &Poller, held: &mut Held<L>) -> Result<(), Errno> {
    let watched =
        held.link.wait_on().map_or(Ok(()), |on| poller.add(on.descriptor, held.id.0, Interest::READ));
    watched.inspect_err(|error| {
        held.link.close(&format!("the system has no room for another link: {error}"));
    })
}

/// A link that was quiet for long enough rests, if it can tell when something happens to it.
fn rest_if_quiet<L: Link>(poller: &Poller, held: &mut Held<L>, now: Time) -> Fate {
    let is_quiet = !held.is_deferred && now.since(held.moved_at) >= QUIET;
    match is_quiet && held.link.prepare_to_wait() && watch(poller, held).is_ok() {
        true => Fate::Rests(held.link.next_deadline()),
        false => Fate::Stays,
    }
}

/// Has a link that this side dialled dialled again.
fn redial<N>(shared: &Shared<N>, origin: LinkOrigin) {
    if let (LinkOrigin::Dialled(dial), Some(desk)) = (origin, shared.desk.get()) {
        desk.post(Order::Redial(dial));
    }
}

/// Keeps the poller's interest in step with the link's.
fn watch<L: Link>(poller: &Poller, held: &mut Held<L>) -> Result<(), Errno> {
    if let Some(on) = held.link.wait_on() {
        let interest = Interest { readable: on.readable, writable: on.writable };
        if interest != held.interest {
            poller.change(on.descriptor, held.id.0, interest)?;
            held.interest = interest;
        }
    }
    Ok(())
}

fn pump_all<S: Service, L: Link + RemoteMemory>(
    service: &mut S,
    (links, alarms): (&mut Roster<L>, &mut Alarms),
    (shared, poller): (&Shared<S::Note>, &Poller),
    most: usize,
    now: Time,
) -> bool {
    let mut moved = false;
    let before = links.count();
    links.sort(alarms, |held| match pump(service, held, most, now) {
        Ok(false) => Fate::Stays,
        Ok(true) => {
            moved = true;
            held.moved_at = now;
            Fate::Stays
        }
        Err(error) => {
            moved = true;
            let Held { id, link, .. } = held;
            link.completions(|completion| service.on_completion(*id, completion, now));
            service.on_lost(*id, &error, now);
            // Closing is not enough: the poller would go on to watch a socket that something else holds as well.
            if let Some(on) = link.wait_on() {
                poller.remove(on.descriptor);
            }
            redial(shared, held.origin);
            Fate::Goes
        }
    });
    if links.count() != before {
        shared.links.fetch_sub(before - links.count(), Ordering::Relaxed);
    }
    moved
}

fn pump<S: Service, L: Link + RemoteMemory>(
    service: &mut S,
    held: &mut Held<L>,
    most: usize,
    now: Time,
) -> Result<bool, LinkError> {
    let Held { id, link, is_deferred, stuck, .. } = held;
    if let Some(silent) = stuck.take() {
        let loss = Loss::Stalled { silent, awaited: easing::REASON };
        link.close(&loss.to_string());
        return Err(LinkError { peer: link.peer().clone(), loss });
    }
    let mut moved = link.progress(now)?;
    *is_deferred = false;
    moved |= link.receive(most, |frame| {
        let disposition = service.on_frame(*id, frame, now);
        *is_deferred |= disposition == Disposition::Deferred;
        disposition
    })? > 0;
    moved |= link.completions(|completion| service.on_completion(*id, completion, now)) > 0;
    moved |= service.send(*id, link, now)?;
    link.flush()?;
    Ok(moved)
}
