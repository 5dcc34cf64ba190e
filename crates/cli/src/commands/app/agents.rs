//! Agents that carry an application's messages, and what they say of it.

use std::fmt;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use outboard_launch::{Piece, allowed_cpus};
use outboard_link::Address;
use outboard_settings::{Settings, default_socket};
use serde::Serialize;

use crate::children::Child;
use crate::ranks::draw_number;
use crate::survey::Survey;

/// Agents of this program, each connected with all others over TCP, as if every one were on a node of its own.
pub(super) struct Agents {
    children: Vec<Child>,
    /// Where their ranks find them.
    pub(super) addresses: Vec<Address>,
}

/// The traffic over one kind of hop.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Hop {
    pub(super) hop: &'static str,
    pub(super) bundles: u64,
    pub(super) bytes: u64,
    pub(super) average: f64,
}

/// More ranks and agents than there are processors. What an agent does then takes the ranks' time.
pub(super) struct Crowd {
    ranks: u32,
    agents: u32,
    processors: usize,
}

impl Crowd {
    /// So many ranks and agents on this machine, if they have to share processors.
    pub(super) fn of(ranks: u32, agents: u32) -> Option<Self> {
        let processors = allowed_cpus().ok()?.len();
        ((ranks + agents) as usize > processors).then_some(Self { ranks, agents, processors })
    }
}

impl fmt::Display for Crowd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ranks, agents, processors } = self;
        let (agents, ranks) = (several(*agents, "agent"), several(*ranks, "rank"));
        let processors = several(*processors as u32, "processor");
        write!(
            f,
            "{agents} and {ranks} share {processors}, which usually makes this slower than inline; compare with --agents 0"
        )
    }
}

fn several(count: u32, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// How long agents take at most to show what they have counted.
const SHOWN: Duration = Duration::from_millis(50);

impl Agents {
    pub(super) fn start(count: u32, settings: &Settings) -> Result<Self> {
        let number = draw_number().context("no random number for the agents' addresses")?;
        let (mut children, mut addresses) = (Vec::<Child>::new(), Vec::new());
        for index in 0..count {
            let mut settings = settings.clone();
            let socket = default_socket(&format!("app-{number:016x}-{index}"));
            settings.agent.listen = vec![socket, Address::Tcp(([127, 0, 0, 1], 0).into())];
            settings.agent.memory_servers = Vec::new();
            let peers = children.iter().map(|child| child.remote().cloned());
            settings.agent.peers = peers.collect::<Result<_>>()?;
            let child = Child::agent(&settings, None, |_: Piece<'_>| {})?;
            addresses.push(child.local()?.clone());
            children.push(child);
        }
        Ok(Self { children, addresses })
    }

    /// The traffic that they have carried, for each kind of hop.
    pub(super) fn hops(&self, settings: &Settings) -> Result<[Hop; 3]> {
        std::thread::park_timeout(SHOWN);
        let sights = Survey::new(self.addresses.clone(), settings.link.clone()).look();
        if let Some((address, error)) = sights.failed.first() {
            bail!("one of {} agents, {address}, has not lived to the end: {error}", self.children.len());
        }
        let sum = |name: &str| sights.seen.iter().filter_map(|sight| sight.view.get(name)).sum::<u64>();
        let hop = |hop, bundles: &str, bytes: &str| {
            let (bundles, bytes) = (sum(bundles), sum(bytes));
            Hop { hop, bundles, bytes, average: bytes as f64 / bundles.max(1) as f64 }
        };
        Ok([
            hop("into_agents", "routed_runs_total", "routed_bytes_total"),
            hop("agent_to_agent", "parcels_to_agents_total", "carried_to_agents_bytes_total"),
            hop("agent_to_rank", "parcels_to_ranks_total", "carried_to_ranks_bytes_total"),
        ])
    }
}
