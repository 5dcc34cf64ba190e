//! Daemons in processes of their own, for benchmarks that need them.

use outboard::Settings;
use outboard_agent::Daemon;
use outboard_link::{Address, Identity};
use outboard_settings::{ByteSize, ForwardingChoice, OrAuto};
use outboard_wire::Role;
use serde::{Deserialize, Serialize};

use crate::BenchError;
use crate::pair::{Control, Order, Peer, PeerProgram};

/// What the second process is told to play.
const PART: &str = "daemon.host";

/// Which daemon.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum HostSpec {
    /// A memory server.
    Memory {
        /// Where files are loaded from.
        data_dir: Option<String>,
        /// How many threads it has; the default if none.
        workers: Option<usize>,
    },
    /// A memory server that keeps its regions.
    Keeping {
        /// Where.
        keep: String,
        /// Where it listens, as its next process will.
        address: String,
    },
    /// An agent that carries messages.
    Router {
        /// How many threads it has.
        workers: usize,
        /// Other agents, by their addresses.
        peers: Vec<String>,
    },
    /// An agent.
    Agent {
        /// Where its memory server is.
        server: String,
        /// How it passes requests on.
        forwards: Forwards,
        /// A slower wire to the memory server.
        wire: Option<String>,
        /// How large its page cache is, in bytes; the default if none.
        cache: Option<u64>,
    },
}

/// How an agent passes requests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Forwards {
    /// One at a time.
    Serial,
    /// In batches.
    Batched,
    /// At once.
    Pipelined,
}

/// Where a daemon listens.
#[derive(Debug, Serialize, Deserialize)]
struct Listening {
    local: String,
    remote: String,
}

/// A daemon in a process of its own. It ends when this is dropped.
pub(crate) struct Host {
    peer: Peer,
    /// Where it is reached through shared memory.
    pub(crate) local: Address,
    /// Where it is reached over TCP.
    pub(crate) remote: Address,
}

impl Host {
    /// Starts it and waits until it listens.
    pub(crate) fn start(program: &PeerProgram, spec: &HostSpec) -> Result<Self, BenchError> {
        let peer = Peer::start(program, PART)?;
        peer.control.send(spec)?;
        let Listening { local, remote } = peer.control.receive("the daemon to listen")?;
        Ok(Self { local: local.parse()?, remote: remote.parse()?, peer })
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.peer.pid()
    }
}

/// A daemon's part; `None` if something else is asked for.
pub(crate) fn serve(part: &str) -> Option<Result<(), BenchError>> {
    (part == PART).then(|| Control::play(host))
}

/// Runs a daemon at addresses of its own until it is told to stop.
fn host(control: &Control) -> Result<(), BenchError> {
    let daemon = start(&control.receive("what to be")?)?;
    let mut listening = Listening { local: String::new(), remote: String::new() };
    for address in daemon.listening() {
        let place = if let Address::Tcp(_) = address { &mut listening.remote } else { &mut listening.local };
        *place = address.to_string();
    }
    control.send(&listening)?;
    // Until the lead says so, or is gone; a daemon may be needed for longer than a lead is usually silent.
    while let Err(BenchError::Stalled { .. }) = control.receive::<Order>("the end of the benchmark") {}
    Ok(daemon.stop("the benchmark is over")?)
}

fn start(spec: &HostSpec) -> Result<Daemon, BenchError> {
    let mut settings = Settings::default();
    let unique = Identity::new(Role::Tool, "").incarnation;
    let local = Address::Abstract(format!("outboard-bench-daemon-{unique}"));
    let listen = vec![local, Address::Tcp(([127, 0, 0, 1], 0).into())];
    match spec {
        HostSpec::Memory { data_dir, workers } => {
            settings.memory.listen = listen;
            settings.memory.workers = workers.map_or(OrAuto::Auto, OrAuto::Given);
            settings.memory.data_dir = data_dir.as_ref().map(Into::into);
            Ok(Daemon::memory(&settings)?)
        }
        HostSpec::Keeping { keep, address } => {
            settings.memory.listen = vec![address.parse()?, Address::Tcp(([127, 0, 0, 1], 0).into())];
            settings.memory.keep = Some(keep.into());
            Ok(Daemon::memory(&settings)?)
        }
        HostSpec::Router { workers, peers } => {
            settings.agent.listen = listen;
            settings.agent.memory_servers = Vec::new();
            settings.agent.workers = (*workers).into();
            settings.agent.peers = peers.iter().map(|peer| peer.parse()).collect::<Result<_, _>>()?;
            Ok(Daemon::agent(&settings)?)
        }
        HostSpec::Agent { server, forwards, wire, cache } => {
            settings.agent.listen = listen;
            settings.agent.memory_servers = vec![server.parse()?];
            if let Some(cache) = cache {
                settings.agent.cache = ByteSize(*cache).into();
            }
            settings.agent.forwarding = match forwards {
                Forwards::Serial => ForwardingChoice::Serial,
                Forwards::Batched => ForwardingChoice::Batched,
                Forwards::Pipelined => ForwardingChoice::Pipelined,
            };
            let wrong =
                |error: outboard_link::shaped::WireError| BenchError::PeerFailed { why: error.to_string() };
            settings.agent.dial_wire = wire.as_deref().map(|wire| wire.parse().map_err(wrong)).transpose()?;
            Ok(Daemon::agent(&settings)?)
        }
    }
}
