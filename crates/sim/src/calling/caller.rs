//! A caller: the dispatchers of the product, one for each memory server, and an application that calls functions there.

use std::collections::BTreeMap;
use std::time::Duration;

use fastrand::Rng;
use outboard_calling::{
    Begin, CallFault, CallOutcome, CallPlacement, Crossing, Dispatcher, DispatcherConfig, PreparedFunction,
    SiteLink,
};
use outboard_driver::{LinkId, LinkOrigin, Service};
use outboard_link::{Completion, Disposition, Frame, Link, LinkError, Loss, Peer, RemoteMemory};
use outboard_steering::Site;
use outboard_wire::{Role, Time};

use super::agent::{ambient, draw_caller};
use super::books::{Books, Deed};
use super::functions::{Name, table_call};
use super::history::Op;
use super::port::Port;
use super::post::{Post, Session};
use crate::{Boot, Recorder};

/// Names of calls begin with the number of the server where they began, as in the library.
const NUMBER_SHIFT: u32 = 56;
/// How many operations on tables there are in one life of a caller.
const TABLE_CALLS_MAX: u32 = 25;
/// How much later than its time a call may be told to be late where all run as soon as possible: some turns.
const LATENESS_MAX: Duration = Duration::from_micros(50);

/// The doings of an application.
#[derive(Clone, Copy, Debug)]
pub(super) struct Habits {
    pub(super) keys: u8,
    /// The mean time between two bursts of calls, and how many calls there are in one at most.
    pub(super) pause: Duration,
    pub(super) burst: usize,
    pub(super) under_way_max: usize,
    pub(super) placement: CallPlacement,
    pub(super) is_open_here: bool,
    pub(super) silence_max: Duration,
    /// How many frames have room on the way to a link.
    pub(super) room: usize,
    /// Frames come twice now and then.
    pub(super) repeats: bool,
    /// Until when it calls.
    pub(super) until: Time,
}

impl Habits {
    pub(super) fn draw(random: &mut Rng, until: Time, repeats: bool) -> Self {
        let placement = match random.u8(..8) {
            0 => CallPlacement::Hinted(Site::ALL[random.usize(..3)]),
            1 => CallPlacement::Fixed(Site::Server),
            _ => CallPlacement::Steered,
        };
        Self {
            keys: random.u8(2..6),
            pause: Duration::from_micros(random.u64(50..3000)),
            burst: random.usize(1..4),
            under_way_max: 1 << random.u32(1..6),
            placement,
            is_open_here: random.bool(),
            silence_max: Duration::from_millis(random.u64(15..150)),
            room: random.usize(4..64),
            repeats,
            until,
        }
    }
}

/// A call that has begun.
struct Begun {
    deed: Deed,
    until: Option<Time>,
}

/// How a call ended, until the books know.
type Ended = (u64, Result<(u64, Vec<u8>), CallFault>);

/// A call that the application wants to make.
struct Wish {
    /// At which server.
    at: usize,
    name: Name,
    arguments: Vec<u8>,
    key: Vec<u8>,
    deed: Deed,
}

/// One process.
pub(super) struct Caller {
    recorder: Recorder,
    books: Books,
    habits: Habits,
    random: Rng,
    posts: Vec<Post>,
    crossing: Crossing,
    begun: BTreeMap<u64, Begun>,
    table_calls_left: u32,
    next_at: Time,
    looked_at: Time,
    /// Takes puts for done whose answers did not come. It must not.
    #[cfg(test)]
    pub(super) is_rash: bool,
}

impl Caller {
    pub(super) fn new(
        boot: Boot,
        servers: usize,
        (recorder, books): (Recorder, Books),
        habits: Habits,
    ) -> Self {
        let mut crossing = Crossing::default();
        (0..servers).for_each(|_| crossing.add_server(habits.silence_max));
        Self {
            recorder,
            books,
            habits,
            random: boot.random,
            posts: (0..servers).map(|_| Post::default()).collect(),
            crossing,
            begun: BTreeMap::new(),
            table_calls_left: TABLE_CALLS_MAX,
            next_at: boot.now,
            looked_at: boot.now,
            #[cfg(test)]
            is_rash: false,
        }
    }

    /// Whether it has called what it wanted, and all of that has ended.
    pub(super) fn is_done(&self, now: Time) -> bool {
        now >= self.habits.until && self.begun.is_empty()
    }

    fn port<L: Link>(&mut self, link: &L) -> Port {
        let repeats = self.habits.repeats.then(|| self.random.fork());
        Port::new(link, self.habits.room, repeats)
    }

    /// Begins to call at a server that is there.
    fn meet<L: Link>(&mut self, at: usize, link: &L, now: Time) {
        let server = self.port(link);
        let incarnation = link.peer().incarnation();
        let (caller, habits) = (draw_caller(&mut self.random), self.habits);
        let config = DispatcherConfig {
            under_way_max: habits.under_way_max,
            placement: habits.placement,
            silence_max: habits.silence_max,
            ambient: ambient(&mut self.random),
        };
        let post = &mut self.posts[at];
        let agent = post.unused_agent.take();
        let end = agent.clone().map(|port| SiteLink::new(port, caller, incarnation));
        let mut dispatcher = Dispatcher::new(server.clone(), end, caller, config)
            .with_first_id((at as u64) << NUMBER_SHIFT | (now.as_nanos() / 1000) << 16);
        if habits.is_open_here {
            dispatcher.open_here();
        }
        let (handles, is_registering) = (Vec::new(), false);
        post.session = Some(Session {
            dispatcher,
            caller,
            server,
            incarnation,
            agent,
            handles,
            is_registering,
            epoch: 0,
        });
    }

    /// Lets every dispatcher do what there is to do. Returns whether anything moved.
    fn work(&mut self, now: Time) -> bool {
        let (mut moved, mut ended): (bool, Vec<Ended>) = (false, Vec::new());
        let tell = |ended: &mut Vec<Ended>, id, outcome: CallOutcome<'_>| {
            ended.push((id, outcome.map(|(value, reply)| (value, reply.to_vec()))));
        };
        for post in &mut self.posts {
            post.now = now;
            let Some(session) = &mut post.session else { continue };
            moved |= session.register(now);
            moved |= session.dispatcher.turn(&|| now, &mut |id, outcome| tell(&mut ended, id, outcome));
            let epoch = session.dispatcher.table().epoch();
            self.recorder.expect(epoch >= session.epoch, || {
                format!("a newer table replaces an older one, but {epoch} came after {}", session.epoch)
            });
            session.epoch = epoch;
            if let Some(image) = session.dispatcher.unprepared() {
                let (name, prepared) = (image.name(), PreparedFunction::prepare(image));
                session.dispatcher.prepared(name, prepared);
            }
            if session.dispatcher.wants_agent() {
                let agent = post.unused_agent.take();
                let whose = (session.caller, session.incarnation);
                let found = agent.clone().map(|port| SiteLink::new(port, whose.0, whose.1));
                session.agent = agent.or(session.agent.take());
                session.dispatcher.dialled(found);
            }
        }
        let crossed = &mut ended;
        moved |= self.crossing.cross(&mut self.posts, |ashore| {
            crossed.push((ashore.id, Err(CallFault::Lost { may_have_run: true })));
        });
        for (id, result) in ended {
            self.settle(id, result, now);
        }
        self.close_lost_sessions();
        moved
    }

    /// A server that is gone comes back as another, when its last call was told.
    fn close_lost_sessions(&mut self) {
        for post in &mut self.posts {
            let is_over = post.server.is_none()
                && post.session.as_ref().is_some_and(|session| session.dispatcher.under_way() == 0);
            if is_over {
                post.session = None;
                // A late frame of the agent must not be taken for an answer to another dispatcher.
                post.leaves_agent = post.agent.is_some() && post.unused_agent.is_none();
            }
        }
    }

    fn settle(&mut self, id: u64, result: Result<(u64, Vec<u8>), CallFault>, now: Time) {
        let Some(Begun { deed, until }) = self.begun.remove(&id) else {
            return self.recorder.fail(format!("every call ends once, but {id:#x} did again: {result:?}"));
        };
        match result {
            Ok((value, reply)) => self.books.replied(deed, value, &reply),
            Err(fault) => {
                let is_late = until.is_some_and(|until| until <= now);
                let late = until.map_or(Duration::ZERO, |until| now.since(until));
                self.recorder.expect(!self.books.is_fair || late <= LATENESS_MAX, || {
                    format!("no caller waits for long after a call's time is over, but {late:?}")
                });
                self.books.failed(deed, fault, is_late);
                #[cfg(test)]
                if self.is_rash {
                    self.books.pretend_done(deed);
                }
            }
        }
    }

    /// No call is awaited whose time is over.
    fn look_for_forgotten(&self, now: Time) {
        let forgotten = self.begun.values().filter(|begun| begun.until.is_some_and(|until| until <= now));
        let count = forgotten.count();
        self.recorder.expect(count == 0, || format!("no caller waits for ever, but {count} calls are late"));
    }

    /// The next wish of the application.
    fn draw_call(&mut self) -> Option<Wish> {
        let at = self.random.usize(..self.posts.len());
        let session = self.posts[at].session.as_ref().filter(|session| session.is_ready())?;
        let incarnation = session.incarnation;
        let kind = self.random.u8(..10);
        // One after the other, and not too many: to judge a history takes long.
        let is_at_table = self.begun.values().any(|begun| matches!(begun.deed, Deed::Table(_)));
        if kind < 5 && !is_at_table && self.table_calls_left > 0 {
            self.table_calls_left -= 1;
            let key = self.random.u8(1..=self.habits.keys);
            let op = [Op::Get(None), Op::Put(0), Op::Delete(false)][self.random.usize(..3)];
            let (deed, op) = self.books.begin_table(incarnation, key, op);
            let (name, arguments) = table_call(key, op);
            return Some(Wish { at, name, arguments, key: vec![key, self.random.u8(..8)], deed });
        }
        let (here, reads) = (self.books.next_cell()?, self.random.u64(..4));
        let key = vec![self.random.u8(..)];
        let to = self.random.usize(..self.posts.len());
        let there = self.posts[to].session.as_ref().filter(|session| session.is_ready());
        let words = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect();
        match there {
            Some(there) if kind > 7 && to != at => {
                let (mark, cell) = (there.handles[Name::Mark as usize], self.books.next_cell()?);
                let arguments = words(&[here, to as u64, mark.into(), cell, reads]);
                let deed = Deed::Marks { here, there: Some(cell) };
                Some(Wish { at, name: Name::Hop, arguments, key, deed })
            }
            _ => {
                let deed = Deed::Marks { here, there: None };
                Some(Wish { at, name: Name::Mark, arguments: words(&[here, reads]), key, deed })
            }
        }
    }

    /// Begins some calls.
    fn call(&mut self, now: Time) {
        for _ in 0..self.random.usize(1..=self.habits.burst) {
            let Some(Wish { at, name, arguments, key, deed }) = self.draw_call() else { continue };
            let patience = match self.random.u8(..4) {
                0 => Some(Duration::from_micros(self.random.u64(1..40))),
                1 => Some(Duration::from_micros(self.random.u64(1000..60_000))),
                _ => None,
            };
            let Some(session) = &mut self.posts[at].session else { continue };
            let handle = session.handles[name as usize];
            let begin =
                Begin { handle, slot: outboard_calling::slot_of(&key), arguments: &arguments, patience };
            match session.dispatcher.begin(&begin, || now) {
                Ok(id) => {
                    let until = patience.map(|patience| now + patience);
                    self.begun.insert(id, Begun { deed, until });
                }
                Err(_) => self.books.not_begun(deed),
            }
        }
        self.next_at = now + self.habits.pause.mul_f64(0.5 + self.random.f64());
    }

    fn post_of(&mut self, link: LinkId) -> Option<(usize, bool)> {
        let is_it = |post: &Post| post.server == Some(link) || post.agent == Some(link);
        let at = self.posts.iter().position(is_it)?;
        Some((at, self.posts[at].server == Some(link)))
    }

    /// The port that a link belongs to.
    fn port_of(&mut self, link: LinkId) -> Option<&Port> {
        let (at, is_server) = self.post_of(link)?;
        let post = &self.posts[at];
        match (&post.session, is_server) {
            (Some(session), true) => Some(&session.server),
            (Some(session), false) if post.unused_agent.is_none() => session.agent.as_ref(),
            (_, false) => post.unused_agent.as_ref(),
            (None, true) => None,
        }
    }
}

impl Drop for Caller {
    /// A process dies with what it has under way.
    fn drop(&mut self) {
        self.begun.values().for_each(|begun| self.books.orphan(begun.deed));
    }
}

impl Service for Caller {
    type Note = ();

    fn on_turn(&mut self, now: Time) -> bool {
        self.looked_at = now;
        let mut moved = self.work(now);
        self.look_for_forgotten(now);
        if now >= self.next_at && now < self.habits.until {
            self.call(now);
            moved = true;
        }
        moved
    }

    fn on_open(&mut self, link: LinkId, peer: &Peer, origin: LinkOrigin, _: Time) {
        let LinkOrigin::Dialled(_) = origin else { return };
        if peer.intro().role == Role::Agent {
            if let Some(post) = self.posts.iter_mut().find(|post| post.agent.is_none()) {
                post.agent = Some(link);
            }
        } else {
            // The servers' names end with their numbers.
            let number = peer.intro().name.as_str().trim_start_matches("server ").parse().unwrap_or(0);
            self.posts[number].server = Some(link);
        }
    }

    fn on_frame(&mut self, link: LinkId, frame: Frame<'_>, _: Time) -> Disposition {
        self.port_of(link).map_or(Disposition::Taken, |port| port.arrive(frame))
    }

    fn on_completion(&mut self, link: LinkId, completion: Completion, _: Time) {
        if let Some(port) = self.port_of(link) {
            port.complete(completion);
        }
    }

    fn send<L: Link + RemoteMemory>(
        &mut self,
        id: LinkId,
        link: &mut L,
        now: Time,
    ) -> Result<bool, LinkError> {
        let Some((at, is_server)) = self.post_of(id) else { return Ok(false) };
        let post = &mut self.posts[at];
        if is_server && post.session.is_none() {
            self.meet(at, link, now);
            return Ok(true);
        }
        if !is_server && std::mem::take(&mut post.leaves_agent) {
            return Err(LinkError { peer: link.peer().clone(), loss: Loss::ClosedHere });
        }
        let has_agent = post.unused_agent.is_some()
            || post.session.as_ref().and_then(|session| session.agent.as_ref()).is_some_and(Port::is_open);
        if !is_server && !has_agent {
            let port = self.port(link);
            self.posts[at].unused_agent = Some(port);
        }
        self.port_of(id).map_or(Ok(false), |port| port.pump(link))
    }

    fn on_lost(&mut self, link: LinkId, error: &LinkError, _: Time) {
        let Some((at, is_server)) = self.post_of(link) else { return };
        if let Some(port) = self.port_of(link) {
            port.lose(error);
        }
        let post = &mut self.posts[at];
        if is_server {
            post.server = None;
        } else {
            (post.agent, post.unused_agent, post.leaves_agent) = (None, None, false);
        }
    }

    fn next_deadline(&self) -> Option<Time> {
        let ports = self.posts.iter().filter_map(|post| post.session.as_ref());
        let has_news = ports
            .clone()
            .any(|session| session.server.has_news() || session.agent.as_ref().is_some_and(Port::has_news));
        let due = ports.filter_map(|session| session.dispatcher.next_deadline());
        let calls = (self.next_at < self.habits.until).then_some(self.next_at);
        let soon = self.looked_at + Duration::from_micros(5);
        let news = has_news.then_some(soon);
        due.chain(calls).chain(news).chain(self.crossing.next_deadline()).min().map(|due| due.max(soon))
    }

    fn on_time(&mut self, _: Time) {}
}
