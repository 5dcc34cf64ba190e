//! Frames and memory between two processes of one node.
//!
//! The accepting side makes one sealed memory segment with a ring for each direction and hands it over a Unix
//! socket. Frames go through the rings; the socket carries doorbells for a side that sleeps, openings of regions
//! with their descriptors, and, by closing, the news that a process has died. None of it has a name in a file
//! system unless the address is a path, so a killed process leaves nothing behind.
//!
//! A side that is alive but stopped is not told from one that is busy: waits have limits of their own.

mod access;
mod channel;
mod config;
mod dial;
mod disposal;
mod link;
mod listener;
mod messages;
#[doc(hidden)]
pub mod raw;
mod regions;
mod rings;
mod setup;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;

pub use config::{ShmConfig, Users};
pub use dial::{ShmDialing, connect};
pub use link::ShmLink;
pub use listener::{ShmAccepting, ShmListener};
