//! Daemons that live as long as a measurement.

use anyhow::{Context, Result};
use outboard_launch::Piece;
use outboard_link::Address;
use outboard_measure::characterize::{MeasuredDaemon, Party};
use outboard_settings::{LogLevel, Settings, default_socket};

use crate::children::{Child, GRACE};
use crate::ranks::draw_number;

/// An agent and a memory server, at sockets that no other process uses.
pub(super) struct Cluster {
    memory: Child,
    agent: Child,
}

impl Cluster {
    /// Starts both with the usual settings, and the user's for links.
    pub(super) fn start(user: &Settings) -> Result<Self> {
        let number = draw_number().context("no random number for the sockets' names")? as u32;
        let place = |daemon: &str| {
            let socket = default_socket(&format!("trial-{}-{number:08x}-{daemon}", std::process::id()));
            vec![socket, Address::Tcp(([127, 0, 0, 1], 0).into())]
        };
        let mut settings = Settings { link: user.link.clone(), ..Settings::default() };
        settings.log.level = LogLevel::Warn;
        (settings.memory.name, settings.agent.name) = ("trial-memory".to_owned(), "trial-agent".to_owned());
        settings.memory.listen = place("memory");
        settings.agent.listen = place("agent");
        // Their output, when they do not start, is part of the error.
        let memory = Child::memory(&settings, |_: Piece<'_>| {})?;
        settings.agent.memory_servers = vec![memory.local()?.clone()];
        let agent = Child::agent(&settings, None, |_: Piece<'_>| {})?;
        Ok(Self { memory, agent })
    }

    /// Both, over each kind of link.
    pub(super) fn targets(&self) -> Result<Vec<MeasuredDaemon>> {
        let mut targets = Vec::new();
        for (party, child) in [(Party::Agent, &self.agent), (Party::MemoryServer, &self.memory)] {
            for address in [child.local()?, child.remote()?] {
                targets.push(MeasuredDaemon { party, address: address.clone() });
            }
        }
        Ok(targets)
    }

    /// The agent first, so that it does not miss its memory server.
    pub(super) fn stop(self) {
        self.agent.process.stop(GRACE);
        self.memory.process.stop(GRACE);
    }
}
