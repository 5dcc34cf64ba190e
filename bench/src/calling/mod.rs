//! What calls of functions cost, beside the same work without eBPF, and beside memcached.

mod bad_input;
mod btree;
mod kv;
mod memcached;
mod mix;
mod native;
mod native_table;
mod overhead;
mod stage;
mod steer;

use self::stage::Stage;
use crate::harness::{BenchReport, Environment, Progress};
use crate::pair::Control;
use crate::{BenchError, BenchOptions};

const QUESTIONS: usize = kv::COUNT
    + btree::COUNT
    + memcached::COUNT
    + overhead::COUNT
    + mix::COUNT
    + bad_input::COUNT
    + steer::COUNT;

/// Asks all questions.
pub(crate) fn run(options: &BenchOptions) -> Result<BenchReport, BenchError> {
    let cores_allowed = std::thread::available_parallelism().map_or(1, usize::from);
    let mut stage = Stage::set(&options.peer)?;
    let pinned = stage.cores.chosen().to_vec();
    let mut environment = Environment::survey(options.effort, cores_allowed, pinned);
    let mut progress = Progress::new(options.effort, QUESTIONS);
    let mut figures = kv::figures(options, &mut stage, &mut progress)?;
    figures.push(btree::figure(options, &mut stage, &mut progress)?);
    match memcached::figures(options, &mut stage, &mut progress)? {
        Ok(beside) => figures.extend(beside),
        Err(why) => environment.notes.push(format!("nothing beside memcached: {why}")),
    }
    figures.push(overhead::figure(options, &mut stage, &mut progress)?);
    figures.extend(mix::figures(options, &mut stage, &mut progress)?);
    figures.push(bad_input::figure(options, &mut stage, &mut progress)?);
    figures.extend(steer::figures(options, &mut stage, &mut progress, &mut environment.notes)?);
    Ok(BenchReport { bench: "calling", figures, environment })
}

/// Asks the questions about steering alone.
pub(crate) fn run_steering(options: &BenchOptions) -> Result<BenchReport, BenchError> {
    let cores_allowed = std::thread::available_parallelism().map_or(1, usize::from);
    let mut stage = Stage::set(&options.peer)?;
    let pinned = stage.cores.chosen().to_vec();
    let mut environment = Environment::survey(options.effort, cores_allowed, pinned);
    let mut progress = Progress::new(options.effort, steer::COUNT);
    let figures = steer::figures(options, &mut stage, &mut progress, &mut environment.notes)?;
    Ok(BenchReport { bench: "steering", figures, environment })
}

/// The part of a yardstick or of a rival; `None` if something else is asked for.
pub(crate) fn serve(part: &str) -> Option<Result<(), BenchError>> {
    match part {
        native::PART => Some(Control::play(native::serve)),
        bad_input::PART => Some(Control::play(bad_input::serve)),
        steer::rival::PART => Some(Control::play(steer::rival::serve)),
        _ => None,
    }
}
