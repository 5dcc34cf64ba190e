//! Decides what happens to chunks of far memory: the pager in the application, the cache in the agent.
//! State machines only: no I/O, no clocks, no memory of their own; the rooms above move the bytes.

#![forbid(unsafe_code)]

pub mod cache;
pub mod pager;
