//! Messages that agents carry, with agents as real processes that are killed and come back.
// Also outside test functions a test fails by panicking, and prints the seed that repeats it.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod agents;
mod carried;
#[path = "../../../outboard/tests/messenger/letters.rs"]
mod letters;
#[path = "../../../outboard/tests/messenger/team.rs"]
mod team;
