//! What holds for every executor, tried on every executor.

mod executors;
mod rfc;
