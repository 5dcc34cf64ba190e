//! What holds for every executor, tried on every executor.
// Also outside test functions a test fails by panicking.
#![allow(clippy::unwrap_used)]

mod big;
mod executors;
mod objects;
mod random;
mod rfc;
mod travel;
