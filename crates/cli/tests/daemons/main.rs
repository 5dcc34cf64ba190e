//! The daemons and the jobs that the program starts, as real processes.
// Also outside test functions a test fails by panicking.
#![allow(clippy::unwrap_used)]

mod agent;
mod characterize;
mod config;
mod demo;
mod memory;
mod run;
mod status;
mod support;
mod texts;
mod up;
