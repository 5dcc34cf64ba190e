//! The ranks and agents, and which of them share a node.

use std::time::Duration;

use outboard_link::Peer;
use outboard_routing::RankConfig;
use outboard_wire::{Incarnation, JobId};

use crate::chances;

/// Which links lead to a process whose memory is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Near {
    /// None: every process is on a node of its own.
    None,
    /// Those between ranks and their agents.
    Agents,
    /// Those between ranks of the same agent too.
    Ranks,
}

/// The ranks and agents. Nodes of the world are numbered: first ranks, then agents.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) seed: u64,
    pub(super) ranks: u32,
    pub(super) agents: u32,
    pub(super) near: Near,
}

impl Layout {
    /// The agent of a rank, by its number in the world.
    pub(super) fn agent_of(&self, rank: u32) -> u32 {
        self.ranks + rank % self.agents
    }

    /// Whether a process can map what its peer lets others read.
    pub(super) fn is_near(&self, node: u32, peer: &Peer) -> bool {
        let other = peer.intro().rank.0;
        let (low, high) = (node.min(other), node.max(other));
        match self.near {
            Near::None => false,
            _ if high >= self.ranks => low < self.ranks && self.agent_of(low) == high,
            Near::Agents => false,
            Near::Ranks => self.agent_of(low) == self.agent_of(high),
        }
    }

    /// How a rank knows the others.
    pub(super) fn rank_config(&self, rank: u32, spaces: u8, agent_patience: Duration) -> RankConfig {
        RankConfig {
            job: JobId(0),
            rank,
            spaces,
            members: (0..self.ranks).map(|rank| incarnation_of(self.seed, &rank_name(rank))).collect(),
            // Links come back sooner or later.
            deadline: Duration::from_secs(3600),
            agent_patience,
        }
    }
}

/// The incarnation that a node which never crashes will have.
fn incarnation_of(seed: u64, name: &str) -> Incarnation {
    Incarnation(chances(seed, &format!("{name}/1")).u64(1..))
}

pub(super) fn rank_name(rank: u32) -> String {
    format!("rank {rank}")
}
