//! A small model of an RDMA NIC whose translation cache can miss, for writers that choose their path.
//!
//! It answers one question: how long do writes take by each path, given which pages were written before? Everything
//! else about NICs is left out. The [`WriteSequencer`](outboard_writing::WriteSequencer) that runs on it is the one that runs over real
//! links; it sees completions and nothing else. What the numbers are and where they come from is in
//! [`Parameters`]. A [clairvoyant](Steerer::Clairvoyant) policy, which looks into the cache and knows how often every
//! page will be written, bounds what any policy could reach.

mod cache;
mod clairvoyant;
mod hardware;
mod parameters;
mod play;
#[cfg(test)]
mod tests;
mod workload;
mod zipf;

pub use parameters::Parameters;
pub use play::{NicOutcome, Plan, Steerer, play};
pub use workload::Workload;
