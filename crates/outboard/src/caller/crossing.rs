//! Calls that have left one memory server and are not at the next.

use std::collections::VecDeque;
use std::time::Duration;

use outboard_calling::Leaving;
use outboard_wire::Time;

/// How many calls may wait to go on at one server before no more begin that may go on elsewhere.
const WAITING_MAX: usize = 4096;

/// A call between two servers.
pub(super) struct Crosser {
    pub(super) leaving: Leaving,
    /// Until when it is waited for, by the first server's clock.
    pub(super) until: Option<Time>,
    /// Since when it waits, in time that somebody has looked.
    pub(super) since: Duration,
}

/// A server, as those see it who wait to go on there.
#[derive(Default)]
struct Target {
    /// For how long it may take nothing before nobody waits any longer.
    most: Duration,
    waiting: usize,
    /// How often it was given up because of calls that are there, and whether it was just now.
    given_up: u64,
    is_given_up: bool,
    /// Who waits for longest, and since when nothing but its own link has no room.
    oldest: Option<(u64, Duration)>,
}

/// A call that has waited for too long.
pub(super) struct Forsaken {
    pub(super) id: u64,
    pub(super) server: usize,
    pub(super) waited: Duration,
}

/// All calls between two servers, in the order in which they go on. A server that hangs is given up because of the calls that
/// are there, and with them those who wait; but its link may be full of what nobody waits for any more, and nothing else
/// shows that it hangs then: that is looked for here.
#[derive(Default)]
pub(super) struct Crossing {
    calls: VecDeque<Crosser>,
    /// By the numbers of the servers.
    targets: Vec<Target>,
    /// For how long somebody has looked, and when that was last. Of a time in which nobody looked little counts: whoever
    /// listens may have been stopped itself.
    listened: Duration,
    looked_at: Time,
    is_full: bool,
}

impl Crossing {
    /// One more server, which may take nothing for so long.
    pub(super) fn add_server(&mut self, most: Duration) {
        self.targets.push(Target { most, ..Target::default() });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    pub(super) fn count(&self) -> usize {
        self.calls.len()
    }

    /// How many wait to go on at a server.
    pub(super) fn waiting_for(&self, server: usize) -> usize {
        self.targets.get(server).map_or(0, |target| target.waiting)
    }

    /// Whether as many wait as may.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.is_full
    }

    /// The server for which that is so, and how many wait for it.
    pub(super) fn crowded(&self) -> Option<(usize, usize)> {
        let mut counts = self.targets.iter().map(|target| target.waiting).enumerate();
        counts.find(|(_, waiting)| *waiting >= WAITING_MAX)
    }

    /// A call has left a server.
    pub(super) fn push(&mut self, leaving: Leaving, until: Option<Time>) {
        self.calls.push_back(Crosser { leaving, until, since: self.listened });
    }

    /// Begins to look at all of them once, and says how many these are. Servers have been given up so often each.
    pub(super) fn look(&mut self, now: Time, given_up: impl Fn(usize) -> u64) -> usize {
        self.listened += now.since(self.looked_at).min(self.step());
        self.looked_at = now;
        for (number, target) in self.targets.iter_mut().enumerate() {
            let given_up = given_up(number);
            target.is_given_up = target.waiting > 0 && target.given_up != given_up;
            (target.given_up, target.waiting) = (given_up, 0);
        }
        self.calls.len()
    }

    pub(super) fn next(&mut self) -> Option<Crosser> {
        self.calls.pop_front()
    }

    /// There is no room for a call where it goes on. If that is because of other calls there, these are watched.
    pub(super) fn wait_on(&mut self, call: Crosser, is_watched: bool) {
        if let Some(target) = self.targets.get_mut(call.leaving.server as usize) {
            target.waiting += 1;
            let (id, is_first) = (call.leaving.id, target.waiting == 1);
            if is_first && (is_watched || target.oldest.is_none_or(|(oldest, _)| oldest != id)) {
                target.oldest = Some((id, self.listened));
            }
        }
        self.calls.push_back(call);
    }

    /// Takes out those for which nobody waits any longer, when all were looked at: everybody where a server is given up, and
    /// where one of its sites takes nothing, those who have waited for so long.
    pub(super) fn give_up(&mut self) -> Vec<Forsaken> {
        let (listened, mut forsaken) = (self.listened, Vec::new());
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
                    forsaken.push(Forsaken { id: call.leaving.id, server, waited });
                    target.waiting -= 1;
                }
                !is_over
            });
            target.oldest = None;
        }
        self.is_full = self.crowded().is_some();
        forsaken
    }

    /// When to look again, if somebody waits.
    pub(super) fn next_deadline(&self) -> Option<Time> {
        let again = (!self.calls.is_empty()).then(|| self.looked_at + self.step() / 2);
        self.calls.iter().filter_map(|call| call.until).chain(again).min()
    }

    /// What counts at most of a time in which nobody looked.
    fn step(&self) -> Duration {
        let most = self.targets.iter().map(|target| target.most).min().unwrap_or_default();
        (most / 4).max(Duration::from_millis(1))
    }
}
