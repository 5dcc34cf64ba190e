//! Links between two ends in one process, in virtual time and with seeded faults.
//!
//! A [`Network`] makes links that run the protocol of every link over a stream; in the place of a socket there is
//! a pipe that knows where records begin and end, and does to them what a [`FaultPlan`] says. Time is what the
//! callers of `progress` say it is: the network's time is the latest that anyone has named. One seed gives one
//! trace, as long as the links are driven in the same order.
//!
//! Faults break promises that links otherwise keep, on purpose. Frames that are dropped are not sent again, and
//! those that are duplicated arrive twice. A one-sided operation whose request or reply is lost ends the link after
//! four deadlines without other traffic, one whose message is duplicated ends it at once. A truncated record swallows the
//! beginning of what follows, so one frame may be handed out with a foreign end before the link breaks.
//!
//! The ends may live on different threads: a thread that sleeps until a link's next deadline is unparked when
//! something arrives.

mod config;
mod fault;
mod network;
mod pipe;
mod raw;
#[cfg(test)]
mod tests;
mod wire;

pub use config::LoopbackConfig;
pub use fault::{FaultCounts, FaultPlan};
pub use network::{LoopbackAccepting, LoopbackDialing, Network};
pub use raw::RawEnd;
pub use wire::LoopbackBytes;

/// One end of a link within a process.
pub type LoopbackLink = crate::stream::StreamLink<LoopbackBytes>;
