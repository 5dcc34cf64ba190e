//! Ranks in processes of their own.

use outboard_settings::Secret;

use super::bare::RING_BYTES;
use super::part::{PART, Setup, Task, Work};
use crate::BenchError;
use crate::error::Named;
use crate::harness::Round;
use crate::pair::{Peer, PeerProgram};
use crate::raw::BareRings;

/// Ranks in processes of their own, which do rounds of work together.
pub(super) struct Team {
    ranks: Vec<Peer>,
    rounds: u64,
}

impl Team {
    /// Starts them; two have bare rings between them too.
    pub(super) fn start(program: &PeerProgram, ranks: u32, table_words: u64) -> Result<Self, BenchError> {
        let secret = Secret::draw().map_err(std::io::Error::from).named("getrandom")?;
        let job = outboard_link::Identity::new(outboard_wire::Role::Tool, "").incarnation.0;
        let peers: Vec<Peer> = (0..ranks).map(|_| Peer::start(program, PART)).collect::<Result<_, _>>()?;
        let has_rings = ranks == 2;
        for (rank, peer) in (0..).zip(&peers) {
            let secret = secret.expose().to_owned();
            peer.control.send(&Setup { rank, ranks, job, secret, table_words, has_rings })?;
        }
        if has_rings {
            let rings = BareRings::offer(&peers[0].control, RING_BYTES)?;
            rings.share(&peers[1].control)?;
        }
        peers.iter().try_for_each(|peer| peer.control.ready())?;
        Ok(Self { ranks: peers, rounds: 0 })
    }

    /// One round: so many items for each rank.
    pub(super) fn round(&mut self, work: Work, items: u64) -> Result<Round, BenchError> {
        self.rounds += 1;
        let seed = self.rounds;
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
        let expected = items * self.ranks.len() as u64;
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
        // They leave together: whoever waits for the others finds them.
        self.ranks.iter().try_for_each(|peer| peer.control.send(&None::<Task>))
    }
}
