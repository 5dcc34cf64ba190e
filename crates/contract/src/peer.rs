//! Who is at the other end of a link.

use std::fmt;
use std::sync::Arc;

use outboard_wire::{FrameKind, Incarnation, Introduction, StoreId};

/// The process at the other end of a link, as errors and people speak of it.
#[derive(Clone, PartialEq, Eq)]
pub struct Peer(Arc<PeerFacts>);

#[derive(PartialEq, Eq)]
struct PeerFacts {
    intro: Introduction,
    version: u16,
    address: String,
}

impl Peer {
    /// The process that introduced itself as `intro`, speaks this version of the protocol with us, and was reached at
    /// `address`.
    #[doc(hidden)]
    pub fn new(intro: Introduction, version: u16, address: impl Into<String>) -> Self {
        Self(Arc::new(PeerFacts { intro, version, address: address.into() }))
    }

    /// What it said of itself. Applications ask for its [name](Self::name).
    #[doc(hidden)]
    pub fn intro(&self) -> &Introduction {
        &self.0.intro
    }

    /// What it calls itself, as it was told when it was started.
    pub fn name(&self) -> &str {
        self.0.intro.name.as_str()
    }

    /// The version of the protocol that both sides speak on this link: the newest that both know.
    pub fn version(&self) -> u16 {
        self.0.version
    }

    /// Whether messages of this kind may be sent on this link. Links check it in debug builds.
    #[doc(hidden)]
    pub fn knows(&self, kind: FrameKind) -> bool {
        kind.since() <= self.0.version
    }

    /// Where it is.
    pub fn address(&self) -> &str {
        &self.0.address
    }

    /// Which life of that process this is.
    #[doc(hidden)]
    pub fn incarnation(&self) -> Incarnation {
        self.0.intro.incarnation
    }

    /// The store that it goes on with, if it is a memory server that keeps one.
    #[doc(hidden)]
    pub fn store(&self) -> StoreId {
        self.0.intro.store
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Introduction { role, name, pid, .. } = &self.0.intro;
        // A name is a stranger's text: it must not steer the terminal it is shown on.
        let name: String = name.as_str().chars().filter(|letter| !letter.is_control()).collect();
        write!(f, "{role} “{name}” (process {pid}) at {}", self.0.address)
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
