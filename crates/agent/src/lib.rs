//! The daemons that a user starts: the memory server and the agent, with their control plane and what they count.
//!
//! It does not move pages, messages, calls or writes: the rooms do, and plug in here.

#![forbid(unsafe_code)]

mod agent_service;
mod counts;
mod daemon;
mod echo;
mod files;
mod memory_service;
mod metrics;
mod paging;
mod status;
mod store;

pub use daemon::{Daemon, StartError};
pub use paging::{PagingConfig, PagingWorker, SharedPaging};
pub use status::{Gauge, Lines, STATUS_GRANT, STATUS_LEN, StatusError, StatusPage, StatusView};
pub use store::{Parting, RegionStore, StoreConfig};
