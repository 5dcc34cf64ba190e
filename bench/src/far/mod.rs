//! What does a program lose whose memory is far, and what does it gain over swap?
//!
//! Every program runs as a user without privilege runs it, in a process of its own, and no thread is bound to a core. Where less than all of the
//! memory is here, rivals and far memory run in one memory cgroup, one after the other. Pages are small everywhere.

mod keeper;
mod programs;
mod replacement;
mod stage;
mod swap;
mod task;
mod work;

use std::time::{Duration, Instant};

use outboard_measure::bar;
use stage::{Case, Extent, Stage, Times};

use crate::harness::{BenchReport, Effort, Environment, Figure, Unit, percentile};
use crate::pair::Control;
use crate::{BenchError, BenchOptions};

const DRAM: &str = "the same program in plain memory, small pages";
const SWAP: &str =
    "the same program in a memory cgroup of that size, with a swap file on this machine's disk";
const ZRAM: &str = "the same program in a memory cgroup of that size, with swap on compressed memory (zram); the words do not compress";
const HAND_OVER: &str = "a handler of SIGBUS in the thread that faults, with data in local memory";

/// How long rounds go on that are to take a minute in all.
const QUICK: Duration = Duration::from_secs(25);

/// Runs all programs in all places.
pub(crate) fn run(options: &BenchOptions) -> Result<BenchReport, BenchError> {
    let cores_allowed = std::thread::available_parallelism().map_or(1, usize::from);
    let mut environment = Environment::survey(options.effort, cores_allowed, Vec::new());
    if let Some(file) = &options.play {
        let (figure, note) = replacement::played(file)?;
        environment.notes.push(note);
        return Ok(BenchReport { bench: "far", figures: vec![figure], environment });
    }
    let extent = Extent::of(options.effort);
    let (rounds, bytes) = (extent.rounds, extent.bytes);
    let bar = bar(rounds);
    let mut stage = Stage::build(options, extent)?;
    let mut times = Times::default();
    let began = Instant::now();
    for round in 0..rounds {
        // Where rounds take long, fewer must do.
        if round > 0 && options.effort == Effort::Quick && began.elapsed() > QUICK {
            environment.notes.push(format!("{round} rounds instead of {rounds}: they took long"));
            break;
        }
        stage.round(round, &mut times)?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    let figures = figures(&times, bytes);
    environment.notes.append(&mut stage.skipped);
    let huge = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    environment.notes.push(format!("transparent huge pages: {}; turned off for every program", huge.trim()));
    environment.notes.extend(figures.iter().map(|(figure, rates)| {
        let [low, high] = [0.0, 1.0].map(|at| figure.unit.show(percentile(&mut rates.clone(), at)));
        format!("{}: {} rounds from {low} to {high}", figure.name, rates.len())
    }));
    let mut figures: Vec<Figure> = figures.into_iter().map(|(figure, _)| figure).collect();
    let (saved, of_all) = (times.saved_of_fitting as f64, "the program's memory, all of which is here");
    figures.push(Figure::new("far.fits.written_back", Unit::Bytes, saved, bytes as f64, of_all));
    let (of_replacement, notes) = replacement::figures(options.effort);
    figures.extend(of_replacement);
    environment.notes.extend(notes);
    Ok(BenchReport { bench: "far", figures, environment })
}

fn median(rates: &[f64]) -> f64 {
    percentile(&mut rates.to_vec(), 0.5)
}

/// The figures with what each round brought.
fn figures(times: &Times, bytes: usize) -> Vec<(Figure, Vec<f64>)> {
    const WORD: f64 = 8.0;
    let page = rustix::param::page_size() as f64;
    let (operations, bandwidth) = (Unit::OperationsPerSecond, Unit::BytesPerSecond);
    let third = "far.random_4KiB.third.shm";
    let rows = [
        ("far.fits.random".to_owned(), operations, 1.0, Case::FitsRandom, Case::DramRandom, DRAM),
        ("far.fits.scan".to_owned(), bandwidth, WORD, Case::FitsScan, Case::DramScan, DRAM),
        ("far.first_touch".to_owned(), bandwidth, page, Case::FitsTouch, Case::DramTouch, DRAM),
        (third.to_owned(), operations, 1.0, Case::RandomShm, Case::RandomSwap, SWAP),
        (format!("{third}.over_zram"), operations, 1.0, Case::RandomShm, Case::RandomZram, ZRAM),
        (
            format!("{third}.over_hand_over"),
            operations,
            1.0,
            Case::RandomShm,
            Case::RandomHandOver,
            HAND_OVER,
        ),
        (
            format!("{third}.by_threads"),
            operations,
            1.0,
            Case::RandomThreads,
            Case::RandomHandOver,
            HAND_OVER,
        ),
        ("far.random_4KiB.third.tcp".to_owned(), operations, 1.0, Case::RandomTcp, Case::RandomSwap, SWAP),
        ("far.scan.third.shm".to_owned(), bandwidth, WORD, Case::ScanShm, Case::ScanSwap, SWAP),
        (
            "far.pagerank_like.third.over_swap".to_owned(),
            operations,
            1.0,
            Case::RanksShm,
            Case::RanksSwap,
            SWAP,
        ),
    ];
    let mut figures = Vec::new();
    for (name, unit, scale, ours, theirs, versus) in rows {
        let scaled = |case| times.rates(case).into_iter().map(|rate| rate * scale).collect::<Vec<_>>();
        let (ours, theirs) = (scaled(ours), scaled(theirs));
        // A rival that cannot be had leaves the figure to plain memory, which says so.
        let (theirs, versus) = match (theirs.is_empty(), name == third || name == "far.scan.third.shm") {
            (false, _) => (theirs, versus),
            (true, true) => {
                let plain = if name == third { Case::DramRandom } else { Case::DramScan };
                (scaled(plain), DRAM)
            }
            (true, false) => continue,
        };
        figures.push((speed(&name, unit, &ours, &theirs, versus), ours));
    }
    figures.push(near_fit(times));
    figures.push(ranks(times, bytes));
    figures
}

/// Rates beside each other: the median rounds, and the median of the ratios within the rounds.
fn speed(name: &str, unit: Unit, ours: &[f64], theirs: &[f64], versus: &str) -> Figure {
    let best = |rates: &[f64]| {
        rates.iter().copied().reduce(|one, other| unit.better().of(one, other)).unwrap_or(0.0)
    };
    let ratios: Vec<f64> = ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs).collect();
    let figure = Figure::new(name, unit, median(ours), median(theirs), versus);
    Figure { ratio: median(&ratios), ..figure.with_best(best(ours), best(theirs)) }
}

/// What can be expected where a tenth of the reads fault, by what a fault costs where two thirds do.
fn near_fit(times: &Times) -> (Figure, Vec<f64>) {
    let ours = times.rates(Case::NearFit);
    let pairs = times.rates(Case::DramRandom).into_iter().zip(times.rates(Case::RandomShm));
    let expected: Vec<f64> = pairs
        .map(|(dram, third)| {
            let (dram, third) = (1.0 / dram, 1.0 / third);
            let fault = (third - dram / 3.0) * 1.5;
            1.0 / (0.9 * dram + 0.1 * fault)
        })
        .collect();
    let versus = "what nine reads of memory and one fault make, as far.random_4KiB.third.shm has them";
    (speed("far.near_fit.random", Unit::OperationsPerSecond, &ours, &expected, versus), ours)
}

/// How long one pass over the edges takes.
fn ranks(times: &Times, bytes: usize) -> (Figure, Vec<f64>) {
    let pass = |case| -> Vec<f64> {
        let edges = work::edges(bytes / 8) as f64;
        times.rates(case).into_iter().map(|rate| edges / rate * 1e3).collect()
    };
    let (ours, dram) = (pass(Case::RanksShm), pass(Case::DramRanks));
    (speed("far.pagerank_like.third", Unit::Milliseconds, &ours, &dram, DRAM), ours)
}

/// A program's part, or that of who holds the swap; `None` if something else is asked for.
pub(crate) fn serve(part: &str) -> Option<Result<(), BenchError>> {
    match part {
        task::PART => Some(Control::play(task::serve)),
        keeper::PART => Some(keeper::serve()),
        _ => None,
    }
}
