//! Measures what the links to daemons carry, and has what all measuring needs: efforts, units, the environment, pictures.
//!
//! It compares nothing and judges nothing: `bench` does, and `outboard characterize` draws conclusions that are said here.

#![deny(unsafe_code)]

mod bar;
mod bench_args;
pub mod characterize;
mod effort;
mod environment;
mod error;
mod samples;
mod svg;
mod unit;

pub use bar::bar;
pub use bench_args::{BENCHMARKS, BenchArgs};
pub use effort::Effort;
pub use environment::Environment;
pub use error::MeasureError;
pub use samples::percentile;
pub use svg::{Anchor, Svg};
pub use unit::{Better, Unit};
