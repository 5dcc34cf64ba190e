//! Memory servers and agents as real processes, and what they count.

use std::time::{Duration, Instant};

use outboard::{Address, Client, Memory, Settings};
use outboard_agent::{STATUS_GRANT, StatusView};
use outboard_link::Identity;
use outboard_wire::Role;
use rustix::process::Signal;

use crate::place::Place;
use crate::process::{PATIENCE, Process, outboard};

/// A daemon that listens.
pub(crate) struct Daemon {
    pub(crate) process: Process,
    pub(crate) name: String,
    pub(crate) listening: Vec<Address>,
    status: Option<Client>,
}

/// How long a look that found nothing new waits before the next.
const PAUSE: Duration = Duration::from_millis(1);

impl Daemon {
    /// Starts `outboard memory` or `outboard agent` and waits until it listens.
    #[track_caller]
    pub(crate) fn start(place: &Place, command: &str, name: &str, arguments: &[&str]) -> Self {
        let arguments = [&[command, "--name", name], arguments].concat();
        let mut process = Process::start(outboard(place, &arguments));
        let line = process.await_line(&["listens at "]);
        let (_, rest) = line.split_once("listens at ").expect("the line was found by this");
        let words = rest.split(' ').map(|word| word.trim_end_matches(','));
        let listening = words.map_while(|word| word.parse().ok()).collect();
        Self { process, name: name.to_owned(), listening, status: None }
    }

    /// A memory server at this socket and a port of its own.
    #[track_caller]
    pub(crate) fn memory(place: &Place, at: &str, more: &[&str]) -> Self {
        let arguments = [&["--listen", at, "--listen", "tcp:127.0.0.1:0", "--capacity", "256MiB"], more];
        Self::start(place, "memory", "proof-memory", &arguments.concat())
    }

    /// An agent at this socket and a port of its own.
    #[track_caller]
    pub(crate) fn agent(place: &Place, at: &str, memory: &str, more: &[&str]) -> Self {
        let arguments = [&["--listen", at, "--listen", "tcp:127.0.0.1:0", "--memory-servers", memory], more];
        Self::start(place, "agent", "proof-agent", &arguments.concat())
    }

    pub(crate) fn local(&self) -> &Address {
        self.listening.iter().find(|at| !matches!(at, Address::Tcp(_))).expect("it listens at a Unix socket")
    }

    pub(crate) fn remote(&self) -> &Address {
        self.listening.iter().find(|at| matches!(at, Address::Tcp(_))).expect("it listens at a port")
    }

    /// A number that it counts.
    #[track_caller]
    pub(crate) fn number(&mut self, name: &str) -> u64 {
        self.view().get(name).unwrap_or_else(|| panic!("{} does not count {name}", self.name))
    }

    #[track_caller]
    pub(crate) fn view(&mut self) -> StatusView {
        let address = self.local().clone();
        let client = self.status.get_or_insert_with(|| connect(&address));
        let bytes = client.read_region(&STATUS_GRANT).expect("a living daemon lets us look");
        StatusView::read(&bytes).expect("a status page")
    }

    /// Looks until a number is as wanted.
    #[track_caller]
    pub(crate) fn await_number(&mut self, name: &str, wanted: u64) {
        await_state(&format!("{} {name} = {wanted}", self.name), || {
            let seen = self.number(name);
            if seen == wanted { Ok(()) } else { Err(format!("{seen}")) }
        });
    }

    /// Ends it with a request, which it must follow.
    #[track_caller]
    pub(crate) fn end(mut self) -> Vec<String> {
        self.status = None;
        self.process.signal(Signal::TERM);
        let (status, said) = self.process.exit();
        assert_eq!(status.code(), Some(0), "{status}: {said:?}");
        said
    }
}

/// Calls `look` until it is content, for as long as anything may take here.
#[track_caller]
pub(crate) fn await_state<T>(what: &str, mut look: impl FnMut() -> Result<T, String>) -> T {
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
#[track_caller]
pub(crate) fn connect(address: &Address) -> Client {
    let identity = Identity::new(Role::Tool, "proof-observer");
    let mut link = Settings::default().link;
    link.handshake_timeout = PATIENCE;
    let client = Client::connect(address, identity, &link);
    client.unwrap_or_else(|error| panic!("{error}")).with_patience(PATIENCE)
}

#[track_caller]
pub(crate) fn connect_memory(address: &Address) -> Memory {
    Memory::new(connect(address))
}
