//! Far memory through an agent, with real daemons and links.
// Also outside test functions a test fails by panicking.
#![allow(clippy::unwrap_used)]

mod attaching;
mod fetching;
mod losing;
mod random;
mod statics;
mod support;
mod writing;
