//! What does a page fault cost, and what does the machine itself make it cost?
//!
//! The yardsticks are loops that do the least that a correct fault path must do, on the same kind of memory, in the
//! same run.

mod bare;
mod placement;
mod touches;

use bare::{BareCopies, BareFaults, BareFetches};
use placement::best_placed;
#[cfg(test)]
pub(crate) use touches::{Touches, word};

use crate::harness::{Duel, Effort, Environment, Figure, Progress, Report, Side, Unit};
use crate::raw::{Shape, Traffic};
use crate::{BenchError, Options};

/// The region is larger than any cache, and so is what of it is resident.
const FOOTPRINT: usize = 192 << 20;

const KIB_64: usize = 1 << 16;
const KIB_4: usize = 1 << 12;

/// Accesses in a round, of which two thirds fault.
const TOUCHES: u64 = 750;
/// Fetches and copies in a round.
const FETCHES: u64 = 300;
/// Chunks in a streamed round.
const STREAMED: u64 = 512;

const VERSUS: &str = "memcpy of as many bytes from random places of the same kind of memory";

/// One thing to find out.
struct Question {
    name: &'static str,
    ask: fn(&str, Effort, &Progress) -> Result<Figure, BenchError>,
}

const QUESTIONS: &[Question] = &[
    Question {
        name: "paging.bare.fault_64KiB.readonly.p50",
        ask: |name, effort, progress| faults(name, effort, progress, KIB_64, Traffic::Loads),
    },
    Question {
        name: "paging.bare.fault_64KiB.write.p50",
        ask: |name, effort, progress| faults(name, effort, progress, KIB_64, Traffic::Stores),
    },
    Question {
        name: "paging.bare.fault_4KiB.readonly.p50",
        ask: |name, effort, progress| faults(name, effort, progress, KIB_4, Traffic::Loads),
    },
    Question { name: "paging.bare.fault_64KiB.tcp.readonly.p50", ask: faults_by_tcp },
    Question { name: "paging.bare.fetch_64KiB.tcp.p50", ask: fetches },
    Question { name: "paging.bare.stream_64KiB.tcp.bandwidth", ask: streams },
];

/// Asks all questions.
pub(crate) fn run(options: &Options) -> Result<Report, BenchError> {
    let cores_allowed = std::thread::available_parallelism().map_or(1, usize::from);
    // Not pinned: neither are applications and the threads that answer their faults.
    let environment = Environment::survey(options.effort, cores_allowed, Vec::new());
    let mut progress = Progress::new(options.effort, QUESTIONS.len());
    let mut figures = Vec::new();
    for question in QUESTIONS {
        progress.begin(question.name);
        figures.push((question.ask)(question.name, options.effort, &progress)?);
        progress.end();
    }
    Ok(Report { bench: "paging", figures, environment })
}

fn faults(
    name: &str,
    effort: Effort,
    progress: &Progress,
    chunk_len: usize,
    traffic: Traffic,
) -> Result<Figure, BenchError> {
    let shape = Shape::third(FOOTPRINT, chunk_len);
    let (mut bare, mut copies) = (BareFaults::start(shape, traffic)?, BareCopies::start(shape)?);
    let duel = Duel::run(effort, progress, |side| match side {
        Side::Ours => best_placed(|| bare.round(effort.items(TOUCHES))),
        Side::Yardstick => copies.round(effort.items(FETCHES)),
    })?;
    Ok(duel.figure(name, Unit::Nanoseconds, 1.0, VERSUS))
}

/// A fault and a fetch: what a fault path over TCP cannot do without.
fn faults_by_tcp(name: &str, effort: Effort, progress: &Progress) -> Result<Figure, BenchError> {
    let shape = Shape::third(FOOTPRINT, KIB_64);
    let (mut bare, mut fetches) = (BareFaults::start(shape, Traffic::Loads)?, BareFetches::start(KIB_64)?);
    let mut copies = BareCopies::start(shape)?;
    let duel = Duel::run(effort, progress, |side| match side {
        Side::Ours => {
            let fault = best_placed(|| bare.round(effort.items(TOUCHES)))?;
            Ok(fault.then(best_placed(|| fetches.round(effort.items(FETCHES)))?))
        }
        Side::Yardstick => copies.round(effort.items(FETCHES)),
    })?;
    Ok(duel.figure(name, Unit::Nanoseconds, 1.0, VERSUS))
}

fn fetches(name: &str, effort: Effort, progress: &Progress) -> Result<Figure, BenchError> {
    let (mut bare, mut copies) =
        (BareFetches::start(KIB_64)?, BareCopies::start(Shape::third(FOOTPRINT, KIB_64))?);
    let duel = Duel::run(effort, progress, |side| match side {
        Side::Ours => best_placed(|| bare.round(effort.items(FETCHES))),
        Side::Yardstick => copies.round(effort.items(FETCHES)),
    })?;
    Ok(duel.figure(name, Unit::Nanoseconds, 1.0, VERSUS))
}

fn streams(name: &str, effort: Effort, progress: &Progress) -> Result<Figure, BenchError> {
    let (mut bare, mut copies) =
        (BareFetches::start(KIB_64)?, BareCopies::start(Shape::third(FOOTPRINT, KIB_64))?);
    let duel = Duel::run(effort, progress, |side| match side {
        Side::Ours => bare.stream_round(effort.items(STREAMED) as u32),
        Side::Yardstick => copies.round(effort.items(FETCHES)).map(|round| round.rate_of(KIB_64)),
    })?;
    Ok(duel.figure(name, Unit::BytesPerSecond, 1.0, VERSUS))
}
