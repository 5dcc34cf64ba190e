//! What small messages between ranks cost, and what the memory system would allow.

mod agents;
mod alltoallv;
mod apps;
mod bare;
mod nodes;
mod part;
mod seat;
mod sweep;
mod tables;
mod team;
mod updates;

use self::alltoallv::Alltoallv;
pub(crate) use self::apps::Company;
use self::part::Work;
use self::tables::SMALL;
use self::team::Team;
use self::updates::Seeds;
use crate::harness::{BenchReport, Duel, Environment, Figure, Progress, Side, Unit};
use crate::pair::Control;
use crate::{BenchError, BenchOptions, Effort};

/// Updates that each rank sends in a round.
const UPDATES: u64 = 8_000_000;

const RINGS: &str = "bare shared-memory rings, 16-byte messages in 32 KiB batches, doing the same updates";
const ALLTOALLV: &str =
    "MPI_Alltoallv of 32 KiB for each destination, gathered by hand, doing the same updates";

const VERSUS_INLINE: &str = "the same without an agent, on the same cores";

/// Figures of every run: three of histograms, one of gathering, one beside MPI.
const QUESTIONS: usize = 5 + apps::COUNT + agents::COUNT + nodes::COUNT;

/// Asks all questions.
pub(crate) fn run(options: &BenchOptions) -> Result<BenchReport, BenchError> {
    let cores_allowed = std::thread::available_parallelism().map_or(1, usize::from);
    let mut environment = Environment::survey(options.effort, cores_allowed, Vec::new());
    let is_long = options.effort != Effort::Quick;
    let questions = QUESTIONS + if is_long { 1 + sweep::COUNT + agents::SWEEP } else { 0 };
    let mut progress = Progress::new(options.effort, questions);
    let mut figures = Vec::new();
    for (name, words) in [("small", SMALL), ("large", tables::large(options.effort))] {
        figures.push(beside_rings(options, name, words, &mut progress)?);
    }
    if options.effort == Effort::Full {
        match tables::hundred_caches(2) {
            Some((words, reduced)) => {
                environment.notes.extend(reduced);
                figures.push(beside_rings(options, "large_100llc", words, &mut progress)?);
            }
            None => environment.notes.push("how large the last-level cache is, is not known here".to_owned()),
        }
    }
    match Alltoallv::prepare() {
        Ok(peer) => figures.push(beside_alltoallv(options, &peer, &mut progress)?),
        Err(why) => environment.notes.push(format!("nothing beside MPI_Alltoallv: {why}")),
    }
    figures.extend(between_ranks(options, &mut progress)?);
    figures.extend(agents::figures(options, &mut progress)?);
    figures.extend(nodes::figures(options, &mut progress)?);
    figures.extend(apps::figures(options, &mut progress)?);
    if is_long {
        figures.extend(sweep::figures(options, &mut progress)?);
        figures.extend(agents::sweep(options, &mut progress)?);
    }
    Ok(BenchReport { bench: "routing", figures, environment })
}

/// The histogram of two ranks, with tables of so many words.
fn beside_rings(
    options: &BenchOptions,
    name: &str,
    words: u64,
    progress: &mut Progress,
) -> Result<Figure, BenchError> {
    let (name, effort) = (format!("routing.histogram.inline.2ranks.{name}"), options.effort);
    progress.begin(&name);
    let (mut team, mut seeds) = (Team::start(&options.peer, 2, words)?, Seeds::default());
    let duel = Duel::run(effort, progress, |side| {
        let work = if side == Side::Ours { Work::Histogram } else { Work::BareHistogram };
        team.round(work, effort.items(UPDATES), seeds.next())
    })?;
    team.stop()?;
    progress.end();
    Ok(duel.figure(&name, Unit::MessagesPerSecond, 1.0, RINGS))
}

/// The same beside MPI.
fn beside_alltoallv(
    options: &BenchOptions,
    peer: &Alltoallv,
    progress: &mut Progress,
) -> Result<Figure, BenchError> {
    let (name, effort) = ("routing.histogram.inline.2ranks.small_over_alltoallv", options.effort);
    progress.begin(name);
    let (mut team, mut seeds) = (Team::start(&options.peer, 2, SMALL)?, Seeds::default());
    let duel = Duel::run(effort, progress, |side| {
        let (items, seed) = (effort.items(UPDATES), seeds.next());
        match side {
            Side::Ours => team.round(Work::Histogram, items, seed),
            Side::Yardstick => peer.round(items, seed, SMALL),
        }
    })?;
    team.stop()?;
    progress.end();
    Ok(duel.figure(name, Unit::MessagesPerSecond, 1.0, ALLTOALLV))
}

/// Figures that compare ours with ours.
fn between_ranks(options: &BenchOptions, progress: &mut Progress) -> Result<Vec<Figure>, BenchError> {
    let effort = options.effort;
    let (mut two, mut four) = (Team::start(&options.peer, 2, SMALL)?, Team::start(&options.peer, 4, SMALL)?);
    let (updates, mut seeds) = (effort.items(UPDATES), Seeds::default());
    progress.begin("routing.histogram.inline.4ranks");
    let crowd = Duel::run(effort, progress, |side| match side {
        Side::Ours => four.round(Work::Histogram, updates / 2, seeds.next()),
        Side::Yardstick => two.round(Work::Histogram, updates, seeds.next()),
    })?;
    progress.end();
    four.stop()?;
    progress.begin("routing.index_gather.inline.2ranks");
    let gather = Duel::run(effort, progress, |side| {
        let work = if side == Side::Ours { Work::Gather } else { Work::Histogram };
        two.round(work, updates / 2, seeds.next())
    })?;
    progress.end();
    two.stop()?;
    let unit = Unit::MessagesPerSecond;
    Ok(vec![
        crowd.figure("routing.histogram.inline.4ranks", unit, 1.0, "two ranks on the same cores"),
        gather.figure(
            "routing.index_gather.inline.2ranks",
            unit,
            1.0,
            "updates per second of the histogram with two ranks",
        ),
    ])
}

/// A rank's part; `None` if something else is asked for.
pub(crate) fn serve(part: &str) -> Option<Result<(), BenchError>> {
    match part {
        part::PART => Some(Control::play(part::serve)),
        apps::PART => Some(Control::play(apps::serve)),
        _ => None,
    }
}
