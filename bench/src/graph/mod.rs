//! What do graph applications lose in far memory, and what do they gain over files mapped into memory?

mod figures;
mod gap;
mod mapped;
mod plot;
mod stage;
mod task;

use stage::Stage;

use outboard_measure::bar;

use crate::harness::{BenchReport, Effort, Environment};
use crate::pair::Control;
use crate::{BenchError, BenchOptions};

/// How large the graph is, as a power of two of vertices, how often ranks are computed, how often all is done, and how much
/// memory a run may at least need more than another one like it.
struct Extent {
    scale: u32,
    iterations: u32,
    rounds: usize,
    spare_min: u64,
}

impl Extent {
    fn of(effort: Effort) -> Self {
        match effort {
            // The smaller a run is, the more of its memory is a matter of chance.
            Effort::Tiny => Self { scale: 13, iterations: 2, rounds: 1, spare_min: 32 << 20 },
            Effort::Quick => Self { scale: 19, iterations: 10, rounds: 1, spare_min: 0 },
            Effort::Full => Self { scale: 20, iterations: 10, rounds: 5, spare_min: 0 },
        }
    }
}

/// Runs every application in every place.
pub(crate) fn run(options: &BenchOptions) -> Result<BenchReport, BenchError> {
    let cores_allowed = std::thread::available_parallelism().map_or(1, usize::from);
    let mut environment = Environment::survey(options.effort, cores_allowed, Vec::new());
    let extent = Extent::of(options.effort);
    let mut stage = Stage::build(options, extent.scale, extent.iterations)?;
    stage.spare_min = extent.spare_min;
    let bar = bar(figures::STEPS * extent.rounds as u64);
    let (figures, rows) = figures::all(&stage, extent.rounds, &bar)?;
    bar.finish_and_clear();
    if options.gap.is_none() {
        let why = "skipped: graph.APP.dram_over_gap: GAP's source is not packaged; clone https://github.com/sbeamer/gapbs, and give \
                   the folder with --gap";
        environment.notes.push(why.to_owned());
    }
    if let Some(file) = &options.plot {
        std::fs::write(file, plot::picture(&rows))
            .map_err(|source| BenchError::Plot { file: file.display().to_string(), source })?;
    }
    Ok(BenchReport { bench: "graph", figures, environment })
}

/// An application's part; `None` if something else is asked for.
pub(crate) fn serve(part: &str) -> Option<Result<(), BenchError>> {
    (part == task::PART).then(|| Control::play(task::serve))
}
