//! The program as people and scripts use it: applications, graphs, functions, keys, and jobs that it or others start.
// Also outside test functions a test fails by panicking, and one that is skipped says why.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod advise;
mod app;
mod bpf;
mod doctor;
mod graph;
mod graph_run;
mod hosts;
mod keys;
mod launchers;
mod node_agent;
