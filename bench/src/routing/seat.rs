//! A place in a job, for a process that the benchmark starts.

use outboard::{Job, Messenger, MessengerOptions, Settings};
use outboard_link::Address;
use outboard_settings::{AddressChoice, ByteSize, MessagesPlacement, Secret};
use outboard_wire::{JobId, Rank};
use serde::{Deserialize, Serialize};

use crate::BenchError;
use crate::error::Named;
use crate::pair::{Cores, Peer, PeerProgram};

/// How messages are bundled, where it is not as everybody has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Bundling {
    /// Bytes of a bundle.
    pub(super) bundle: Option<u64>,
    /// How many are under way to each rank.
    pub(super) buffers: Option<usize>,
}

/// Who a rank is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Seat {
    pub(super) rank: u32,
    pub(super) ranks: u32,
    job: u64,
    secret: String,
    bundling: Bundling,
    /// The agent that carries its messages, and where ranks of different agents meet.
    agent: Option<(String, String)>,
}

pub(super) fn failed(error: impl std::error::Error) -> BenchError {
    BenchError::PeerFailed { why: crate::error::chain(&error) }
}

impl Seat {
    /// Runs this process on the core that is its.
    pub(super) fn settle(&self) -> Result<(), BenchError> {
        let cores = Cores::take()?;
        let core = cores.chosen().get(self.rank as usize % cores.chosen().len().max(1)).copied();
        // Dropping what was taken undoes it, so that comes before.
        drop(cores);
        Cores::settle(core)
    }

    /// Meets the others.
    pub(super) fn join(
        &self,
        with: impl FnOnce(MessengerOptions) -> MessengerOptions,
    ) -> Result<Messenger, BenchError> {
        let mut settings = Settings::default();
        settings.job.id = Some(JobId(self.job));
        settings.job.rank = Some(Rank(self.rank));
        settings.job.size = Some(self.ranks);
        settings.job.secret = Some(Secret::new(self.secret.clone()).map_err(failed)?);
        (settings.job.agent, settings.job.memory) = (AddressChoice::None, AddressChoice::None);
        if let Some((agent, meeting)) = &self.agent {
            settings.job.agent = AddressChoice::At(agent.parse()?);
            settings.job.rendezvous = Some(meeting.parse()?);
            settings.messages.placement = MessagesPlacement::Agent;
        }
        let Bundling { bundle, buffers } = self.bundling;
        settings.messages.bundle = bundle.map_or(settings.messages.bundle, ByteSize);
        settings.messages.buffers = buffers.unwrap_or(settings.messages.buffers);
        let job = Job::with_settings(&settings).map_err(failed)?;
        job.messenger_with(with(job.messenger_options())).map_err(failed)
    }

    /// Starts a process for each rank of a job, which plays `part` and is told its seat first. If there are agents, ranks
    /// have them by turns.
    pub(super) fn fill(
        program: &PeerProgram,
        part: &str,
        ranks: u32,
        bundling: Bundling,
        agents: &[Address],
    ) -> Result<Vec<Peer>, BenchError> {
        let secret = Secret::draw().map_err(std::io::Error::from).named("getrandom")?;
        let job = outboard_link::Identity::new(outboard_wire::Role::Tool, "").incarnation.0;
        let peers: Vec<Peer> = (0..ranks).map(|_| Peer::start(program, part)).collect::<Result<_, _>>()?;
        for (rank, peer) in (0..).zip(&peers) {
            let secret = secret.expose().to_owned();
            let meeting = agents.first().map(Address::to_string);
            let agent = meeting.map(|meeting| (agents[rank as usize % agents.len()].to_string(), meeting));
            peer.control.send(&Self { rank, ranks, job, secret, bundling, agent })?;
        }
        Ok(peers)
    }
}
