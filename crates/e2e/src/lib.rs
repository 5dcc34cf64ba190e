//! The harness of the end-to-end tests: it finds the program `outboard`, starts daemons and other processes, and waits for
//! them, never without a limit. It tests nothing itself.
//!
//! The tests are in `tests`, in a folder for each service and one for each other subject; every folder is a program of tests.
//! `cargo xtask test calling` builds `outboard` and runs the tests of one service.
// A harness fails by panicking, and tells the person who runs the tests why something is skipped or how it is repeated.
#![allow(clippy::print_stdout)]

mod daemon;
mod folder;
mod group;
mod place;
mod process;
mod program;
mod random;

pub use daemon::{Daemon, await_state, connect, connect_memory};
pub use folder::{Folder, socket, socket_exists, unique};
pub use group::Group;
pub use place::Place;
pub use process::{Ended, PATIENCE, Parts, Process, await_end};
pub use program::{beside_tests, outboard, program, run_outboard, without_settings};
pub use random::{Random, seed};
