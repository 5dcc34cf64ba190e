//! How much memory a loaded function takes.

use super::ours::{Function, program_of_object};
use super::{Bench, LOOKUP};
use crate::BenchError;
use crate::error::Named;
use crate::harness::{Figure, Unit};

/// Bytes of memory that this process has in use.
fn resident_bytes() -> Result<f64, BenchError> {
    let statm = std::fs::read_to_string("/proc/self/statm").named("reading /proc/self/statm")?;
    let pages: f64 = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0.0);
    Ok(pages * rustix::param::page_size() as f64)
}

pub(super) fn resident(bench: Bench<'_>) -> Result<Figure, BenchError> {
    let functions = bench.effort.items(1000) as usize;
    let load = || Function::compiled(program_of_object(LOOKUP)?, &[0; 80]);
    // What is allocated once, whatever is loaded, does not count.
    let first = load()?;
    let before = resident_bytes()?;
    let loaded = (0..functions).map(|_| load()).collect::<Result<Vec<_>, _>>()?;
    let each = (resident_bytes()? - before).max(0.0) / loaded.len() as f64;
    Ok(Figure::new(bench.name, Unit::Bytes, each, first.bytecode().len() as f64, "the instructions alone"))
}
