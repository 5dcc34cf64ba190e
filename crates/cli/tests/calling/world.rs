//! A memory server to call at, and functions for it.

use std::time::{Duration, Instant};

use outboard::{Address, CallSite, Caller, CallerOptions, Client, FunctionImage, FunctionOptions, Memory};
use outboard_link::Identity;
use outboard_settings::LinkSettings;
use outboard_wire::Role;

use crate::support::{PATIENCE, Server};

/// Adds its argument to a word of the first region; replies what the word is then, and returns what it was.
pub(crate) const COUNT: &str = "
    ldxdw r6, [r1+0]
    mov r1, 0
    mov r2, 16
    mov r3, r6
    call region_fetch_add
    mov r7, r0
    add r6, r0
    stxdw [r10-8], r6
    mov r1, r10
    add r1, -8
    mov r2, 8
    call reply
    mov r0, r7
    exit";

/// Spends about as much fuel as its argument says.
pub(crate) const SPEND: &str = "
    ldxdw r2, [r1+0]
    again:
    add r2, -2
    jsgt r2, 0, again
    mov r0, 0
    exit";

/// A memory server or an agent, with addresses that were read.
pub(crate) struct Daemons(Server);

impl Daemons {
    pub(crate) fn start() -> Self {
        Self(Server::start())
    }

    /// A memory server where so long a silence over TCP is the end of a link.
    pub(crate) fn start_within(deadline: &str) -> Self {
        Self::start_with(&["--link-heartbeat", "20ms", "--link-deadline", deadline])
    }

    /// A memory server with these flags.
    pub(crate) fn start_with(flags: &[&str]) -> Self {
        Self(Server::start_with(&[&["memory"], flags].concat()))
    }

    /// An agent that reaches the memory server there, and does so by all its workers.
    pub(crate) fn agent(&self, memory: &Address) -> Daemons {
        let agent = self.agent_soon(memory);
        await_workers(&self.shm(), &agent.shm());
        agent
    }

    /// The same at that socket.
    pub(crate) fn agent_at(&self, socket: &Address, memory: &Address) -> Daemons {
        let arguments = ["agent", "--memory-servers", &memory.to_string(), "--workers", "2"];
        Daemons(Server::start_at(&socket.to_string(), &arguments))
    }

    /// The same, whether it does or not.
    pub(crate) fn agent_soon(&self, memory: &Address) -> Daemons {
        Daemons(Server::agent(&memory.to_string()))
    }

    /// How many regions its process has in its memory.
    pub(crate) fn mapped_regions(&self) -> usize {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.0.pid())).unwrap();
        maps.lines().filter(|line| line.contains("memfd:outboard-region")).count()
    }

    /// Asks it to end, and returns its exit code, or none if it has been killed.
    pub(crate) fn ends_when_asked(self) -> Option<i32> {
        self.0.ends_when_asked()
    }

    pub(crate) fn go_on(&self) {
        self.0.go_on();
    }

    pub(crate) fn stop(&self) {
        self.0.stop();
    }

    pub(crate) fn shm(&self) -> Address {
        self.0.shm.parse().unwrap()
    }

    pub(crate) fn tcp(&self) -> Address {
        self.0.tcp.parse().unwrap()
    }
}

pub(crate) fn identity() -> Identity {
    Identity::new(Role::Application, "caller test")
}

/// Links for a machine on which daemons get a processor late.
pub(crate) fn link_settings() -> LinkSettings {
    LinkSettings { handshake_timeout: PATIENCE, ..LinkSettings::default() }
}

pub(crate) fn memory(address: &Address) -> Memory {
    Memory::new(Client::connect(address, identity(), &link_settings()).unwrap().with_patience(PATIENCE))
}

/// A caller whose calls run at the server.
pub(crate) fn caller(address: &Address) -> Caller {
    caller_at(address, CallSite::Server)
}

/// A caller whose calls run there.
pub(crate) fn caller_at(address: &Address, site: CallSite) -> Caller {
    caller_with(address, CallerOptions::default().at(site))
}

/// A caller whose calls run at an agent.
pub(crate) fn caller_by(address: &Address, agent: &Address) -> Caller {
    caller_with(address, CallerOptions::default().at(CallSite::Agent).with_agent(Some(agent.clone())))
}

/// Waits until an agent runs functions, whichever of its workers is asked: links are given to them in turn.
fn await_workers(memory: &Address, agent: &Address) {
    let until = Instant::now() + PATIENCE;
    let mut ready = 0;
    while ready < 4 {
        assert!(Instant::now() < until, "the agent does not reach the memory server");
        let mut caller = caller_by(memory, agent);
        let registered = caller.register(&image("mov r0, 1\nexit"), FunctionOptions::default());
        ready = if registered.is_ok() { ready + 1 } else { 0 };
    }
}

pub(crate) fn caller_with(address: &Address, options: CallerOptions) -> Caller {
    caller_within(link_settings().deadline, address, options)
}

/// A caller that takes so long a silence for the end of a peer.
pub(crate) fn caller_within(deadline: Duration, address: &Address, options: CallerOptions) -> Caller {
    let link = LinkSettings { deadline, ..link_settings() };
    Caller::connect(address, identity(), &link, options).unwrap().with_patience(PATIENCE)
}

pub(crate) fn image(text: &str) -> FunctionImage {
    FunctionImage::from_text(text, "main").unwrap()
}
