//! The identity of this process.

use outboard_wire::{Auth, Hello, Incarnation, Introduction, JobId, Rank, Role, StoreId, Text, Versions};

/// The words by which this process introduces itself on every link.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The kind of process that it is.
    pub role: Role,
    /// The name people know it by; the first 32 bytes travel.
    pub name: String,
    /// The job it belongs to.
    pub job: JobId,
    /// Its number in the job.
    pub rank: Rank,
    /// Drawn at random; the same on all links of one process.
    pub incarnation: Incarnation,
    /// Which versions of the protocol it speaks: those of its build. A process that says less is spoken with as one of an
    /// older release.
    pub versions: Versions,
    /// The store that it has and keeps over its restarts, if it is a memory server that does so.
    pub store: StoreId,
}

impl Identity {
    /// A process outside any job, with an incarnation drawn from the kernel's random numbers.
    pub fn new(role: Role, name: impl Into<String>) -> Self {
        Self {
            role,
            name: name.into(),
            job: JobId(0),
            rank: Rank(0),
            incarnation: draw_incarnation(),
            versions: Versions::OURS,
            store: StoreId::NONE,
        }
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
            store: self.store,
        }
    }

    /// The hello that a connecting side sends.
    pub(crate) fn hello(&self, max_payload: u32) -> Hello {
        Hello { versions: self.versions, intro: self.introduction(max_payload) }
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
