//! Ranks as threads of one process, or as processes, connected as those of a job are.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and seeds are printed"
)]

mod all_to_all;
mod bundles;
mod failures;
mod kill;
mod letters;
mod processes;
mod report;
mod requests;
mod spaces;
mod team;

outboard_child::instead_of_tests!(processes::act_as_told);
