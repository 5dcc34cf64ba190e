//! Who is at the other end of a link.

use std::fmt;
use std::sync::Arc;

use outboard_wire::{Incarnation, Introduction};

/// The process at the other end of a link, as errors and people speak of it.
#[derive(Clone, PartialEq, Eq)]
pub struct Peer(Arc<PeerFacts>);

#[derive(PartialEq, Eq)]
struct PeerFacts {
    intro: Introduction,
    address: String,
}

impl Peer {
    /// The process that introduced itself as `intro` and was reached at `address`.
    pub fn new(intro: Introduction, address: impl Into<String>) -> Self {
        Self(Arc::new(PeerFacts { intro, address: address.into() }))
    }

    /// What it said of itself.
    pub fn intro(&self) -> &Introduction {
        &self.0.intro
    }

    /// Where it is.
    pub fn address(&self) -> &str {
        &self.0.address
    }

    /// Which life of that process this is.
    pub fn incarnation(&self) -> Incarnation {
        self.0.intro.incarnation
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
