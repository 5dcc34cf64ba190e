//! The process that has the memory.

use outboard::Settings;
use outboard_agent::Daemon;
use outboard_link::{Address, Identity};
use outboard_wire::Role;
use serde::{Deserialize, Serialize};

use crate::BenchError;
use crate::pair::{Control, Order, Peer, PeerProgram};

/// What the second process is told to play.
pub(super) const PART: &str = "paging.memory";

/// Where the server listens.
#[derive(Debug, Serialize, Deserialize)]
struct Listening {
    local: String,
    remote: String,
}

/// A memory server in a process of its own. It ends when this is dropped.
pub(crate) struct MemoryHost {
    peer: Peer,
    /// Where it is reached through shared memory.
    pub(crate) local: Address,
    /// Where it is reached over TCP.
    pub(crate) remote: Address,
}

impl MemoryHost {
    /// Starts it and waits until it listens.
    pub(crate) fn start(program: &PeerProgram) -> Result<Self, BenchError> {
        let peer = Peer::start(program, PART)?;
        let Listening { local, remote } = peer.control.receive("the memory server to listen")?;
        Ok(Self { local: local.parse()?, remote: remote.parse()?, peer })
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.peer.pid()
    }
}

/// Runs a memory server with default settings, at addresses of its own, until it is told to stop.
pub(super) fn serve(control: &Control) -> Result<(), BenchError> {
    let mut settings = Settings::default();
    let unique = Identity::new(Role::Tool, "").incarnation;
    let local = Address::Abstract(format!("outboard-bench-memory-{unique}"));
    settings.memory.listen = vec![local, Address::Tcp(([127, 0, 0, 1], 0).into())];
    let daemon = Daemon::memory(&settings)?;
    let mut listening = Listening { local: String::new(), remote: String::new() };
    for address in daemon.listening() {
        let place = if let Address::Tcp(_) = address { &mut listening.remote } else { &mut listening.local };
        *place = address.to_string();
    }
    control.send(&listening)?;
    // Until the lead says so, or is gone; a server may be needed for longer than a lead is usually silent.
    while let Err(BenchError::Stalled { .. }) = control.receive::<Order>("the end of the benchmark") {}
    daemon.stop("the benchmark is over");
    Ok(())
}
