//! The daemons that a user starts: the memory server and the agent, with their control plane and what they count.
//!
//! What happens to pages and messages is decided in their rooms; here are the daemons' threads that do it.

#![forbid(unsafe_code)]

mod agent_service;
mod attendance;
mod calling;
mod counts;
mod daemon;
mod echo;
mod errors;
mod files;
mod keep;
mod memory_service;
mod memory_watch;
mod metrics;
mod paging;
mod room;
mod routing;
mod status;
mod store;
mod threads;
mod watchdog;
mod writing;

pub use daemon::{Daemon, StartError, StopError};
pub use keep::KeepError;
pub use status::{Gauge, Lines, STATUS_GRANT, STATUS_LEN, StatusError, StatusPage, StatusView};
pub use store::{Gate, Parting, RegionStore, StoreConfig};
