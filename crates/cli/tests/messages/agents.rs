//! Agents as processes of their own.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

use outboard::Address;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

/// Agents that know each other, each a process.
pub(crate) struct Agents {
    /// For every agent: the socket of its ranks and, once it has one, its port for other agents.
    doors: Vec<(String, String)>,
    workers: usize,
    relays: bool,
    more: Vec<String>,
    children: Mutex<Vec<Option<Child>>>,
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
        let unique = fastrand::u64(..);
        let mut agents = Self { doors: Vec::new(), workers, relays, more, children: Mutex::default() };
        for number in 0..count {
            agents
                .doors
                .push((format!("unix:@outboard-test-{unique:016x}-{number}"), "tcp:127.0.0.1:0".to_owned()));
            let peers: Vec<usize> = (0..number).filter(|other| is_linked(number, *other)).collect();
            let (child, port) = agents.run(number, &peers);
            agents.doors[number].1 = port;
            agents.children.lock().unwrap().push(Some(child));
        }
        agents
    }

    fn run(&self, number: usize, peers: &[usize]) -> (Child, String) {
        let (socket, port) = &self.doors[number];
        let mut command = Command::new(env!("CARGO_BIN_EXE_outboard"));
        command.args(["agent", "--listen", &format!("{socket},{port}"), "--memory-servers", ""]);
        command.args(["--workers", &self.workers.to_string(), "--name", &format!("agent-{number}")]);
        command.args(&self.more);
        if self.relays {
            command.arg("--relay");
        }
        if !peers.is_empty() {
            let peers: Vec<&str> = peers.iter().map(|peer| self.doors[*peer].1.as_str()).collect();
            command.args(["--peers", &peers.join(",")]);
        }
        let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let line = lines.find(|line| line.contains("listens at")).unwrap();
        // The rest is read so that it never has to wait.
        std::thread::spawn(move || lines.for_each(drop));
        let port = line.split([' ', ',']).find(|word| word.starts_with("tcp:")).unwrap().to_owned();
        (child, port)
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
        let children = self.children.lock().unwrap();
        let pid = Pid::from_child(children[number].as_ref().unwrap());
        kill_process(pid, Signal::STOP).unwrap();
        waitpid(Some(pid), WaitOptions::UNTRACED).unwrap();
    }

    /// Kills an agent at once; if it was dead already, it is started again and dials all others.
    pub(crate) fn kill_or_revive(&self, number: usize) {
        let mut children = self.children.lock().unwrap();
        match children[number].take() {
            Some(mut child) => {
                child.kill().unwrap();
                child.wait().unwrap();
            }
            None => {
                let others: Vec<usize> = (0..self.count()).filter(|other| *other != number).collect();
                children[number] = Some(self.run(number, &others).0);
            }
        }
    }
}

impl Drop for Agents {
    fn drop(&mut self) {
        for mut child in self.children.lock().unwrap().drain(..).flatten() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
