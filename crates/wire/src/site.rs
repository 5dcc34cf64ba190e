//! Where a piece of work can run.

use core::fmt;

/// Where a piece of work runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Site {
    /// The application's own threads.
    Application = 0,
    /// The agent that serves the application's node.
    Agent = 1,
    /// The memory server that owns the region.
    Server = 2,
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
