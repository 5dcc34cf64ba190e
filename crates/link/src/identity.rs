//! Who this process is, and who is at the other end.

use std::fmt;
use std::sync::Arc;

use outboard_wire::{Auth, Hello, Incarnation, Introduction, JobId, Rank, Role, Text, Versions};

/// What this process says of itself on every link.
#[derive(Clone, Debug)]
pub struct Identity {
    /// What kind of process it is.
    pub role: Role,
    /// The name people know it by; the first 32 bytes travel.
    pub name: String,
    /// The job it belongs to.
    pub job: JobId,
    /// Its number in the job.
    pub rank: Rank,
    /// Drawn at random; the same on all links of one process.
    pub incarnation: Incarnation,
}

impl Identity {
    /// A process outside any job, with an incarnation drawn from the kernel's random numbers.
    pub fn new(role: Role, name: impl Into<String>) -> Self {
        Self { role, name: name.into(), job: JobId(0), rank: Rank(0), incarnation: draw_incarnation() }
    }

    /// The introduction that travels in a handshake.
    pub(crate) fn introduction(&self, max_payload: u32) -> Introduction {
        Introduction {
            incarnation: self.incarnation,
            role: self.role,
            job: self.job,
            rank: self.rank,
            pid: std::process::id(),
            name: Text::new(&self.name),
            max_payload,
            auth: Auth::NONE,
        }
    }

    /// The hello that a connecting side sends.
    pub(crate) fn hello(&self, max_payload: u32) -> Hello {
        Hello { versions: Versions::OURS, intro: self.introduction(max_payload) }
    }
}

/// A random incarnation. Falls back to the clock and the process id where the kernel gives no random bytes.
fn draw_incarnation() -> Incarnation {
    let mut bytes = [0; 8];
    let filled = rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty());
    if filled == Ok(bytes.len()) {
        return Incarnation(u64::from_ne_bytes(bytes));
    }
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    let mixed = (now.tv_nsec as u64) << 32 ^ (now.tv_sec as u64) ^ (u64::from(std::process::id()) << 40);
    Incarnation(mixed)
}

/// The process at the other end of a link, as errors and people speak of it.
#[derive(Clone, PartialEq, Eq)]
pub struct Peer(Arc<PeerFacts>);

#[derive(PartialEq, Eq)]
struct PeerFacts {
    intro: Introduction,
    address: String,
}

impl Peer {
    pub(crate) fn new(intro: Introduction, address: impl Into<String>) -> Self {
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
