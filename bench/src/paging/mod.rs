//! What does a page fault cost, and what does the machine itself make it cost?
//!
//! The yardsticks are loops that do the least that a correct fault path must do, on the same kind of memory, in the
//! same run.

mod bare;
mod cores;
mod far;
mod in_flight;
mod touches;

use bare::{BareFaults, BareFetches, OwnFaults};
use cores::best_placed;
use far::{FarFaults, User};
use in_flight::LinkReads;
#[cfg(test)]
pub(crate) use touches::{Touches, word};

use crate::daemons::{Host, HostSpec};
use crate::harness::{BenchReport, Duel, Effort, Environment, Figure, Progress, Side, Unit};
use crate::raw::{Shape, Traffic};
use crate::{BenchError, BenchOptions};

/// The region is larger than any cache, and so is what of it is resident.
fn footprint(effort: Effort) -> usize {
    match effort {
        Effort::Tiny => 6 << 20,
        Effort::Quick | Effort::Full => 192 << 20,
    }
}

const KIB_512: usize = 1 << 19;
const KIB_64: usize = 1 << 16;
const KIB_4: usize = 1 << 12;

/// Accesses in a round, of which two thirds fault.
fn touches(effort: Effort) -> u64 {
    const USUAL: u64 = 750;
    // So many that some of them fault for certain.
    effort.items(USUAL).max(64)
}
/// Fetches in a round.
const FETCHES: u64 = 300;

/// What it takes to answer a question.
struct Bench<'a> {
    name: &'a str,
    effort: Effort,
    progress: &'a Progress,
    host: Host,
}

/// One thing to find out.
struct Question {
    name: &'static str,
    ask: fn(Bench<'_>) -> Result<Figure, BenchError>,
}

const BARE: &str = "bare loop that moves pages and recycles frames, with as large a buffer";
const BARE_SAVING: &str = "the same bare loop with write-back";

const QUESTIONS: &[Question] = &[
    Question {
        name: "paging.fault_64KiB.shm.readonly.p50",
        ask: |bench| faults(bench, KIB_64, false, Traffic::Loads, BARE),
    },
    Question {
        name: "paging.fault_64KiB.shm.writable_read.p50",
        ask: |bench| faults(bench, KIB_64, true, Traffic::Loads, BARE),
    },
    Question {
        name: "paging.fault_64KiB.shm.write.p50",
        ask: |bench| faults(bench, KIB_64, true, Traffic::Stores, BARE_SAVING),
    },
    Question { name: "paging.fault_64KiB.tcp.readonly.p50", ask: faults_by_tcp },
    Question {
        name: "paging.fault_4KiB.shm.readonly.p50",
        ask: |bench| faults(bench, KIB_4, false, Traffic::Loads, BARE),
    },
    Question {
        name: "paging.fault_4KiB.shm.unbound.p50",
        ask: |bench| faults_unbound(bench, KIB_4, User::Usual),
    },
    Question {
        name: "paging.fault_64KiB.shm.unbound.p50",
        ask: |bench| faults_unbound(bench, KIB_64, User::Usual),
    },
    Question {
        name: "paging.fault_4KiB.shm.unbound.by_threads.p50",
        ask: |bench| faults_unbound(bench, KIB_4, User::WithSystemCalls),
    },
    Question {
        name: "paging.fault_64KiB.shm.unbound.by_threads.p50",
        ask: |bench| faults_unbound(bench, KIB_64, User::WithSystemCalls),
    },
    Question { name: "paging.scan.tcp.bandwidth", ask: |bench| scans(bench, KIB_512) },
    Question { name: "paging.scan.tcp.bandwidth.64KiB", ask: |bench| scans(bench, KIB_64) },
    Question { name: "paging.faults.4threads.rate", ask: many_threads },
    Question { name: "paging.faults.8threads.rate", ask: eight_threads },
];

/// Asks all questions.
pub(crate) fn run(options: &BenchOptions) -> Result<BenchReport, BenchError> {
    let cores_allowed = std::thread::available_parallelism().map_or(1, usize::from);
    // Not pinned: neither are applications and the threads that answer their faults.
    let environment = Environment::survey(options.effort, cores_allowed, Vec::new());
    let mut progress = Progress::new(options.effort, QUESTIONS.len());
    let mut figures = Vec::new();
    for question in QUESTIONS {
        progress.begin(question.name);
        let host = Host::start(&options.peer, &HostSpec::Memory { data_dir: None, workers: None })?;
        let bench = Bench { name: question.name, effort: options.effort, progress: &progress, host };
        figures.push((question.ask)(bench)?);
        progress.end();
    }
    Ok(BenchReport { bench: "paging", figures, environment })
}

fn faults(
    bench: Bench<'_>,
    chunk_len: usize,
    writable: bool,
    traffic: Traffic,
    versus: &str,
) -> Result<Figure, BenchError> {
    let Bench { name, effort, progress, host } = bench;
    let shape = Shape::third(footprint(effort), chunk_len);
    let mut far = FarFaults::start(&host.local, shape, writable, User::WithSystemCalls)?;
    let mut bare = BareFaults::start(shape, traffic)?;
    let duel = Duel::run(effort, progress, |side| match side {
        Side::Ours => best_placed(&[host.pid()], || far.round(traffic, touches(effort))),
        Side::Yardstick => best_placed(&[], || bare.round(touches(effort))),
    })?;
    Ok(duel.figure(name, Unit::Nanoseconds, 1.0, versus))
}

/// As a user's program runs: threads are where the scheduler puts them. The bare ways are placed as suits them best.
fn faults_unbound(bench: Bench<'_>, chunk_len: usize, user: User) -> Result<Figure, BenchError> {
    let Bench { name, effort, progress, host } = bench;
    let shape = Shape::third(footprint(effort), chunk_len);
    let mut far = FarFaults::start(&host.local, shape, false, user)?;
    let mut bare = BareFaults::start(shape, Traffic::Loads)?;
    let mut own = OwnFaults::start(shape)?;
    let duel = Duel::run(effort, progress, |side| match side {
        Side::Ours => far.round(Traffic::Loads, touches(effort)),
        Side::Yardstick => {
            let thread = best_placed(&[], || bare.round(touches(effort)))?;
            let own = own.round(touches(effort))?;
            Ok(if own.score <= thread.score { own } else { thread })
        }
    })?;
    let versus =
        "the cheapest bare way: a thread, placed best, or a handler of SIGBUS in the thread that faults";
    Ok(duel.figure(name, Unit::Nanoseconds, 1.0, versus))
}

/// A fault and a fetch: what a fault path over TCP cannot do without.
fn faults_by_tcp(bench: Bench<'_>) -> Result<Figure, BenchError> {
    let Bench { name, effort, progress, host } = bench;
    let shape = Shape::third(footprint(effort), KIB_64);
    let mut far = FarFaults::start(&host.remote, shape, false, User::WithSystemCalls)?;
    let (mut bare, mut fetches) = (BareFaults::start(shape, Traffic::Loads)?, BareFetches::start(KIB_64)?);
    let duel = Duel::run(effort, progress, |side| match side {
        Side::Ours => best_placed(&[host.pid()], || far.round(Traffic::Loads, touches(effort))),
        Side::Yardstick => {
            let fault = best_placed(&[], || bare.round(touches(effort)))?;
            Ok(fault.then(best_placed(&[], || fetches.round(effort.items(FETCHES)))?))
        }
    })?;
    let versus = "the bare loop and a bare socket's round trip of 64 KiB together";
    Ok(duel.figure(name, Unit::Nanoseconds, 1.0, versus))
}

/// A scan in chunks of the size that suits scans, and in usual ones.
fn scans(bench: Bench<'_>, chunk_len: usize) -> Result<Figure, BenchError> {
    let Bench { name, effort, progress, host } = bench;
    let shape = Shape::third(footprint(effort), chunk_len);
    let mut far = FarFaults::start(&host.remote, shape, false, User::WithSystemCalls)?;
    let mut bare = BareFetches::start(KIB_64)?;
    let pieces = (shape.footprint() / KIB_64) as u32;
    let duel = Duel::run(effort, progress, |side| match side {
        Side::Ours => far.scan_round(),
        Side::Yardstick => bare.stream_round(pieces),
    })?;
    let kib = chunk_len >> 10;
    let versus = format!("bare socket stream of as many bytes, each word read; ours in chunks of {kib} KiB");
    Ok(duel.figure(name, Unit::BytesPerSecond, 1.0, &versus))
}

fn many_threads(bench: Bench<'_>) -> Result<Figure, BenchError> {
    let Bench { name, effort, progress, host } = bench;
    let shape = Shape::third(footprint(effort), KIB_64);
    let mut far = FarFaults::start(&host.local, shape, false, User::WithSystemCalls)?;
    let touches = 4 * touches(effort);
    let duel = Duel::run(effort, progress, |side| match side {
        Side::Ours => far.rate_round(4, touches / 4),
        Side::Yardstick => far.rate_round(1, touches),
    })?;
    Ok(duel.figure(name, Unit::FaultsPerSecond, 1.0, "the same far memory with one thread"))
}

/// As many faults at once as the link has reads under way.
fn eight_threads(bench: Bench<'_>) -> Result<Figure, BenchError> {
    const THREADS: u64 = 8;
    let Bench { name, effort, progress, host } = bench;
    let shape = Shape::third(footprint(effort), KIB_64);
    let mut far = FarFaults::start(&host.remote, shape, false, User::WithSystemCalls)?;
    let mut link = LinkReads::start(&host.remote, far.name(), (KIB_64, THREADS as usize))?;
    let touches = THREADS * touches(effort);
    let duel = Duel::run(effort, progress, |side| match side {
        Side::Ours => far.rate_round(THREADS, touches / THREADS),
        Side::Yardstick => link.round(touches),
    })?;
    let versus = "reads of 64 KiB over the same kind of link (TCP), 8 under way, without far memory";
    Ok(duel.figure(name, Unit::FaultsPerSecond, 1.0, versus))
}
