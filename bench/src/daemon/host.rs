//! The process that is measured: an agent, and beside it a thread that answers on a bare socket.

use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use outboard::Settings;
use outboard_agent::Daemon;
use outboard_link::{Address, Identity};
use outboard_wire::Role;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::error::Named;
use crate::pair::{Control, PATIENCE, Peer, PeerProgram};
use crate::{BenchError, pair};

/// What the lead says to the host.
#[derive(Debug, Serialize, Deserialize)]
enum Order {
    /// Tell how much processor time and memory you have used.
    Account,
    /// Answer on the socket that comes next.
    Answer,
    /// That was all.
    Stop,
}

/// What the host answers.
#[derive(Debug, Serialize, Deserialize)]
enum Reply {
    /// Clients can come.
    Listening { local: String, remote: String },
    /// All its threads together have run for so long, and so much of its memory is there.
    Used { cpu_ns: u64, resident_bytes: u64 },
    /// There will be no result.
    Failed { why: String },
}

/// The bytes of one question on the bare socket.
pub(super) const MESSAGE_LEN: usize = 64;

/// The host, as the lead holds it.
pub(super) struct Host {
    peer: Peer,
    /// Where it is reached through shared memory.
    pub(super) local: Address,
    /// Where it is reached over TCP.
    pub(super) remote: Address,
}

impl Host {
    /// Starts it for `question` and waits until it listens.
    pub(super) fn start(program: &PeerProgram, question: &str) -> Result<Self, BenchError> {
        let peer = Peer::start(program, question)?;
        let awaited = "the agent to listen";
        match peer.control.receive(awaited)? {
            Reply::Listening { local, remote } => {
                Ok(Self { local: local.parse()?, remote: remote.parse()?, peer })
            }
            other => Err(unexpected(other)),
        }
    }

    /// The processor time that it has used so far.
    pub(super) fn cpu_ns(&self) -> Result<u64, BenchError> {
        Ok(self.account()?.0)
    }

    /// How much of its memory is there.
    pub(super) fn resident_bytes(&self) -> Result<u64, BenchError> {
        Ok(self.account()?.1)
    }

    fn account(&self) -> Result<(u64, u64), BenchError> {
        self.peer.control.send(&Order::Account)?;
        match self.peer.control.receive("what the host has used")? {
            Reply::Used { cpu_ns, resident_bytes } => Ok((cpu_ns, resident_bytes)),
            other => Err(unexpected(other)),
        }
    }

    /// A socket on which it sends back what it receives, sleeping in between.
    pub(super) fn bare_socket(&self) -> Result<UnixStream, BenchError> {
        let (ours, theirs) = UnixStream::pair().named("socketpair")?;
        ours.set_read_timeout(Some(PATIENCE)).named("setsockopt")?;
        self.peer.control.send(&Order::Answer)?;
        self.peer.control.send_descriptor(theirs.as_fd())?;
        Ok(ours)
    }

    /// Lets it end.
    pub(super) fn stop(self) -> Result<(), BenchError> {
        self.peer.stop()
    }
}

fn unexpected(reply: Reply) -> BenchError {
    match reply {
        Reply::Failed { why } => BenchError::PeerFailed { why },
        other => BenchError::PeerFailed { why: format!("it answered {other:?} out of turn") },
    }
}

/// Runs an agent with default settings, at addresses of its own, until the lead has no more to ask.
pub(super) fn serve(control: &Control) -> Result<(), BenchError> {
    let daemon = start_agent()?;
    let (mut local, mut remote) = (String::new(), String::new());
    for address in daemon.listening() {
        let place = if let Address::Tcp(_) = address { &mut remote } else { &mut local };
        *place = address.to_string();
    }
    control.send(&Reply::Listening { local, remote })?;
    loop {
        match control.receive("the next question")? {
            Order::Account => {
                let resident_bytes = resident_bytes()?;
                control.send(&Reply::Used { cpu_ns: cpu_ns(), resident_bytes })?;
            }
            Order::Answer => answer(control.receive_descriptor()?)?,
            Order::Stop => break,
        }
    }
    Ok(daemon.stop("the benchmark is over")?)
}

fn start_agent() -> Result<Daemon, BenchError> {
    let mut settings = Settings::default();
    let unique = Identity::new(Role::Tool, "").incarnation;
    let local = Address::Abstract(format!("outboard-bench-{unique}"));
    settings.agent.listen = vec![local, Address::Tcp(([127, 0, 0, 1], 0).into())];
    settings.agent.memory_servers = Vec::new();
    Ok(Daemon::agent(&settings)?)
}

fn cpu_ns() -> u64 {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    used.tv_sec as u64 * 1_000_000_000 + used.tv_nsec as u64
}

/// The pages of this process that are in memory: the second number that the kernel tells.
fn resident_bytes() -> Result<u64, BenchError> {
    let told = std::fs::read_to_string("/proc/self/statm").named("/proc/self/statm")?;
    let pages = told.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
    Ok(pages.unwrap_or(0) * rustix::param::page_size() as u64)
}

/// Sends back what comes until the lead closes the socket.
fn answer(socket: OwnedFd) -> Result<(), BenchError> {
    let mut socket = UnixStream::from(socket);
    socket.set_read_timeout(Some(pair::PATIENCE)).named("setsockopt")?;
    let serve = move || {
        let mut message = [0; MESSAGE_LEN];
        while socket.read_exact(&mut message).and_then(|()| socket.write_all(&message)).is_ok() {}
    };
    std::thread::Builder::new().name("bare-echo".to_owned()).spawn(serve).named("clone")?;
    Ok(())
}
