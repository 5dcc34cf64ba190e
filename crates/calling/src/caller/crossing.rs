//! Calls that have left one memory server and are not at the next.

use std::collections::VecDeque;
use std::time::Duration;

use outboard_contract::LinkError;
use outboard_wire::Time;

use super::{CallBeginError, CallFault, Leaving, NoRoom};

/// How many calls may wait to go on at one server before no more begin that may go on elsewhere.
const WAITING_MAX: usize = 4096;

/// A memory server of a caller, as calls see it that leave it or go on there: a [`Dispatcher`](super::Dispatcher) with its
/// clock.
pub trait CrossingServer {
    /// The time by the clock of this server.
    fn now(&self) -> Time;

    /// As [`Dispatcher::next_leaving`](super::Dispatcher::next_leaving).
    fn next_leaving(&mut self) -> Option<Leaving>;

    /// As [`Dispatcher::take_over`](super::Dispatcher::take_over), now.
    // A caller that cannot begin it gets it back, and it is large only then.
    #[allow(clippy::result_large_err)]
    fn take_over(&mut self, leaving: Leaving, until: Option<Time>) -> Result<(), (Leaving, CallBeginError)>;

    /// As [`Dispatcher::server_given_up`](super::Dispatcher::server_given_up).
    fn server_given_up(&self) -> u64;
}

/// Why a call cannot go on. It may have run.
#[derive(Clone, Debug)]
pub enum CrossingError {
    /// It goes wrong as if at one of the sites of the server.
    Fault(CallFault),
    /// Its time is over.
    Late,
    /// The server is gone.
    Lost(LinkError),
    /// The server has taken no call for so long.
    Stuck(Duration),
}

/// A call that has ended between two servers.
#[derive(Clone, Debug)]
pub struct NotCrossed {
    /// Its name.
    pub id: u64,
    /// The server where it was to go on; the first, if the caller has no such server.
    pub server: usize,
    /// Why it cannot.
    pub why: CrossingError,
}

/// A call between two servers.
struct Crosser {
    leaving: Leaving,
    /// Until when it is waited for, by the first server's clock.
    until: Option<Time>,
    /// Since when it waits, in time that the caller has looked.
    since: Duration,
}

/// A server, as those see it who wait to go on there.
#[derive(Default)]
struct Target {
    /// How long the server may take no call before the caller gives it up.
    most: Duration,
    waiting: usize,
    /// How often it was given up because of calls that are there, and whether it was just now.
    given_up: u64,
    is_given_up: bool,
    /// Who waits for longest, and since when nothing but its own link has no room.
    oldest: Option<(u64, Duration)>,
}

/// All calls between two servers, in the order in which they go on. A server that hangs is given up because of the calls that
/// are there, and with them those who wait; but its link may be full of calls that are given up, and nothing else
/// shows that it hangs then: that is looked for here.
#[derive(Default)]
pub struct Crossing {
    calls: VecDeque<Crosser>,
    /// By the numbers of the servers.
    targets: Vec<Target>,
    /// For how long the caller has looked, and when that was last. Time in which it did not look counts little: a caller that
    /// listens may have been stopped itself.
    listened: Duration,
    looked_at: Time,
    is_full: bool,
}

impl Crossing {
    /// One more server, which may take nothing for so long.
    pub fn add_server(&mut self, most: Duration) {
        self.targets.push(Target { most, ..Target::default() });
    }

    /// Whether no call is between two servers.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// How many calls are between two servers.
    pub fn count(&self) -> usize {
        self.calls.len()
    }

    /// How many wait to go on at a server.
    pub fn waiting_for(&self, server: usize) -> usize {
        self.targets.get(server).map_or(0, |target| target.waiting)
    }

    /// Whether as many wait as may.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// The server for which that is so, and how many wait for it.
    pub fn crowded(&self) -> Option<(usize, usize)> {
        let mut counts = self.targets.iter().map(|target| target.waiting).enumerate();
        counts.find(|(_, waiting)| *waiting >= WAITING_MAX)
    }

    /// Has calls go on that have left one of `servers`, and tells of those that cannot. Returns whether any has moved.
    #[inline]
    pub fn cross<S: CrossingServer>(&mut self, servers: &mut [S], tell: impl FnMut(NotCrossed)) -> bool {
        for at in 0..servers.len() {
            while let Some(leaving) = servers[at].next_leaving() {
                let left = leaving.until.map(|until| until.since(servers[at].now()));
                let until = left.map(|left| servers[0].now() + left);
                self.calls.push_back(Crosser { leaving, until, since: self.listened });
            }
        }
        !self.calls.is_empty() && self.cross_now(servers, tell)
    }

    #[cold]
    fn cross_now<S: CrossingServer>(&mut self, servers: &mut [S], mut tell: impl FnMut(NotCrossed)) -> bool {
        let (now, mut moved) = (servers[0].now(), false);
        self.look(now, servers);
        for _ in 0..self.calls.len() {
            let Some(call) = self.calls.pop_front() else { break };
            let (id, server) = (call.leaving.id, call.leaving.server as usize);
            let (server, why) = match servers.get_mut(server) {
                None => (0, CrossingError::Fault(call.leaving.without_server())),
                Some(_) if call.until.is_some_and(|until| until <= now) => (server, CrossingError::Late),
                Some(there) => match take_over(there, call, now) {
                    Ok(()) => {
                        moved = true;
                        continue;
                    }
                    Err((call, error)) => match (call.leaving.fault(&error), error) {
                        (Some(_), CallBeginError::Lost(error)) => (server, CrossingError::Lost(error)),
                        (Some(fault), _) => (server, CrossingError::Fault(fault)),
                        (None, error) => {
                            let is_watched = matches!(error, CallBeginError::Full(NoRoom::UnderWay));
                            self.wait_on(call, is_watched);
                            continue;
                        }
                    },
                },
            };
            tell(NotCrossed { id, server, why });
            moved = true;
        }
        for stuck in self.give_up() {
            tell(stuck);
            moved = true;
        }
        moved
    }

    /// Begins to look at all calls once. Time in which the caller did not look counts little.
    fn look<S: CrossingServer>(&mut self, now: Time, servers: &[S]) {
        self.listened += now.since(self.looked_at).min(self.step());
        self.looked_at = now;
        for (target, server) in self.targets.iter_mut().zip(servers) {
            let given_up = server.server_given_up();
            target.is_given_up = target.waiting > 0 && target.given_up != given_up;
            (target.given_up, target.waiting) = (given_up, 0);
        }
    }

    /// There is no room for a call where it goes on. If that is because of other calls there, these are watched.
    fn wait_on(&mut self, call: Crosser, is_watched: bool) {
        if let Some(target) = self.targets.get_mut(call.leaving.server as usize) {
            target.waiting += 1;
            let (id, is_first) = (call.leaving.id, target.waiting == 1);
            if is_first && (is_watched || target.oldest.is_none_or(|(oldest, _)| oldest != id)) {
                target.oldest = Some((id, self.listened));
            }
        }
        self.calls.push_back(call);
    }

    /// Takes out calls that are waited for no longer, when all were looked at: all of them where a server is given up, and
    /// where one of its sites takes nothing, those who have waited for so long.
    fn give_up(&mut self) -> Vec<NotCrossed> {
        let (listened, mut stuck) = (self.listened, Vec::new());
        let awaited = self.targets.iter_mut().enumerate().filter(|(_, target)| target.waiting > 0);
        for (server, target) in awaited {
            let is_stuck = target.oldest.is_some_and(|(_, since)| listened - since >= target.most);
            if !target.is_given_up && !is_stuck {
                continue;
            }
            self.calls.retain(|call| {
                let waited = listened - call.since;
                let is_there = call.leaving.server as usize == server;
                let is_over = is_there && (target.is_given_up || waited >= target.most);
                if is_over {
                    stuck.push(NotCrossed { id: call.leaving.id, server, why: CrossingError::Stuck(waited) });
                    target.waiting -= 1;
                }
                !is_over
            });
            target.oldest = None;
        }
        self.is_full = self.crowded().is_some();
        stuck
    }

    /// When to look again, if a call waits.
    pub fn next_deadline(&self) -> Option<Time> {
        let again = (!self.calls.is_empty()).then(|| self.looked_at + self.step() / 2);
        self.calls.iter().filter_map(|call| call.until).chain(again).min()
    }

    /// How much of a time without looking counts at most.
    fn step(&self) -> Duration {
        let most = self.targets.iter().map(|target| target.most).min().unwrap_or_default();
        (most / 4).max(Duration::from_millis(1))
    }
}

/// Has a call go on there, by the clock there. It is given back if it cannot.
// It is large only then.
#[allow(clippy::result_large_err)]
fn take_over<S: CrossingServer>(
    server: &mut S,
    Crosser { leaving, until, since }: Crosser,
    now: Time,
) -> Result<(), (Crosser, CallBeginError)> {
    let until_there = until.map(|until| server.now() + until.since(now));
    let taken = server.take_over(leaving, until_there);
    taken.map_err(|(leaving, error)| (Crosser { leaving, until, since }, error))
}
