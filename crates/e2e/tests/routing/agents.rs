//! Agents as processes of their own.

use std::sync::Mutex;

use outboard::Address;
use outboard_e2e::{Daemon, outboard, socket};

/// Agents that know each other, each a process.
pub(crate) struct Agents {
    /// For every agent: the socket of its ranks and, once it has one, its port for other agents.
    doors: Vec<(String, String)>,
    workers: usize,
    relays: bool,
    more: Vec<String>,
    daemons: Mutex<Vec<Option<Daemon>>>,
}

impl Agents {
    /// Starts so many, each with so many threads; each is connected with those for which `is_linked` says so.
    pub(crate) fn start(
        count: usize,
        workers: usize,
        relays: bool,
        is_linked: impl Fn(usize, usize) -> bool,
    ) -> Self {
        Self::start_with(count, (workers, relays), is_linked, &[])
    }

    /// The same with more arguments for each.
    pub(crate) fn start_with(
        count: usize,
        (workers, relays): (usize, bool),
        is_linked: impl Fn(usize, usize) -> bool,
        more: &[&str],
    ) -> Self {
        let more = more.iter().map(|more| (*more).to_owned()).collect();
        let mut agents = Self { doors: Vec::new(), workers, relays, more, daemons: Mutex::default() };
        for number in 0..count {
            agents.doors.push((socket(), "tcp:127.0.0.1:0".to_owned()));
            let peers: Vec<usize> = (0..number).filter(|other| is_linked(number, *other)).collect();
            let daemon = agents.run(number, &peers);
            agents.doors[number].1 = daemon.remote().to_string();
            agents.daemons.lock().unwrap().push(Some(daemon));
        }
        agents
    }

    fn run(&self, number: usize, peers: &[usize]) -> Daemon {
        let (socket, port) = &self.doors[number];
        let mut command =
            outboard(&["agent", "--listen", &format!("{socket},{port}"), "--memory-servers", ""]);
        command.args(["--workers", &self.workers.to_string(), "--name", &format!("agent-{number}")]);
        command.args(&self.more);
        if self.relays {
            command.arg("--relay");
        }
        if !peers.is_empty() {
            let peers: Vec<&str> = peers.iter().map(|peer| self.doors[*peer].1.as_str()).collect();
            command.args(["--peers", &peers.join(",")]);
        }
        Daemon::of(command)
    }

    /// Where the ranks of an agent find it.
    pub(crate) fn address(&self, number: usize) -> Address {
        self.doors[number].0.parse().unwrap()
    }

    /// Where those of another node find it.
    pub(crate) fn port(&self, number: usize) -> Address {
        self.doors[number].1.parse().unwrap()
    }

    pub(crate) fn count(&self) -> usize {
        self.doors.len()
    }

    /// Stops an agent without ending it: it keeps its links, and none of its threads does anything.
    pub(crate) fn freeze(&self, number: usize) {
        self.daemons.lock().unwrap()[number].as_ref().unwrap().process.stop();
    }

    /// Kills an agent at once; if it was dead already, it is started again and dials all others.
    pub(crate) fn kill_or_revive(&self, number: usize) {
        let mut daemons = self.daemons.lock().unwrap();
        match daemons[number].take() {
            Some(daemon) => drop(daemon.process.kill()),
            None => {
                let others: Vec<usize> = (0..self.count()).filter(|other| *other != number).collect();
                daemons[number] = Some(self.run(number, &others));
            }
        }
    }
}
