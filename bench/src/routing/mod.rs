//! What small messages between ranks cost, and what the memory system would allow.

mod bare;
mod part;
mod team;
mod updates;

use self::part::Work;
use self::team::Team;
use crate::harness::{Duel, Environment, Figure, Progress, Report, Side, Unit};
use crate::pair::Control;
use crate::{BenchError, Effort, Options};

/// Words of a rank's table that the processor's caches hold.
const SMALL: u64 = (4 << 20) / 8;
/// Updates that each rank sends in a round.
const UPDATES: u64 = 8_000_000;

/// Words of a rank's table that is far larger than the caches.
fn large(effort: Effort) -> u64 {
    match effort {
        Effort::Tiny => SMALL,
        Effort::Quick | Effort::Full => (512 << 20) / 8,
    }
}

const RINGS: &str = "bare shared-memory rings, 16-byte messages in 32 KiB batches, doing the same updates";

/// Asks all questions.
pub(crate) fn run(options: &Options) -> Result<Report, BenchError> {
    let cores_allowed = std::thread::available_parallelism().map_or(1, usize::from);
    let environment = Environment::survey(options.effort, cores_allowed, Vec::new());
    let effort = options.effort;
    let mut progress = Progress::new(effort, 4);
    let mut figures = Vec::new();
    for (name, words) in [("small", SMALL), ("large", large(effort))] {
        let name = format!("routing.histogram.inline.2ranks.{name}");
        progress.begin(&name);
        let mut team = Team::start(&options.peer, 2, words)?;
        let duel = Duel::run(effort, &progress, |side| {
            let work = if side == Side::Ours { Work::Histogram } else { Work::BareHistogram };
            team.round(work, effort.items(UPDATES))
        })?;
        team.stop()?;
        figures.push(duel.figure(&name, Unit::MessagesPerSecond, 1.0, RINGS));
        progress.end();
    }
    figures.extend(between_ranks(options, &mut progress)?);
    Ok(Report { bench: "routing", figures, environment })
}

/// Figures that compare ours with ours.
fn between_ranks(options: &Options, progress: &mut Progress) -> Result<Vec<Figure>, BenchError> {
    let effort = options.effort;
    let (mut two, mut four) = (Team::start(&options.peer, 2, SMALL)?, Team::start(&options.peer, 4, SMALL)?);
    let updates = effort.items(UPDATES);
    progress.begin("routing.histogram.inline.4ranks");
    let crowd = Duel::run(effort, progress, |side| match side {
        Side::Ours => four.round(Work::Histogram, updates / 2),
        Side::Yardstick => two.round(Work::Histogram, updates),
    })?;
    progress.end();
    four.stop()?;
    progress.begin("routing.index_gather.inline.2ranks");
    let gather = Duel::run(effort, progress, |side| {
        let work = if side == Side::Ours { Work::Gather } else { Work::Histogram };
        two.round(work, updates / 2)
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
    (part == part::PART).then(|| Control::play(part::serve))
}
