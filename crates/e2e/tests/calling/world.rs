//! A memory server to call at, and functions for it.

use std::time::{Duration, Instant};

use outboard::{
    Address, CallPlacement, CallSite, Caller, CallerOptions, FunctionImage, FunctionOptions, Memory, Outboard,
};
use outboard_link::Identity;
use outboard_settings::LinkSettings;
use outboard_wire::Role;
use rustix::process::Signal;

use outboard_e2e::{Daemon, PATIENCE, outboard, socket};

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
pub(crate) struct Daemons(Daemon);

impl Daemons {
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    /// A memory server where so long a silence over TCP is the end of a link.
    pub(crate) fn start_within(deadline: &str) -> Self {
        Self::start_with(&["--link-heartbeat", "20ms", "--link-deadline", deadline])
    }

    /// A memory server with these flags.
    pub(crate) fn start_with(flags: &[&str]) -> Self {
        Self::by(&[&["memory"], flags].concat())
    }

    /// One that a command with these arguments starts.
    pub(crate) fn by(arguments: &[&str]) -> Self {
        Self::at(&socket(), arguments)
    }

    /// The same at that socket.
    fn at(socket: &str, arguments: &[&str]) -> Self {
        let listen = format!("{socket},tcp:127.0.0.1:0");
        Self(Daemon::of(outboard(&[arguments, &["--listen", &listen]].concat())))
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
        Daemons::at(&socket.to_string(), &arguments)
    }

    /// The same, whether it does or not.
    pub(crate) fn agent_soon(&self, memory: &Address) -> Daemons {
        Daemons::by(&["agent", "--memory-servers", &memory.to_string(), "--workers", "2"])
    }

    /// How many regions its process has in its memory.
    pub(crate) fn mapped_regions(&self) -> usize {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.0.process.pid())).unwrap();
        maps.lines().filter(|line| line.contains("memfd:outboard-region")).count()
    }

    /// Asks it to end, and returns its exit code, or none if it has been killed.
    pub(crate) fn ends_when_asked(self) -> Option<i32> {
        self.0.process.signal(Signal::TERM);
        self.0.process.exit().0.code()
    }

    pub(crate) fn go_on(&self) {
        self.0.process.go_on();
    }

    pub(crate) fn stop(&self) {
        self.0.process.stop();
    }

    pub(crate) fn shm(&self) -> Address {
        self.0.local().clone()
    }

    pub(crate) fn tcp(&self) -> Address {
        self.0.remote().clone()
    }
}

pub(crate) fn identity() -> Identity {
    Identity::new(Role::Application, "caller test")
}

/// Links for a machine on which daemons get a processor late.
pub(crate) fn link_settings() -> LinkSettings {
    LinkSettings { handshake_timeout: PATIENCE, ..LinkSettings::default() }
}

/// The memory server at an address, patiently.
pub(crate) fn outboard_at(address: &Address) -> Outboard {
    let outboard = Outboard::at(address.clone()).with_identity(identity());
    outboard.with_link(link_settings()).with_deadline(PATIENCE)
}

pub(crate) fn memory(address: &Address) -> Memory {
    outboard_at(address).memory().unwrap()
}

/// A caller whose calls run at the server.
pub(crate) fn caller(address: &Address) -> Caller {
    caller_at(address, CallSite::Server)
}

/// A caller whose calls run there.
pub(crate) fn caller_at(address: &Address, site: CallSite) -> Caller {
    caller_with(address, CallerOptions::default().with_placement(site))
}

/// A caller whose calls run at an agent.
pub(crate) fn caller_by(address: &Address, agent: &Address) -> Caller {
    caller_placed(address, agent, CallSite::Agent)
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
    caller_of(&outboard_at(address), options)
}

pub(crate) fn caller_of(outboard: &Outboard, options: CallerOptions) -> Caller {
    outboard.caller_with(options).unwrap()
}

/// A caller with an agent, whose calls are placed in this way.
pub(crate) fn caller_placed(
    address: &Address,
    agent: &Address,
    placement: impl Into<CallPlacement>,
) -> Caller {
    let options = CallerOptions::default().with_placement(placement);
    caller_of(&outboard_at(address).with_agent(agent.clone()), options)
}

/// A memory server of which so long a silence is taken for the end.
pub(crate) fn patient_about(deadline: Duration, address: &Address) -> Outboard {
    let link = LinkSettings { deadline, ..link_settings() };
    outboard_at(address).with_link(link).with_deadline(PATIENCE)
}

/// A caller that takes so long a silence for the end of a peer.
pub(crate) fn caller_within(deadline: Duration, address: &Address, options: CallerOptions) -> Caller {
    caller_of(&patient_about(deadline, address), options)
}

pub(crate) fn image(text: &str) -> FunctionImage {
    FunctionImage::from_text(text, "main").unwrap()
}
