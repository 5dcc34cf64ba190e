//! The daemons and the jobs that the program starts, as real processes.
// Also outside test functions a test fails by panicking, and one that is skipped says why.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod agent;
mod characterize;
mod config;
mod deaf;
mod demo;
mod limits;
mod memory;
mod run;
mod status;
mod terminal;
mod texts;
mod up;
