//! The memory servers of one caller, and the calls that go on from one to another.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use outboard_calling::{Begin, CallBeginError, CallEnded, FunctionImage, NoRoom, RegisterError, Wanted};
use outboard_link::{Clock, LinkError, Loss};
use outboard_wire::Time;

use super::any::AnyDispatcher;
use super::crossing::{Crosser, Crossing, Forsaken};
use super::{CallCompletion, CallError, CallId, CallReply};

/// All servers that a caller has opened.
pub(super) struct Servers {
    /// By their numbers. There is always a first one.
    all: Vec<AnyDispatcher>,
    /// Calls that have left a server and are not at the next.
    crossing: Crossing,
    /// Functions that may go on elsewhere, by their servers and their numbers there.
    wanderers: HashSet<(u32, u32)>,
    /// Whether calls may be moved here, also from servers that are opened later.
    is_open_here: bool,
    /// Calls that have ended and were not told.
    ended: VecDeque<CallCompletion>,
}

impl Servers {
    /// The first one, with for how long it may take nothing.
    pub(super) fn new(first: AnyDispatcher, silence_max: Duration) -> Self {
        let mut servers = Self {
            all: Vec::new(),
            crossing: Crossing::default(),
            wanderers: HashSet::new(),
            is_open_here: false,
            ended: VecDeque::new(),
        };
        servers.push(first, silence_max);
        servers
    }

    /// One more.
    pub(super) fn push(&mut self, mut server: AnyDispatcher, silence_max: Duration) {
        if self.is_open_here {
            server.open_here();
        }
        self.all.push(server);
        self.crossing.add_server(silence_max);
    }

    pub(super) fn count(&self) -> usize {
        self.all.len()
    }

    pub(super) fn all(&self) -> &[AnyDispatcher] {
        &self.all
    }

    #[inline]
    pub(super) fn first(&self) -> &AnyDispatcher {
        &self.all[0]
    }

    /// The one of that number, which a function has.
    pub(super) fn at(&self, server: u8) -> &AnyDispatcher {
        self.all.get(usize::from(server)).unwrap_or(self.first())
    }

    pub(super) fn register(
        &mut self,
        server: u32,
        image: &FunctionImage,
        wanted: Wanted,
        patience: Duration,
    ) -> Result<u32, RegisterError> {
        let there = self.all.get_mut(server as usize).ok_or(RegisterError::NoServer { server })?;
        let handle = there.register(image, wanted, patience)?;
        if image.may_forward() {
            self.wanderers.insert((server, handle));
        }
        Ok(handle)
    }

    #[inline]
    pub(super) fn begin(&mut self, server: u8, begin: &Begin<'_>) -> Result<u64, CallBeginError> {
        if self.crossing.is_full() && self.wanderers.contains(&(server.into(), begin.handle)) {
            return Err(CallBeginError::Full(NoRoom::UnderWay));
        }
        self.all.get_mut(usize::from(server)).ok_or(CallBeginError::NoFunction)?.begin(begin)
    }

    /// The server for which too many wait to go on there, if that is why a function cannot be called, and how many do.
    pub(super) fn crowded(&self, server: u8, handle: u32) -> Option<(usize, usize)> {
        self.crossing.crowded().filter(|_| self.wanderers.contains(&(server.into(), handle)))
    }

    /// How many calls wait to go on at a server.
    pub(super) fn waiting_for(&self, server: usize) -> usize {
        self.crossing.waiting_for(server)
    }

    pub(super) fn flush(&mut self) {
        self.all.iter_mut().for_each(AnyDispatcher::flush);
    }

    /// Does what there is to do now, and tells which calls have ended.
    #[inline]
    pub(super) fn turn(&mut self, mut tell: impl FnMut(CallId, Result<(u64, &[u8]), CallError>)) {
        self.tell_ended(&mut tell);
        for server in &mut self.all {
            let mut failed = Vec::new();
            server.turn(|call, result| match result {
                Ok(answer) => tell(CallId(call), Ok(answer)),
                // Why is known only behind this turn.
                Err(fault) => failed.push((call, fault)),
            });
            for (call, fault) in failed {
                tell(CallId(call), Err(CallError::new(fault, server)));
            }
        }
        self.cross();
        self.tell_ended(&mut tell);
    }

    #[inline]
    fn tell_ended(&mut self, tell: &mut impl FnMut(CallId, Result<(u64, &[u8]), CallError>)) {
        for CallCompletion { id, result } in self.ended.drain(..) {
            match result {
                Ok(CallReply { value, bytes }) => tell(id, Ok((value, &bytes))),
                Err(error) => tell(id, Err(error)),
            }
        }
    }

    /// The same, where what has ended is kept. Returns whether anything moved.
    pub(super) fn turn_and_keep(&mut self) -> bool {
        let mut moved = false;
        for server in &mut self.all {
            moved |= server.turn_and_keep();
        }
        self.cross() | moved
    }

    /// Has calls go on that are between two servers. Returns whether any does.
    #[inline]
    fn cross(&mut self) -> bool {
        for at in 0..self.all.len() {
            while let Some(leaving) = self.all[at].next_leaving() {
                let left = leaving.until.map(|until| until.since(self.all[at].clock().now()));
                self.crossing.push(leaving, left.map(|left| self.clock().now() + left));
            }
        }
        if self.crossing.is_empty() { false } else { self.cross_now() }
    }

    #[cold]
    fn cross_now(&mut self) -> bool {
        let (now, mut moved) = (self.clock().now(), false);
        for _ in 0..self.crossing.look(now, |server| self.all[server].server_given_up()) {
            let Some(call) = self.crossing.next() else { break };
            let Crosser { leaving, until, .. } = &call;
            let id = leaving.id;
            let error = match self.all.get_mut(leaving.server as usize) {
                None => CallError::new(leaving.without_server(), self.first()),
                Some(server) if until.is_some_and(|until| until <= now) => {
                    CallError::Deadline { peer: server.peer(), may_have_run: true }
                }
                Some(server) => match take_over(server, call, now) {
                    Ok(()) => {
                        moved = true;
                        continue;
                    }
                    Err((call, error)) => match (call.leaving.fault(&error), error) {
                        (Some(_), CallBeginError::Lost(error)) => {
                            CallError::SiteLost { error, may_have_run: true }
                        }
                        (Some(fault), _) => CallError::new(fault, server),
                        (None, error) => {
                            let is_watched = matches!(error, CallBeginError::Full(NoRoom::UnderWay));
                            self.crossing.wait_on(call, is_watched);
                            continue;
                        }
                    },
                },
            };
            self.ended.push_back(CallCompletion { id: CallId(id), result: Err(error) });
            moved = true;
        }
        for Forsaken { id, server, waited } in self.crossing.give_up() {
            let loss = Loss::Stalled { silent: waited, awaited: "room for calls" };
            let error = LinkError { peer: self.all[server].peer(), loss };
            let result = Err(CallError::SiteLost { error, may_have_run: true });
            self.ended.push_back(CallCompletion { id: CallId(id), result });
            moved = true;
        }
        moved
    }

    /// The next call that has ended and was kept.
    pub(super) fn next_kept(&mut self) -> Option<CallCompletion> {
        if let Some(ended) = self.ended.pop_front() {
            return Some(ended);
        }
        self.all.iter_mut().find_map(|server| {
            let CallEnded { call, result } = server.next_kept()?;
            let result = result
                .map(|(value, bytes)| CallReply { value, bytes })
                .map_err(|fault| CallError::new(fault, server));
            Some(CallCompletion { id: CallId(call), result })
        })
    }

    /// Keeps calls that were taken out and are for somebody else.
    pub(super) fn put_back(&mut self, ended: Vec<CallCompletion>) {
        ended.into_iter().rev().for_each(|ended| self.ended.push_front(ended));
    }

    /// Sleeps until there may be something to do, at most until `limit`. A loss is told by the calls that it ends.
    pub(super) fn sleep(&mut self, limit: Time) {
        if !self.ended.is_empty() {
            return;
        }
        let due = self.crossing.next_deadline().map_or(limit, |due| due.min(limit));
        let span = due.since(self.clock().now());
        AnyDispatcher::sleep(&mut self.all, Vec::new(), span);
    }

    /// How many calls are under way, or have ended and were not told.
    pub(super) fn under_way(&self) -> usize {
        let at_servers: usize = self.all.iter().map(AnyDispatcher::under_way).sum();
        at_servers + self.crossing.count() + self.ended.len()
    }

    pub(super) fn clock(&self) -> Clock {
        self.first().clock()
    }

    /// How long to look for answers before sleeping: where that costs system calls at one of them, not at all.
    pub(super) fn spin(&self) -> Duration {
        self.all.iter().map(AnyDispatcher::spin).min().unwrap_or_default()
    }

    pub(super) fn open_here(&mut self) {
        self.is_open_here = true;
        self.all.iter_mut().for_each(AnyDispatcher::open_here);
    }

    pub(super) fn close(&mut self) {
        self.all.iter_mut().for_each(AnyDispatcher::close);
    }
}

/// Has a call go on there. It is given back if it cannot.
// It is large only then.
#[allow(clippy::result_large_err)]
fn take_over(
    server: &mut AnyDispatcher,
    Crosser { leaving, until, since }: Crosser,
    now: Time,
) -> Result<(), (Crosser, CallBeginError)> {
    let there = server.clock().now();
    let taken = server.take_over(leaving, until.map(|until| there + until.since(now)));
    taken.map_err(|(leaving, error)| (Crosser { leaving, until, since }, error))
}
