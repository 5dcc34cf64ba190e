//! Jobs that a program describes itself, whose ranks nothing of ours has started.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking; a rank speaks to its test"
)]

mod processes;
mod threads;

outboard_child::instead_of_tests!(processes::act_as_told);
