//! Does choosing the path of each write pay, and what does choosing cost?
//!
//! Hardware with a translation cache is not at hand, so most figures come from the model in `outboard_sim::nic`, in
//! virtual time: they are the same on every machine. The others are writes over shared memory to a real memory server.
//! Figures named `A_over_B` are gains: above 1 when A is faster.

mod bare;
mod decision;
mod model;
mod plays;
mod plot;
mod shm;

use crate::harness::{Environment, Report};
use crate::{BenchError, Options};

/// Runs everything.
pub(crate) fn run(options: &Options) -> Result<Report, BenchError> {
    let mut figures = model::figures(options.effort);
    figures.extend(decision::figures(options.effort));
    figures.extend(shm::figures(options)?);
    if let Some(file) = &options.plot {
        let picture = plot::picture(options.effort);
        std::fs::write(file, picture)
            .map_err(|source| BenchError::Plot { file: file.display().to_string(), source })?;
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let environment = Environment::survey(options.effort, cores, Vec::new());
    Ok(Report { bench: "writing", figures, environment })
}
