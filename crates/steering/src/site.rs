//! Where a piece of work can run.

use core::fmt;

/// Where a piece of work runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Site {
    /// The application's own threads.
    Application,
    /// The agent that serves the application's node.
    Agent,
    /// The memory server that owns the region.
    Server,
}

impl Site {
    /// Every site, in the order of their discriminants: `Site::ALL[site as usize] == site`.
    pub const ALL: [Self; 3] = [Self::Application, Self::Agent, Self::Server];
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Application => "application",
            Self::Agent => "agent",
            Self::Server => "server",
        })
    }
}
