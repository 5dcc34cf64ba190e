//! All that can be configured, one file per room.

mod agent;
mod calling;
mod far;
mod job;
mod link;
mod log;
mod memory;
mod messages;
mod metrics;

pub use agent::{AgentSettings, ForwardingChoice};
pub use calling::CallingSettings;
pub use far::{CacheChoice, ChildrenChoice, FarSettings, FaultsChoice, LossChoice, NodeChoice, PathChoice};
pub use job::{AddressChoice, JobSettings};
pub use link::LinkSettings;
pub use log::{LogFormat, LogLevel, LogSettings};
pub use memory::MemorySettings;
pub use messages::{MessagesPlacement, MessagesSettings};
pub use metrics::MetricsSettings;

use crate::SettingsError;
use crate::section::{Section, Visitor};

/// All that can be configured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// A memory server.
    pub memory: MemorySettings,
    /// An agent.
    pub agent: AgentSettings,
    /// Calls at a memory server or an agent.
    pub calling: CallingSettings,
    /// Far memory in an application.
    pub far: FarSettings,
    /// A process that belongs to a job, or looks for services on its own.
    pub job: JobSettings,
    /// Messages between ranks.
    pub messages: MessagesSettings,
    /// Links between processes.
    pub link: LinkSettings,
    /// What is written about what happens.
    pub log: LogSettings,
    /// Counters for other programs.
    pub metrics: MetricsSettings,
}

impl Section for Settings {
    fn visit<V: Visitor>(&mut self, visitor: &mut V) -> Result<(), SettingsError> {
        self.memory.visit(visitor)?;
        self.agent.visit(visitor)?;
        self.calling.visit(visitor)?;
        self.far.visit(visitor)?;
        self.job.visit(visitor)?;
        self.messages.visit(visitor)?;
        self.link.visit(visitor)?;
        self.log.visit(visitor)?;
        self.metrics.visit(visitor)
    }
}
