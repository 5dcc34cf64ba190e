//! What does it cost to keep regions over restarts, and how soon is a server back that was killed?
//!
//! The server is a process of its own. No process is bound to a core: a user's are not either.

mod restart;
mod stage;
mod write_back;

use crate::harness::{BenchReport, Environment, Progress};
use crate::{BenchError, BenchOptions};

/// Asks both questions.
pub(crate) fn run(options: &BenchOptions) -> Result<BenchReport, BenchError> {
    let cores_allowed = std::thread::available_parallelism().map_or(1, usize::from);
    let environment = Environment::survey(options.effort, cores_allowed, Vec::new());
    let mut progress = Progress::new(options.effort, 2);
    progress.begin("protection.restart_ms");
    let mut figures = vec![restart::ask(options, &progress)?];
    progress.end();
    progress.begin("protection.keep.write_back");
    figures.extend(write_back::ask(options, &progress)?);
    progress.end();
    Ok(BenchReport { bench: "protection", figures, environment })
}
