//! The calls that wait at a site, and whose turn it is.
//!
//! Every client has its turn, and within a client every function, until it has spent as much as the others: fuel of the
//! code itself, and what its accesses to regions cost. So neither a client with many calls or many functions nor a
//! function that takes long keeps others from being served.

mod config;
mod forward;
mod host;
mod moving;
mod run;
mod session;
mod site;
mod waiting;

pub use config::ExecutorConfig;
pub use moving::Recalled;
pub use session::{Binding, CallWindow, WINDOW};
pub use site::{AccessProgress, Answered, SiteHost, SiteOperation, Ticket};

use std::sync::{Arc, Mutex};
use std::time::Duration;

use outboard_wire::calling::{Call, CallFailure, Continue, Forwarded, TrapReason};
use outboard_wire::{Time, mutant};

use crate::site::turns::Turns;
use host::Overlap;
use run::{Run, Runs};
use session::{Bound, Session};
use waiting::WaitingCall;

/// A client of an executor. The number of one that has left is given to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ExecutorClient(pub(crate) u32);

impl ExecutorClient {
    /// Its number, less than the number of clients that were ever there at the same time.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// What became of a call that was handed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Submitted {
    /// It waits for its turn.
    Taken,
    /// The client has too many under way: hand it in again later.
    Full,
    /// It will not run.
    Failed(CallFailure),
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExecutionOutcome<'a> {
    /// Whose.
    pub client: ExecutorClient,
    /// Its number.
    pub call: u64,
    /// What the function returned and replied, or why there is nothing.
    pub result: Result<(u64, &'a [u8]), NoReply<'a>>,
}

/// Why a site has no reply to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoReply<'a> {
    /// It has failed.
    Failed(CallFailure),
    /// It goes on at another memory server.
    Forwarded(Forwarded<'a>),
}

impl From<CallFailure> for NoReply<'_> {
    fn from(failure: CallFailure) -> Self {
        Self::Failed(failure)
    }
}

/// Holds calls and runs them by turns, on regions that are known as `R`. For one thread; what several share is the table
/// of functions and the windows.
pub struct Executor<R> {
    config: ExecutorConfig,
    sessions: Vec<Option<Session<R>>>,
    turns: Turns<ExecutorClient>,
    runs: Runs<R>,
}

/// How many runs wait at once for bytes that come nearer: about as many lines as a processor waits for at once.
const NEAR_MAX: usize = 8;

impl<R> Executor<R> {
    /// An executor without clients.
    pub fn new(config: ExecutorConfig) -> Self {
        let turns = Turns::new(config.quantum.into());
        Self { config, sessions: Vec::new(), turns, runs: Runs::new(config) }
    }

    /// What it gives to each.
    pub fn config(&self) -> &ExecutorConfig {
        &self.config
    }

    /// A client has come that calls; `window` is what is known of its earlier calls, by whichever links.
    pub fn open(&mut self, window: Arc<Mutex<CallWindow>>) -> ExecutorClient {
        let free = self.sessions.iter().position(Option::is_none).unwrap_or(self.sessions.len());
        if free == self.sessions.len() {
            self.sessions.push(None);
        }
        self.sessions[free] = Some(Session::new(window, self.config.quantum));
        ExecutorClient(free as u32)
    }

    /// A client has gone. Its calls that wait will not run; those that are suspended end when they are resumed.
    pub fn close(&mut self, client: ExecutorClient) {
        if self.sessions.get_mut(client.0 as usize).and_then(Option::take).is_some() {
            self.turns.leave(|other| *other == client);
            self.runs.orphan(client);
            self.runs.forget_bindings();
        }
    }

    /// Gives a client no more turns, or gives it some again: for who does not take the answers to its calls.
    pub fn pause(&mut self, client: ExecutorClient, is_paused: bool) {
        let session = self.sessions.get_mut(client.0 as usize).and_then(Option::as_mut);
        let Some(session) = session.filter(|session| session.is_paused != is_paused) else { return };
        session.is_paused = is_paused;
        if session.is_idle() {
            return;
        }
        if is_paused {
            session.debt = self.turns.leave(|other| *other == client);
        } else {
            self.turns.join(client, session.debt);
        }
    }

    /// From now on, `handle` of this client means this. Calls that wait for what it meant before are returned: they will
    /// not run.
    pub fn bind(&mut self, client: ExecutorClient, handle: u32, binding: Binding<R>) -> Vec<u64> {
        let Some(session) = self.sessions.get_mut(client.0 as usize).and_then(Option::as_mut) else {
            return Vec::new();
        };
        let dropped = session.bind(handle, Bound::new(binding));
        self.runs.forget_bindings();
        // A paused queue has no turn to leave, and keeps its debt.
        if session.is_idle() && !dropped.is_empty() && !session.is_paused {
            session.debt = self.turns.leave(|other| *other == client);
        }
        dropped
    }

    /// Hands a call in. `arguments` fills a buffer with `length` bytes.
    #[inline]
    pub fn submit(
        &mut self,
        now: Time,
        client: ExecutorClient,
        call: &Call,
        arguments: (usize, impl FnOnce(&mut [u8])),
    ) -> Submitted {
        self.take(now, client, (call, u64::MAX), arguments)
    }

    /// Hands a call in that has begun at another memory server, where it has spent some of its fuel.
    pub fn submit_rest(
        &mut self,
        now: Time,
        client: ExecutorClient,
        rest: &Continue,
        arguments: &[u8],
    ) -> Submitted {
        let fill = |buffer: &mut [u8]| buffer.copy_from_slice(arguments);
        self.take(now, client, (&rest.call, rest.fuel), (arguments.len(), fill))
    }

    #[inline]
    fn take(
        &mut self,
        now: Time,
        client: ExecutorClient,
        (call, fuel): (&Call, u64),
        (length, arguments): (usize, impl FnOnce(&mut [u8])),
    ) -> Submitted {
        let config = self.config;
        let Some(session) = self.sessions.get_mut(client.0 as usize).and_then(Option::as_mut) else {
            return Submitted::Failed(CallFailure::NoFunction);
        };
        if session.calls >= config.calls_per_client || session.bytes >= config.bytes_per_client {
            return Submitted::Full;
        }
        let Some(bound) = session.bound(call.handle) else {
            return Submitted::Failed(CallFailure::NoFunction);
        };
        if bound.waiting() >= config.calls_per_function {
            return Submitted::Full;
        }
        if length > config.arguments_max {
            return Submitted::Failed(CallFailure::ArgumentsTooLong { max: config.arguments_max as u32 });
        }
        if !session.may_begin(call.call, bound) {
            return Submitted::Failed(CallFailure::Repeated);
        }
        let until = until(now, call.patience_us);
        let waiting = WaitingCall { call: call.call, until, fuel, run: None };
        if session.push(call.handle, waiting, (length, arguments)) && !session.is_paused {
            self.turns.join(client, session.debt);
        }
        Submitted::Taken
    }

    /// How many calls wait or are suspended.
    pub fn calls(&self) -> usize {
        self.sessions.iter().flatten().map(|session| session.calls).sum()
    }

    /// Whether a call waits for its turn, or for being resumed.
    pub fn is_idle(&self) -> bool {
        self.turns.is_empty() && !self.runs.has_answered()
    }

    /// Runs calls by turns until about so much fuel was spent. Returns how much it was.
    pub fn run<S: SiteHost<Region = R>>(
        &mut self,
        now: Time,
        site: &mut S,
        fuel: u64,
        mut tell: impl FnMut(ExecutionOutcome<'_>),
    ) -> u64 {
        // Calls that wait for their first turn have half of it, whatever those cost that go on.
        let resumed = self.go_on(site, fuel / 2, &mut tell);
        let mut spent = resumed.min(fuel / 2);
        let beyond = resumed - spent;
        let mut others = Others::Unseen;
        loop {
            let may_start = spent < fuel && self.runs.near.len() < NEAR_MAX;
            let started = if may_start { self.start_next(now, site, &mut others, &mut tell) } else { None };
            match started.or_else(|| self.go_on_near(site, &mut tell)) {
                Some(cost) => spent += cost,
                None => return spent + beyond,
            }
        }
    }

    /// Starts the call whose turn it is, if any waits. Returns what it has cost so far.
    fn start_next<S: SiteHost<Region = R>>(
        &mut self,
        now: Time,
        site: &mut S,
        others: &mut Others,
        tell: &mut impl FnMut(ExecutionOutcome<'_>),
    ) -> Option<u64> {
        loop {
            let client = self.next_client(others)?;
            let Some(session) = self.sessions.get_mut(client.0 as usize).and_then(Option::as_mut) else {
                self.turns.leave(|other| *other == client);
                continue;
            };
            let Some((handle, number)) = session.next() else {
                session.debt = self.turns.leave(|other| *other == client);
                continue;
            };
            session.approach_upcoming();
            let WaitingCall { call, until, .. } = session.waiting.get(number).call;
            let cost = if until.is_some_and(|until| until < now && !mutant("calling.expired-runs")) {
                session.calls -= 1;
                tell(ExecutionOutcome { client, call, result: Err(CallFailure::Expired.into()) });
                EXPIRED_COST
            } else {
                Self::start(&mut self.runs, session, (client, handle, number), site, tell)
            };
            session.waiting.give_back(number);
            session.spend(cost);
            self.turns.spend(cost.saturating_add(std::mem::take(&mut session.owed)));
            if session.is_idle() {
                session.debt = self.turns.leave(|other| *other == client);
            }
            return Some(cost);
        }
    }

    /// Whose turn it is. Clients that have spent more than their share do not have it as soon as no other client's calls are
    /// here: more of them may wait in their links, behind as many as are taken at once.
    #[inline]
    fn next_client(&mut self, others: &mut Others) -> Option<ExecutorClient> {
        match (self.turns.next_soon(), *others) {
            (Some(client), _) => {
                *others = Others::Seen;
                Some(client)
            }
            (None, Others::Seen) => None,
            (None, Others::Unseen) => self.turns.next(),
        }
    }

    /// Starts a call. Returns what it has cost so far.
    #[inline(always)]
    fn start<S: SiteHost<Region = R>>(
        runs: &mut Runs<R>,
        session: &mut Session<R>,
        (client, handle, number): (ExecutorClient, u32, u32),
        site: &mut S,
        tell: &mut impl FnMut(ExecutionOutcome<'_>),
    ) -> u64 {
        let moved = session.waiting.take_run(number);
        let waiting = session.waiting.get(number);
        let WaitingCall { call, fuel, .. } = waiting.call;
        let Some(bound) = session.bound(handle) else {
            session.calls -= 1;
            tell(ExecutionOutcome { client, call, result: Err(CallFailure::NoFunction.into()) });
            return EXPIRED_COST;
        };
        let is_alone = session.calls <= 1 && runs.near.is_empty();
        let overlap = if is_alone { Overlap::Never } else { Overlap::Allowed };
        let (mut run, cost) = match moved {
            Some(mut run) => {
                let cost = run.read_again(site, overlap);
                (run, cost)
            }
            None => {
                let mut run = runs.take(client, call, handle);
                let cost = run.start((waiting.arguments(), fuel), bound, site, overlap);
                (run, cost)
            }
        };
        let cost = cost.saturating_add(Self::follow(session, &mut run, site, overlap));
        if Self::settle(runs, run, site, tell) {
            session.calls -= 1;
        }
        cost
    }

    /// Tells how a run has ended, or keeps it if it has not.
    #[inline(always)]
    fn settle<S: SiteHost<Region = R>>(
        runs: &mut Runs<R>,
        run: Box<Run<R>>,
        site: &mut S,
        tell: &mut impl FnMut(ExecutionOutcome<'_>),
    ) -> bool {
        let Some(ended) = &run.ended else {
            if run.is_near {
                runs.near.push_back(run);
            } else {
                Self::suspend(runs, run, site);
            }
            return false;
        };
        if let Some(client) = run.client {
            let result = match ended {
                Ok(value) if !run.is_forwarded() => Ok((*value, run.reply())),
                Ok(_) => Err(NoReply::Forwarded(run.leaving())),
                Err(failure) => Err(NoReply::Failed(*failure)),
            };
            tell(ExecutionOutcome { client, call: run.call, result });
        }
        runs.give_back(run);
        true
    }

    /// The regions cannot be reached any more: all calls end. Those that have not begun did not run.
    pub fn abandon(&mut self, mut tell: impl FnMut(ExecutionOutcome<'_>)) {
        for (number, session) in self.sessions.iter_mut().enumerate() {
            let Some(session) = session else { continue };
            let client = ExecutorClient(number as u32);
            self.turns.leave(|other| *other == client);
            while let Some((_, place)) = session.next() {
                let WaitingCall { call, run, .. } = &session.waiting.get(place).call;
                let failure = if run.is_some() { CallFailure::NotResumed } else { CallFailure::NoFunction };
                tell(ExecutionOutcome { client, call: *call, result: Err(failure.into()) });
                session.waiting.give_back(place);
                session.spend(0);
            }
            session.calls = 0;
        }
        for run in self.runs.take_all() {
            if let Some(client) = run.client {
                let failure = if mutant("calling.abandoned-denies-running") {
                    CallFailure::NoFunction
                } else {
                    run.trapped(TrapReason::NotReached)
                };
                let result = Err(failure.into());
                tell(ExecutionOutcome { client, call: run.call, result });
            }
            self.runs.give_back(run);
        }
    }

    /// Keeps a run until the site has done what it waits for.
    fn suspend<S: SiteHost<Region = R>>(runs: &mut Runs<R>, run: Box<Run<R>>, site: &mut S) {
        let ticket = runs.suspend(run);
        if let Some((region, operation)) = runs.operation(ticket) {
            site.begin(ticket, region, operation);
        }
    }

    /// An access of a suspended call has ended; it goes on in the next [`run`](Self::run). A ticket is good once.
    pub fn complete(&mut self, ticket: Ticket, answered: Answered<'_>) {
        self.runs.answer(ticket, answered);
    }

    /// Goes on with calls whose accesses have ended, until about so much fuel was spent. After one that took long it is
    /// another client's turn. Returns how much it was.
    fn go_on<S: SiteHost<Region = R>>(
        &mut self,
        site: &mut S,
        fuel: u64,
        tell: &mut impl FnMut(ExecutionOutcome<'_>),
    ) -> u64 {
        let mut spent = 0;
        for _ in 0..self.runs.answered() {
            if spent >= fuel {
                break;
            }
            let Some((run, answer)) = self.runs.next_answered() else { break };
            let client = run.client;
            let cost = self.resume(run, answer, site, tell);
            if cost > u64::from(self.config.quantum) {
                self.runs.let_another_go_on(client);
            }
            spent += cost;
        }
        spent
    }

    /// Goes on with the call that has waited longest for what comes nearer. Returns what that has cost.
    fn go_on_near<S: SiteHost<Region = R>>(
        &mut self,
        site: &mut S,
        tell: &mut impl FnMut(ExecutionOutcome<'_>),
    ) -> Option<u64> {
        let mut run = self.runs.near.pop_front()?;
        Some(match run.read_near(site) {
            Some(answer) => self.resume(run, answer, site, tell),
            None => {
                Self::suspend(&mut self.runs, run, site);
                0
            }
        })
    }

    /// Goes on with a run, unless its client has gone. Returns what that has cost.
    #[inline(always)]
    fn resume<S: SiteHost<Region = R>>(
        &mut self,
        mut run: Box<Run<R>>,
        answer: Result<u64, TrapReason>,
        site: &mut S,
        tell: &mut impl FnMut(ExecutionOutcome<'_>),
    ) -> u64 {
        let session = run.client.and_then(|client| self.sessions.get_mut(client.0 as usize)?.as_mut());
        let Some(session) = session else {
            run.forget_binding();
            self.runs.give_back(run);
            return 0;
        };
        let is_alone = self.turns.is_empty() && self.runs.near.is_empty();
        let overlap = if is_alone { Overlap::Never } else { Overlap::Allowed };
        let cost = run.resume(answer, site, overlap);
        let cost = cost.saturating_add(Self::follow(session, &mut run, site, overlap));
        session.owe(run.handle, cost);
        if Self::settle(&mut self.runs, run, site, tell) {
            session.calls -= 1;
        }
        cost
    }
}

/// Whether a client had a turn that has not spent more than its share.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Others {
    Seen,
    Unseen,
}

/// When a call that comes now with so much patience does not run any more; zero is for ever.
#[inline]
fn until(now: Time, patience_us: u32) -> Option<Time> {
    (patience_us > 0).then(|| now + Duration::from_micros(patience_us.into()))
}

/// What it costs to find out that a call cannot run.
const EXPIRED_COST: u64 = 16;

#[cfg(test)]
mod tests;
