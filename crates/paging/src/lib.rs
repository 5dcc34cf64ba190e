//! Far memory: what happens to its chunks in the application, in the agent and in the memory server.
//! Links are given as traits and time as an argument: no sockets, no clocks, no threads.

#![forbid(unsafe_code)]

pub mod agent;
pub mod application;
mod frame;
pub mod server;

pub use frame::{is_paging, read_reply, read_request};
