//! The agent's side: the page cache that all its threads share, on the links that each of them has.
//!
//! ```text
//!  application            one worker thread of the agent                          memory server
//!  Fetch ───────────────► fetch.rs: attached? ─► PageCache (locked for a look-up)
//!                           hit: answer queued        miss: orders into the lane of this worker's link
//!  ◄─ Fetched + bytes ──── client.rs: copied          server.rs: one-sided reads ──────────────────► region
//!                           straight out of the cache  ◄────────────── straight into the cache ────
//!  WriteBack + bytes ────► write_back.rs: cache brought up to date, bytes staged
//!                                                     server.rs: combined ─────────── WriteBack ───►
//!  ◄─ Written ──────────── client.rs                  ◄───────────────────────────── Written ──────
//! ```
//!
//! Every worker has a link of its own to every memory server, so a request never crosses threads. If the bytes that
//! a request waits for are on their way to another worker, that one tells of their arrival.
//!
//! Memory, the time within a turn and regions for static copies are given by the owner: see [`Surroundings`].

mod attach;
pub mod cache;
mod client;
mod fetch;
mod report;
mod server;
mod shared;
mod statics;
mod worker;
mod write_back;

pub use report::{PagingReport, RegionReport};
pub use server::STAGE_LEN;
pub use shared::{AgentPagingConfig, Lent, SharedPaging, Surroundings};
pub use worker::PagingWorker;
