//! What a link must provide so that every check can run on it.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use outboard_link::{Clock, ConnectError, Exports, Identity, Link, RemoteMemory};
use outboard_wire::{FrameHeader, HANDSHAKE_LEN, Role, Time, Versions};

/// The side that connects, by the name that the other side's errors give it.
pub(crate) const ADA: &str = "ada";
/// The side that accepts.
pub(crate) const BEN: &str = "ben";

/// What the two sides of a link start with.
#[derive(Clone)]
pub(crate) struct Sides {
    /// What the connecting side exports.
    pub(crate) ada: Arc<Exports>,
    /// What the accepting side exports.
    pub(crate) ben: Arc<Exports>,
    /// What each speaks.
    pub(crate) versions: [Versions; 2],
}

impl Default for Sides {
    fn default() -> Self {
        Self::speaking(Versions::OURS, Versions::OURS)
    }
}

impl Sides {
    /// Builds of these versions, with nothing to export.
    pub(crate) fn speaking(ada: Versions, ben: Versions) -> Self {
        Self { ada: Exports::new(), ben: Exports::new(), versions: [ada, ben] }
    }

    pub(crate) fn ada(&self) -> Identity {
        Identity { versions: self.versions[0], ..Identity::new(Role::Tool, ADA) }
    }

    pub(crate) fn ben(&self) -> Identity {
        Identity { versions: self.versions[1], ..Identity::new(Role::Tool, BEN) }
    }
}

/// What came of a handshake, on the connecting and on the accepting side.
pub(crate) type Met<L> = (Result<L, ConnectError>, Result<L, ConnectError>);

/// A link and everything that its checks need to reach.
pub(crate) trait Fixture: 'static {
    type Link: Link + RemoteMemory + Send + 'static;
    type Vandal: Vandal;

    /// Why this link cannot be tried on this machine, if so.
    fn missing() -> Option<String> {
        None
    }

    /// How many fresh links a check may make that wants as many as it can get.
    const LINKS: u64 = 300;

    /// Whether it is set up as it has to be for words to stay whole.
    const KEEPS_WORDS: bool = true;

    /// A handshake. If the connecting side says these bytes in place of its hello, and has to say more to be heard out, it
    /// hangs up instead.
    fn meet(sides: &Sides, hello: Option<&[u8; HANDSHAKE_LEN]>) -> Met<Self::Link>;

    /// A fresh link: the connecting side, then the accepting side.
    fn pair(sides: &Sides) -> (Self::Link, Self::Link) {
        let (ada, ben) = Self::meet(sides, None);
        (ada.unwrap(), ben.unwrap())
    }

    /// A link whose peer did the handshake as it should and now does as it likes.
    fn vandal(sides: &Sides) -> (Self::Link, Self::Vandal);

    /// The time that the link lives in.
    fn clock() -> TestClock;
}

/// A peer that writes what it likes wherever it can.
pub(crate) trait Vandal {
    /// Does some damage.
    fn scribble(&mut self, random: &mut fastrand::Rng);

    /// Sends a frame with this header, where the victim looks for frames.
    fn send_frame(&mut self, header: FrameHeader, payload: &[u8]);

    /// Sends a message with this header, where the victim looks for what concerns the link itself.
    fn send_message(&mut self, header: FrameHeader, payload: &[u8]);

    /// Lets the transport move what was written, where it needs help.
    fn progress(&mut self, _now: Time) {}
}

/// Where the checks get the time from.
#[derive(Clone)]
pub(crate) enum TestClock {
    Real(Clock),
    /// Each look at it lets this much time pass.
    Virtual {
        now: Cell<Time>,
        step: Duration,
    },
}

impl TestClock {
    pub(crate) fn real() -> Self {
        Self::Real(Clock::start())
    }

    pub(crate) fn virtual_with_step(step: Duration) -> Self {
        Self::Virtual { now: Cell::new(Time::ZERO), step }
    }

    pub(crate) fn now(&self) -> Time {
        match self {
            Self::Real(clock) => clock.now(),
            Self::Virtual { now, step } => {
                now.set(now.get() + *step);
                now.get()
            }
        }
    }
}

/// A header and its payload as they travel.
pub(crate) fn record(header: FrameHeader, payload: &[u8]) -> Vec<u8> {
    let mut bytes = header.to_words().map(u64::to_le_bytes).concat();
    bytes.extend_from_slice(payload);
    bytes
}
