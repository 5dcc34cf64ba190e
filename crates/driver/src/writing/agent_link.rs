//! The link to an agent that passes batches on.

use outboard_link::Peer;
use outboard_link::ofi::OfiLink;
use outboard_link::shm::ShmLink;
use outboard_link::tcp::TcpLink;

/// A link to an agent, of whichever kind. Batches are few, so that choosing anew for each costs nothing that counts.
pub enum AgentLink {
    /// On the same node.
    Shm(Box<ShmLink>),
    /// Over a network.
    Tcp(Box<TcpLink>),
    /// Over a fabric.
    Ofi(Box<OfiLink>),
}

macro_rules! on_agent {
    ($agent:expr, $link:ident => $body:expr) => {
        match $agent {
            AgentLink::Shm($link) => $body,
            AgentLink::Tcp($link) => $body,
            AgentLink::Ofi($link) => $body,
        }
    };
}

pub(super) use on_agent;

impl AgentLink {
    /// Who is at the other end.
    pub fn peer(&self) -> &Peer {
        use outboard_link::Link;
        on_agent!(self, link => link.peer())
    }
}
