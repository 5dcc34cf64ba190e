//! Memory servers and agents as real processes, and what they count.

use std::process::Command;
use std::time::{Duration, Instant};

use outboard::{Address, Client, Memory, Settings};
use outboard_agent::{STATUS_GRANT, StatusView};
use outboard_link::Identity;
use outboard_wire::Role;
use rustix::process::Signal;

use crate::place::Place;
use crate::process::{PATIENCE, Process};

/// A daemon that listens.
pub struct Daemon {
    /// Its process.
    pub process: Process,
    /// What it is called in messages.
    pub name: String,
    /// Where it listens.
    pub listening: Vec<Address>,
    status: Option<Client>,
}

/// How long a look that found nothing new waits before the next.
const PAUSE: Duration = Duration::from_millis(1);

impl Daemon {
    /// Runs a command that starts a daemon, and waits until it listens.
    ///
    /// # Panics
    ///
    /// If it does not.
    #[must_use]
    #[track_caller]
    pub fn of(command: Command) -> Self {
        let mut process = Process::start_told(command);
        let line = process.await_line(" listens at ");
        let (_, rest) = line.split_once(" listens at ").expect("the line was found by this");
        let words = rest.split(' ').map(|word| word.trim_end_matches(','));
        let listening = words.map_while(|word| word.parse().ok()).collect();
        Self { name: format!("process {}", process.pid()), process, listening, status: None }
    }

    /// Starts `outboard memory` or `outboard agent` and waits until it listens.
    ///
    /// # Panics
    ///
    /// If it does not.
    #[must_use]
    #[track_caller]
    pub fn start(place: &Place, command: &str, name: &str, arguments: &[&str]) -> Self {
        let command = place.outboard(&[&[command, "--name", name], arguments].concat());
        Self { name: name.to_owned(), ..Self::of(command) }
    }

    /// A memory server at this socket and a port of its own.
    ///
    /// # Panics
    ///
    /// If it does not come to listen.
    #[must_use]
    #[track_caller]
    pub fn memory(place: &Place, at: &str, more: &[&str]) -> Self {
        let arguments = [&["--listen", at, "--listen", "tcp:127.0.0.1:0", "--capacity", "256MiB"], more];
        Self::start(place, "memory", "proof-memory", &arguments.concat())
    }

    /// An agent at this socket and a port of its own.
    ///
    /// # Panics
    ///
    /// If it does not come to listen.
    #[must_use]
    #[track_caller]
    pub fn agent(place: &Place, at: &str, memory: &str, more: &[&str]) -> Self {
        let arguments = [&["--listen", at, "--listen", "tcp:127.0.0.1:0", "--memory-servers", memory], more];
        Self::start(place, "agent", "proof-agent", &arguments.concat())
    }

    /// Its Unix socket.
    ///
    /// # Panics
    ///
    /// If it has none.
    #[must_use]
    pub fn local(&self) -> &Address {
        self.listening
            .iter()
            .find(|at| matches!(at, Address::Abstract(_) | Address::Path(_)))
            .expect("it listens at a Unix socket")
    }

    /// Its TCP port.
    ///
    /// # Panics
    ///
    /// If it has none.
    #[must_use]
    pub fn remote(&self) -> &Address {
        self.listening.iter().find(|at| matches!(at, Address::Tcp(_))).expect("it listens at a port")
    }

    /// A number that it counts.
    ///
    /// # Panics
    ///
    /// If it does not count it, or does not answer.
    #[track_caller]
    pub fn number(&mut self, name: &str) -> u64 {
        self.view().get(name).unwrap_or_else(|| panic!("{} does not count {name}", self.name))
    }

    /// All numbers that it counts.
    ///
    /// # Panics
    ///
    /// If it does not answer.
    #[track_caller]
    pub fn view(&mut self) -> StatusView {
        let address = self.local().clone();
        let client = self.status.get_or_insert_with(|| connect(&address));
        let bytes = client.read_region(&STATUS_GRANT).unwrap_or_else(|error| {
            panic!("a living daemon lets us look: {error}; {} said {:?}", self.name, self.process.said())
        });
        StatusView::read(&bytes).expect("a status page")
    }

    /// Looks until a number is as wanted.
    ///
    /// # Panics
    ///
    /// If it does not come to that.
    #[track_caller]
    pub fn await_number(&mut self, name: &str, wanted: u64) {
        await_state(&format!("{} {name} = {wanted}", self.name), || {
            let seen = self.number(name);
            if seen == wanted { Ok(()) } else { Err(format!("{seen}")) }
        });
    }

    /// Asks it to end, which it must do, and returns all that it said.
    ///
    /// # Panics
    ///
    /// If it does not end, or fails.
    #[track_caller]
    pub fn end(mut self) -> Vec<String> {
        self.status = None;
        self.process.signal(Signal::TERM);
        let (status, said) = self.process.exit();
        assert_eq!(status.code(), Some(0), "{status}: {said:?}");
        said
    }
}

/// Calls `look` until it is content, for as long as anything may take here.
///
/// # Panics
///
/// If it never is.
#[track_caller]
pub fn await_state<T>(what: &str, mut look: impl FnMut() -> Result<T, String>) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        match look() {
            Ok(value) => return value,
            Err(seen) => assert!(Instant::now() < until, "waited {PATIENCE:?} for {what}; now: {seen}"),
        }
        std::thread::park_timeout(PAUSE);
    }
}

/// A connection from the test itself.
///
/// # Panics
///
/// If the daemon does not accept it.
#[must_use]
#[track_caller]
pub fn connect(address: &Address) -> Client {
    let identity = Identity::new(Role::Tool, "proof-observer");
    let mut link = Settings::default().link;
    link.handshake_timeout = PATIENCE;
    let client = Client::connect(address, identity, &link);
    client.unwrap_or_else(|error| panic!("{error}")).with_deadline(PATIENCE)
}

/// The same, to a memory server.
///
/// # Panics
///
/// If the server does not accept it.
#[must_use]
#[track_caller]
pub fn connect_memory(address: &Address) -> Memory {
    Memory::new(connect(address))
}
