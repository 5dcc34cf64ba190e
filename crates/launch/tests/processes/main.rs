//! Real processes, mostly shell scripts: started, shown, ended.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test fails by panicking, and a child shows what it is told to"
)]

mod daemon;
mod job;
mod launcher;
mod output;
mod support;

outboard_child::instead_of_tests!(launcher::play);
