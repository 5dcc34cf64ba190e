//! Any link, slowed down to a given bandwidth and latency, so that a slow wire or a DPU across PCIe can be tried
//! on one machine.
//!
//! A wrapped side shapes what *it* sends. A frame is handed to the link beneath when the last of its bytes would
//! have come out at the far end of the wire:
//!
//! ```text
//! released = max(now, the wire is free) + (header + payload) / bandwidth + latency
//! ```
//!
//! Wrap both sides to make both directions slow. One-sided operations never pass through the other side's
//! wrapper, so the side that begins one pays for both trips: the request travels like a frame, in line with the frames,
//! and the completion comes back after the latency and the time its data take. The way back is a wire of its own:
//! replies do not compete with frames that the peer sends.
//!
//! # Caveats
//! - Time is what [`Link::progress`](crate::Link::progress) was last told, so that it can be virtual. A batch is
//!   put on the wire by the first `progress` after its `flush`; a link that is not progressed stands still.
//! - A waiter that sleeps adds what the kernel's timers add, some 50 µs. Spin to see a latency below that.
//! - The heartbeats and the goodbye of the link beneath are not shaped, and neither is what it pays itself: shape
//!   to something slower than it is.
//! - [`close`](crate::Link::close) does not wait for the wire: it hands everything that was flushed to the link
//!   beneath at once. If that has no room, further calls of `progress` hand over the rest and then the goodbye,
//!   until [`Shaped::queued`] is zero. What is on the wire when the link is dropped is lost, as if the wire were
//!   cut.

mod link;
mod operations;
mod pace;
mod queue;
mod remote;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;
mod wire;

pub use link::Shaped;
pub use wire::{Bandwidth, Wire, WireError};
