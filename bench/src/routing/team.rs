//! Ranks in processes of their own.

use std::net::SocketAddr;

use outboard_link::Address;

use super::bare::RING_BYTES;
use super::part::{PART, Setup, Task, Work};
use super::seat::{Bundling, Seat};
use crate::BenchError;
use crate::harness::Round;
use crate::pair::{Peer, PeerProgram};
use crate::raw::BareRings;

/// Ranks in processes of their own, which do rounds of work together.
pub(super) struct Team {
    ranks: Vec<Peer>,
}

impl Team {
    /// Starts them; two have bare rings between them too.
    pub(super) fn start(program: &PeerProgram, ranks: u32, table_words: u64) -> Result<Self, BenchError> {
        Self::start_with(program, ranks, table_words, Bundling::default())
    }

    /// The same for ranks that bundle messages in their own way.
    pub(super) fn start_with(
        program: &PeerProgram,
        ranks: u32,
        table_words: u64,
        bundling: Bundling,
    ) -> Result<Self, BenchError> {
        let setup = Setup { table_words, has_rings: ranks == 2, has_socket: false };
        Self::seat(program, ranks, setup, bundling, &[])
    }

    /// The same for ranks whose messages are carried by agents, by turns. Two have a bare socket between them too, if there
    /// are two agents.
    pub(super) fn carried(
        program: &PeerProgram,
        ranks: u32,
        table_words: u64,
        agents: &[Address],
    ) -> Result<Self, BenchError> {
        let setup = Setup { table_words, has_rings: false, has_socket: ranks == 2 && agents.len() == 2 };
        Self::seat(program, ranks, setup, Bundling::default(), agents)
    }

    fn seat(
        program: &PeerProgram,
        ranks: u32,
        setup: Setup,
        bundling: Bundling,
        agents: &[Address],
    ) -> Result<Self, BenchError> {
        let peers = Seat::fill(program, PART, ranks, bundling, agents)?;
        let Setup { has_rings, has_socket, .. } = setup;
        for peer in &peers {
            peer.control.send(&setup)?;
        }
        if has_socket {
            let address: SocketAddr = peers[0].control.receive("where the bare socket listens")?;
            peers[1].control.send(&address)?;
        }
        if has_rings {
            let rings = BareRings::offer(&peers[0].control, RING_BYTES)?;
            rings.share(&peers[1].control)?;
        }
        peers.iter().try_for_each(|peer| peer.control.ready())?;
        Ok(Self { ranks: peers })
    }

    /// One round: so many items for each rank, which the seed chooses.
    pub(super) fn round(&mut self, work: Work, items: u64, seed: u64) -> Result<Round, BenchError> {
        for peer in &self.ranks {
            peer.control.send(&Some(Task { work, items, seed }))?;
        }
        let (mut began, mut ended, mut handled) = (u64::MAX, 0, 0);
        for peer in &self.ranks {
            let (count, marks_ns) = peer.control.done()?;
            began = began.min(marks_ns.first().copied().unwrap_or(0));
            ended = ended.max(marks_ns.last().copied().unwrap_or(0));
            handled += count;
        }
        let expected = items * work.senders(self.ranks.len() as u64);
        if handled != expected {
            return Err(BenchError::Changed {
                what: "the number of messages handled",
                expected,
                found: handled,
            });
        }
        Ok(Round::rate(expected, (ended - began) as f64 / 1e9))
    }

    /// Ends them.
    pub(super) fn stop(self) -> Result<(), BenchError> {
        // They leave together: a rank that waits for the others finds them.
        self.ranks.iter().try_for_each(|peer| peer.control.send(&None::<Task>))
    }
}
