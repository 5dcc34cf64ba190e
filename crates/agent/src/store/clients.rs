//! The processes that use the store, and those that may come back to it.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use outboard_link::{Address, LinkError, Loss};
use outboard_wire::{Incarnation, Time, mutant};

/// How many processes may be waited for; of more, those that were lost first are given up.
const ABSENT_MAX: usize = 1024;

/// How a link of a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parting {
    /// The process said goodbye.
    Goodbye,
    /// The process is dead.
    Death,
    /// The process may live, and come back.
    Loss,
}

impl Parting {
    /// What the end of a link says about the process at its other end.
    pub fn of(error: &LinkError) -> Self {
        match error.loss {
            Loss::Closed { .. } | Loss::ClosedHere => Self::Goodbye,
            // On this machine it is the kernel that hangs up, when a process ends.
            Loss::Gone if is_on_this_machine(error.peer.address()) => Self::Death,
            _ => Self::Loss,
        }
    }
}

pub(crate) fn is_on_this_machine(address: &str) -> bool {
    matches!(address.parse(), Ok(Address::Abstract(_) | Address::Path(_)))
}

struct Client {
    links: usize,
    pid: u32,
    /// What others are told of it.
    shown: String,
    /// One of its links ended with its death, though others are still to end.
    is_dead: bool,
    /// Until when it is waited for, once it has no links.
    awaited_until: Option<Time>,
    /// When it was started, if it is a process of this machine that may have mapped regions; else zero.
    mapped_since: u64,
}

/// What the end of a link means for its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// It has other links, or none is known.
    Remains,
    /// It may come back.
    Away,
    /// It will not come back, and is forgotten.
    Gone,
}

/// The processes that use the store.
pub(super) struct Clients {
    linger: Duration,
    by_process: HashMap<Incarnation, Client>,
    /// Those that are waited for.
    awaited: BTreeSet<(Time, Incarnation)>,
    /// Those that were waited for in vain. They have the regions that no other process has asked for since.
    overdue: BTreeSet<(Time, Incarnation)>,
}

impl Clients {
    /// No processes; those that are lost will be waited for as long as `linger`.
    pub(super) fn new(linger: Duration) -> Self {
        Self { linger, by_process: HashMap::new(), awaited: BTreeSet::new(), overdue: BTreeSet::new() }
    }

    /// A process has opened a link.
    pub(super) fn link_opened(&mut self, process: Incarnation, pid: u32, shown: &str) {
        self.expect_no_longer(process);
        let newcomer = || Client {
            links: 0,
            pid,
            shown: String::new(),
            is_dead: false,
            awaited_until: None,
            mapped_since: 0,
        };
        let client = self.by_process.entry(process).or_insert_with(newcomer);
        if client.links == 0 {
            (client.pid, client.shown) = (pid, shown.to_owned());
        }
        (client.links, client.is_dead) = (client.links + 1, false);
    }

    /// A process may map regions, and was started then.
    pub(super) fn may_map(&mut self, process: Incarnation, since: u64) {
        if let Some(client) = self.by_process.get_mut(&process) {
            client.mapped_since = since;
        }
    }

    /// A process had regions before the server was started again, and is waited for.
    pub(super) fn had_links(&mut self, now: Time, process: Incarnation, (pid, mapped_since): (u32, u64)) {
        if self.by_process.contains_key(&process) {
            return;
        }
        let shown = format!("process {pid}, which used this server before it was started again");
        let until = now + self.linger;
        let client =
            Client { links: 0, pid, shown, is_dead: false, awaited_until: Some(until), mapped_since };
        self.by_process.insert(process, client);
        self.awaited.insert((until, process));
    }

    /// By which number the kernel knows a process, and when it was started if it may have mapped regions.
    pub(super) fn seen(&self, process: Incarnation) -> (u32, u64) {
        self.by_process.get(&process).map_or((0, 0), |client| (client.pid, client.mapped_since))
    }

    /// Processes without links that may have mapped regions.
    pub(super) fn away_with_mappings(&self) -> Vec<Incarnation> {
        let away = self.awaited.iter().chain(&self.overdue).map(|(_, process)| *process);
        away.filter(|process| self.seen(*process).1 != 0).collect()
    }

    /// A link of a process is gone.
    pub(super) fn link_lost(&mut self, now: Time, process: Incarnation, parting: Parting) -> Left {
        let Some(client) = self.by_process.get_mut(&process).filter(|client| client.links > 0) else {
            return Left::Remains;
        };
        client.links -= 1;
        client.is_dead |= parting == Parting::Death && !mutant("agent.dead-one-awaited");
        if client.links > 0 {
            return Left::Remains;
        }
        if client.is_dead || parting == Parting::Goodbye {
            self.by_process.remove(&process);
            return Left::Gone;
        }
        let until = if mutant("agent.lost-one-not-awaited") { now } else { now + self.linger };
        client.awaited_until = Some(until);
        self.awaited.insert((until, process));
        Left::Away
    }

    fn expect_no_longer(&mut self, process: Incarnation) {
        let client = self.by_process.get_mut(&process);
        if let Some(until) = client.and_then(|client| client.awaited_until.take()) {
            self.awaited.remove(&(until, process));
            self.overdue.remove(&(until, process));
        }
    }

    /// Forgets a process.
    pub(super) fn forget(&mut self, process: Incarnation) {
        self.expect_no_longer(process);
        self.by_process.remove(&process);
    }

    /// A process that has been waited for long enough.
    pub(super) fn next_overdue(&mut self, now: Time) -> Option<Incarnation> {
        let first = *self.awaited.first().filter(|(until, _)| *until <= now)?;
        self.awaited.remove(&first);
        self.overdue.insert(first);
        Some(first.1)
    }

    /// One of the processes without links that are too many.
    pub(super) fn next_surplus(&self) -> Option<Incarnation> {
        let absent = self.awaited.len() + self.overdue.len();
        let first = self.overdue.first().or(self.awaited.first()).map(|(_, process)| *process);
        first.filter(|_| absent > ABSENT_MAX)
    }

    /// When the next process has been waited for long enough.
    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.awaited.first().map(|(until, _)| *until)
    }

    /// Whether it has links.
    pub(super) fn is_here(&self, process: Incarnation) -> bool {
        self.by_process.get(&process).is_some_and(|client| client.links > 0)
    }

    /// Whether it is waited for.
    pub(super) fn is_awaited(&self, process: Incarnation) -> bool {
        self.awaited_until(process).is_some_and(|until| self.awaited.contains(&(until, process)))
    }

    /// Whether it was waited for in vain.
    pub(super) fn is_overdue(&self, process: Incarnation) -> bool {
        self.awaited_until(process).is_some_and(|until| self.overdue.contains(&(until, process)))
    }

    /// Until when it is or was waited for; none if it has links.
    pub(super) fn awaited_until(&self, process: Incarnation) -> Option<Time> {
        self.by_process.get(&process).and_then(|client| client.awaited_until)
    }

    /// How many are waited for.
    pub(super) fn awaited(&self) -> usize {
        self.awaited.len()
    }

    /// What others are told of it.
    pub(super) fn shown(&self, process: Incarnation) -> &str {
        self.by_process.get(&process).map_or("a process", |client| &client.shown)
    }

    /// Its number; zero if it is not known.
    pub(super) fn pid(&self, process: Incarnation) -> u32 {
        self.by_process.get(&process).map_or(0, |client| client.pid)
    }
}
