//! Runs the same state machines on simulated links and virtual time, from one seed.
//!
//! It simulates no hardware and measures nothing: it looks for runs in which a promise is broken, and replays
//! them. A [`World`] holds nodes that run a [`Service`](outboard_driver::Service), the trait that worker threads
//! run over real links, and loopback links between them that lose, repeat, cut and delay what the seed says. Nodes
//! crash, pause and come back. A [`Scenario`] puts machines into a world and states what they promise; everything
//! that happens goes through a [`Recorder`], whose digest is the same whenever the seed is.
//!
//! To add a machine: write it as a `Service`, a scenario with a checker beside it, and a test in which a machine
//! that is wrong on purpose makes the checker fail.

#![forbid(unsafe_code)]

mod calling;
mod daemons;
mod digest;
mod either;
mod memory;
pub mod nic;
mod pager;
mod paging_cache;
mod recorder;
mod routing;
mod run;
mod silence;
mod steering;
mod weather;
mod world;
mod writing;
#[cfg(test)]
mod wrong;

pub use digest::{Digest, chances};
pub use either::Either;
pub use recorder::{Broken, FACTS_MAX, Fact, RecordedEvent, Recorder};
pub use routing::{BundleStudy, bundle_study};
pub use run::{RunReport, Scenario};
pub use weather::{LossKind, Weather};
pub use world::{Boot, Hardships, LINK_DEADLINE, NodeId, NodeSpec, World, other_end};

/// Every scenario, in the order in which they are played.
pub const SCENARIOS: &[Scenario] = &[
    memory::SCENARIO,
    daemons::SCENARIO,
    steering::SCENARIO,
    paging_cache::SCENARIO,
    pager::SCENARIO,
    routing::SCENARIO,
    calling::SCENARIO,
    writing::SCENARIO,
];
