//! The memory servers of one caller, and the calls that go on from one to another.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use outboard_calling::{
    Begin, CallBeginError, CallEnded, Crossing, CrossingError, FunctionImage, FunctionNeeds, NoRoom,
    NotCrossed, RegisterError,
};
use outboard_driver::Connection;
use outboard_link::{Clock, LinkError, Loss, sleep_on};
use outboard_wire::Time;

use super::connect::Calling;
use super::{CallCompletion, CallError, CallId, CallReply};

/// Hears of a call that has ended.
pub(super) type Tell<'a> = dyn FnMut(CallId, Result<(u64, &[u8]), CallError>) + 'a;

/// A caller of functions at one memory server.
pub(super) type Server = Connection<Calling>;

/// All servers that a caller has opened.
pub(super) struct Servers {
    /// By their numbers. There is always a first one.
    all: Vec<Server>,
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
    /// The first server, and how long it may take nothing before it is given up.
    pub(super) fn new(first: Server, silence_max: Duration) -> Self {
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
    pub(super) fn push(&mut self, mut server: Server, silence_max: Duration) {
        if self.is_open_here {
            server.client_mut().open_here();
        }
        self.all.push(server);
        self.crossing.add_server(silence_max);
    }

    pub(super) fn count(&self) -> usize {
        self.all.len()
    }

    pub(super) fn all(&self) -> &[Server] {
        &self.all
    }

    #[inline]
    pub(super) fn first(&self) -> &Server {
        &self.all[0]
    }

    /// The one of that number, which a function has.
    pub(super) fn at(&self, server: u8) -> &Server {
        self.all.get(usize::from(server)).unwrap_or(self.first())
    }

    pub(super) fn register(
        &mut self,
        server: u32,
        image: &FunctionImage,
        wanted: FunctionNeeds,
        patience: Duration,
    ) -> Result<u32, RegisterError> {
        let there = self.all.get_mut(server as usize).ok_or(RegisterError::NoServer { server })?;
        let handle = there.client_mut().register(image, wanted, patience)?;
        if image.may_forward() {
            self.wanderers.insert((server, handle));
        }
        Ok(handle)
    }

    /// Not inlined, as [`turn`](Self::turn) is not: what is compiled into an application has a copy of all that a caller does.
    #[inline(never)]
    pub(super) fn begin(&mut self, server: u8, begin: &Begin<'_>) -> Result<u64, CallBeginError> {
        if self.crossing.is_full() && self.wanderers.contains(&(server.into(), begin.handle)) {
            return Err(CallBeginError::Full(NoRoom::UnderWay));
        }
        let server = self.all.get_mut(usize::from(server)).ok_or(CallBeginError::NoFunction)?;
        server.client_mut().begin(begin)
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
        self.all.iter_mut().for_each(|server| server.client_mut().flush());
    }

    /// Does what there is to do now, and tells which calls have ended.
    #[inline(never)]
    pub(super) fn turn(&mut self, tell: &mut Tell<'_>) {
        self.tell_ended(tell);
        for server in &mut self.all {
            let mut failed = Vec::new();
            server.client_mut().turn(&mut |call, result| match result {
                Ok(answer) => tell(CallId(call), Ok(answer)),
                // Why is known only behind this turn.
                Err(fault) => failed.push((call, fault)),
            });
            for (call, fault) in failed {
                tell(CallId(call), Err(CallError::new(fault, server)));
            }
        }
        self.cross();
        self.tell_ended(tell);
    }

    fn tell_ended(&mut self, tell: &mut Tell<'_>) {
        for CallCompletion { id, result } in self.ended.drain(..) {
            match result {
                Ok(CallReply { value, bytes }) => tell(id, Ok((value, &bytes))),
                Err(error) => tell(id, Err(error)),
            }
        }
    }

    /// Does the work of a turn and keeps the calls that have ended. Returns whether anything moved.
    pub(super) fn turn_and_keep(&mut self) -> bool {
        let mut moved = false;
        for server in &mut self.all {
            moved |= server.client_mut().turn_and_keep();
        }
        self.cross() | moved
    }

    /// Has calls go on that are between two servers. Returns whether any does.
    fn cross(&mut self) -> bool {
        let mut ashore = Vec::new();
        let moved = self.crossing.cross(&mut self.all, |call| ashore.push(call));
        for NotCrossed { id, server, why } in ashore {
            let server = &self.all[server];
            let may_have_run = true;
            let error = match why {
                CrossingError::Fault(fault) => CallError::new(fault, server),
                CrossingError::Late => {
                    CallError::Deadline { peer: server.client().peer().clone(), may_have_run }
                }
                CrossingError::Lost(error) => CallError::Lost { error, may_have_run },
                CrossingError::Stuck(silent) => {
                    let loss = Loss::Stalled { silent, awaited: "room for calls" };
                    CallError::Lost {
                        error: LinkError { peer: server.client().peer().clone(), loss },
                        may_have_run,
                    }
                }
            };
            self.ended.push_back(CallCompletion { id: CallId(id), result: Err(error) });
        }
        moved
    }

    /// The next call that has ended and was kept.
    pub(super) fn next_kept(&mut self) -> Option<CallCompletion> {
        if let Some(ended) = self.ended.pop_front() {
            return Some(ended);
        }
        self.all.iter_mut().find_map(|server| {
            let CallEnded { call, result } = server.client_mut().next_kept()?;
            let result = result
                .map(|(value, bytes)| CallReply { value, bytes })
                .map_err(|fault| CallError::new(fault, server));
            Some(CallCompletion { id: CallId(call), result })
        })
    }

    /// Keeps calls that were taken out for another call to return.
    pub(super) fn put_back(&mut self, ended: Vec<CallCompletion>) {
        ended.into_iter().rev().for_each(|ended| self.ended.push_front(ended));
    }

    /// Sleeps until there may be something to do, at most until `limit`. A loss is told by the calls that it ends.
    pub(super) fn sleep(&mut self, limit: Time) {
        if !self.ended.is_empty() {
            return;
        }
        let due = self.crossing.next_deadline().map_or(limit, |due| due.min(limit));
        let mut span = due.since(self.clock().now());
        let mut servers: Vec<_> = self.all.iter_mut().map(Server::client_mut).collect();
        for server in &mut servers {
            let Some(shorter) = server.prepare_to_sleep(span) else { return };
            span = shorter;
        }
        let _ = sleep_on(servers.iter().flat_map(|server| server.wait_on()), span);
    }

    /// How many calls are under way, or have ended and were not told.
    pub(super) fn under_way(&self) -> usize {
        let at_servers: usize = self.all.iter().map(|server| server.client().under_way()).sum();
        at_servers + self.crossing.count() + self.ended.len()
    }

    pub(super) fn clock(&self) -> Clock {
        self.first().client().clock()
    }

    /// How long to look for answers before sleeping: where that costs system calls at one of them, not at all.
    pub(super) fn spin(&self) -> Duration {
        self.all.iter().map(Server::spin).min().unwrap_or_default()
    }

    pub(super) fn open_here(&mut self) {
        self.is_open_here = true;
        self.all.iter_mut().for_each(|server| server.client_mut().open_here());
    }

    pub(super) fn close(&mut self) {
        self.all.iter_mut().for_each(|server| server.client_mut().close());
    }
}
