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

use crate::harness::{BenchReport, Environment};
use crate::{BenchError, BenchOptions};

/// Runs everything.
pub(crate) fn run(options: &BenchOptions) -> Result<BenchReport, BenchError> {
    let mut figures = model::figures(options.effort);
    figures.extend(decision::figures(options.effort));
    figures.extend(shm::figures(options)?);
    if let Some(file) = &options.plot {
        let picture = plot::picture(options.effort);
        std::fs::write(file, picture)
            .map_err(|source| BenchError::Plot { file: file.display().to_string(), source })?;
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut environment = Environment::survey(options.effort, cores, Vec::new());
    environment.notes.extend(small_pages());
    Ok(BenchReport { bench: "writing", figures, environment })
}

const SHARED_HUGE_PAGES: &str = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";

/// Says so if mappings of shared memory have small pages, so that offloading misses the TLB more often than it might.
fn small_pages() -> Option<String> {
    let modes = std::fs::read_to_string(SHARED_HUGE_PAGES).unwrap_or_default();
    small_pages_by(&modes)
}

/// The same by what the kernel says: all modes, with that which is set in brackets.
fn small_pages_by(modes: &str) -> Option<String> {
    let set = modes.split_whitespace().find_map(|mode| mode.strip_prefix('[')?.strip_suffix(']'));
    let set = set.unwrap_or("unknown");
    let is_huge = ["always", "within_size", "force"].contains(&set);
    (!is_huge).then(|| {
        format!(
            "offloading over shm had no 2 MiB pages: shared memory gets them where {SHARED_HUGE_PAGES} is always, and \
             here it is {set}"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_of_figures_is_told_of_small_pages() {
        assert_eq!(small_pages_by("[always] within_size advise never deny force\n"), None);
        let told = small_pages_by("always within_size advise [never] deny force\n").unwrap();
        assert!(told.ends_with("it is never"), "{told}");
        assert!(small_pages_by("").unwrap().ends_with("it is unknown"));
    }
}
