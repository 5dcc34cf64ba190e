//! What all applications have in common.

use std::time::{Duration, Instant};

use outboard::{Messenger, MessengerOptions, MessengerStats};
use serde::{Deserialize, Serialize};

use crate::error::AppError;
use crate::results;
use crate::team::{self, Arrivals, Team};
use crate::watch::{Accesses, MemoryTraffic, RunWatch, copy_rate, fetched};

/// An application made of small messages.
pub(crate) trait Application {
    /// What it is called.
    const NAME: &'static str;
    /// What it does many of.
    const UNIT: &'static str;
    /// What a rank has before the clock starts.
    type Input;

    /// Says whether its sizes make sense for so many ranks.
    fn check(&self, ranks: u32) -> Result<(), AppError>;

    /// Makes the input of one of so many ranks.
    fn prepare(&self, rank: u32, ranks: u32) -> Result<Self::Input, AppError>;

    /// Does the work together with the other ranks. In the end nothing is under way.
    fn run(&self, input: Self::Input, team: &mut Team<'_>) -> Result<Part, AppError>;

    /// Does the same alone, in the plainest way, from the input of the only rank of a job. Its words are in the order in
    /// which so many ranks have them.
    fn serial(&self, input: Self::Input, ranks: u32) -> Result<Part, AppError>;

    /// What about a result cannot be, which is seen without a serial run.
    fn violation(&self, work: u64, figures: &[NamedNumber]) -> Option<String>;
}

/// What a rank, or a serial run, has found out.
pub(crate) struct Part {
    /// How much was done, in the application's unit.
    pub(crate) work: u64,
    /// Writes the result down in a form that can be compared, after the clock has stopped.
    pub(crate) words: Box<dyn FnOnce() -> Vec<u64>>,
    /// What else is known of the result; sums over all ranks.
    pub(crate) figures: Vec<(&'static str, u64)>,
    /// What it took, which is not part of the result.
    pub(crate) efforts: Vec<(&'static str, u64)>,
    /// Which memory it accessed; a serial run does not say.
    pub(crate) accesses: Vec<Accesses>,
}

/// A number with its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedNumber {
    /// What it counts.
    pub name: String,
    /// How many.
    pub value: u64,
}

/// How the result compares with the serial one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// How long the serial run took, without preparation.
    pub serial_seconds: f64,
    /// The first thing that is different, if anything is.
    pub difference: Option<String>,
}

/// What a run came to, on all ranks together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ApplicationReport {
    /// Which application.
    pub app: String,
    /// How many ranks.
    pub ranks: u32,
    /// How long the slowest rank took, without preparation.
    pub seconds: f64,
    /// How much was done.
    pub work: u64,
    /// Of what.
    pub unit: String,
    /// What was found out.
    pub figures: Vec<NamedNumber>,
    /// What it took.
    pub efforts: Vec<NamedNumber>,
    /// Who moved messages and why, as rank 0 says.
    pub placement: String,
    /// Bundles that were sent, to ranks themselves included.
    pub bundles: u64,
    /// Their bytes, heads of messages included: what was routed.
    pub bytes: u64,
    /// Bundles as they came from other ranks.
    pub bundles_between: u64,
    /// Their bytes.
    pub bytes_between: u64,
    /// How many bytes all ranks copy in a second when nothing else is done: the speed of the link between them if they share
    /// memory.
    pub link_rate: f64,
    /// What was fetched from memory meanwhile, if that is known.
    pub memory: Option<MemoryTraffic>,
    /// How often a rank had to wait for a free bundle.
    pub full: u64,
    /// What about the result cannot be, if anything.
    pub violation: Option<String>,
    /// The comparison, if it was asked for.
    pub check: Option<Comparison>,
}

impl ApplicationReport {
    /// How much was done in a second.
    pub fn rate(&self) -> f64 {
        self.work as f64 / self.seconds.max(1e-9)
    }

    /// The average length of a bundle, in bytes.
    pub fn bundle_bytes(&self) -> f64 {
        self.bytes as f64 / self.bundles.max(1) as f64
    }

    /// The average length of a bundle that came from another rank, in bytes.
    pub fn bundle_bytes_between(&self) -> f64 {
        self.bytes_between as f64 / self.bundles_between.max(1) as f64
    }

    /// Which share of the link between ranks was used.
    pub fn utilisation(&self) -> f64 {
        self.bytes_between as f64 / self.seconds.max(1e-9) / self.link_rate.max(1.0)
    }

    /// How many bytes were fetched from memory for each that was routed, if both are known.
    pub fn memory_to_communication(&self) -> Option<f64> {
        let memory = self.memory.filter(|_| self.bytes > 0)?;
        Some(memory.bytes as f64 / self.bytes as f64)
    }

    /// What is known to be wrong with the result.
    pub fn wrong(&self) -> Option<&str> {
        let difference = self.check.as_ref().and_then(|check| check.difference.as_deref());
        self.violation.as_deref().or(difference)
    }
}

/// What a messenger for applications needs.
pub fn messenger_options(options: MessengerOptions) -> MessengerOptions {
    options.with_spaces(team::SPACES)
}

/// Runs an application. Rank 0 gets the report.
pub(crate) fn play<A: Application>(
    app: &A,
    messenger: &mut Messenger,
    watch: &RunWatch<'_>,
) -> Result<Option<ApplicationReport>, AppError> {
    let mut team = Team::new(messenger);
    let (rank, ranks) = (team.rank(), team.ranks());
    app.check(ranks)?;
    let input = app.prepare(rank, ranks)?;
    team.meet()?;
    let (before, began) = (Reading::take(&team, watch), Instant::now());
    let part = app.run(input, &mut team)?;
    let (took, after) = (began.elapsed(), Reading::take(&team, watch));
    let mut report = summarise::<A>(&mut team, &part, (&before, &after), took)?;
    report.memory = memory(&mut team, &part, (&before, &after), watch)?;
    report.violation = app.violation(report.work, &report.figures);
    if watch.is_checked {
        let parts = results::gather(&mut team, (part.words)())?;
        if rank == 0 {
            report.check = Some(compare(app, ranks, &parts, &report)?);
        }
    }
    team.part()?;
    Ok((rank == 0).then_some(report))
}

/// What counters say at one moment.
struct Reading {
    stats: MessengerStats,
    arrivals: Arrivals,
    misses: Option<u64>,
}

impl Reading {
    fn take(team: &Team<'_>, watch: &RunWatch<'_>) -> Self {
        Self { stats: team.stats(), arrivals: team.arrivals(), misses: watch.misses() }
    }
}

/// What all ranks together fetched from memory: counted, or estimated if one of them cannot count.
fn memory(
    team: &mut Team<'_>,
    part: &Part,
    (before, after): (&Reading, &Reading),
    watch: &RunWatch<'_>,
) -> Result<Option<MemoryTraffic>, AppError> {
    let misses = after.misses.zip(before.misses).map(|(after, before)| after.saturating_sub(before));
    let ranks = team.ranks();
    let is_measured = team.sum(misses.is_some().into())? == u64::from(ranks);
    let estimate =
        |cache_bytes| part.accesses.iter().map(|accesses| accesses.fetched(cache_bytes, ranks)).sum();
    let own = if is_measured { misses.map(fetched) } else { watch.cache_bytes.map(estimate) };
    let (known, bytes) = (team.sum(own.is_some().into())?, team.sum(own.unwrap_or(0))?);
    Ok((known == u64::from(ranks)).then_some(MemoryTraffic { bytes, is_measured }))
}

fn summarise<A: Application>(
    team: &mut Team<'_>,
    part: &Part,
    (before, after): (&Reading, &Reading),
    took: Duration,
) -> Result<ApplicationReport, AppError> {
    let sums = |team: &mut Team<'_>, figures: &[(&str, u64)]| {
        let sum = |(name, value): &(&str, u64)| {
            Ok(NamedNumber { name: (*name).to_owned(), value: team.sum(*value)? })
        };
        figures.iter().map(sum).collect::<Result<Vec<_>, AppError>>()
    };
    let slowest = team.exchange(took.as_nanos() as u64)?.into_iter().max().unwrap_or(0);
    let (sent, sent_before) = (&after.stats, &before.stats);
    let (came, came_before) = (&after.arrivals, &before.arrivals);
    Ok(ApplicationReport {
        app: A::NAME.to_owned(),
        ranks: team.ranks(),
        seconds: Duration::from_nanos(slowest).as_secs_f64(),
        work: team.sum(part.work)?,
        unit: A::UNIT.to_owned(),
        figures: sums(team, &part.figures)?,
        efforts: sums(team, &part.efforts)?,
        placement: team.explain(),
        bundles: team.sum(sent.bundles_sent - sent_before.bundles_sent)?,
        bytes: team.sum(sent.bytes_sent - sent_before.bytes_sent)?,
        full: team.sum(sent.full - sent_before.full)?,
        bundles_between: team.sum(came.bundles - came_before.bundles)?,
        bytes_between: team.sum(came.bytes - came_before.bytes)?,
        // All have just told their numbers, so all copy at once.
        link_rate: team.sum(copy_rate() as u64)? as f64,
        memory: None,
        violation: None,
        check: None,
    })
}

fn compare<A: Application>(
    app: &A,
    ranks: u32,
    parts: &[Vec<u64>],
    report: &ApplicationReport,
) -> Result<Comparison, AppError> {
    let input = app.prepare(0, 1)?;
    let began = Instant::now();
    let expected = app.serial(input, ranks)?;
    let serial_seconds = began.elapsed().as_secs_f64();
    Ok(Comparison { serial_seconds, difference: difference(expected, parts, report) })
}

/// The first thing that is not as expected.
fn difference(expected: Part, parts: &[Vec<u64>], report: &ApplicationReport) -> Option<String> {
    if expected.work != report.work {
        return Some(format!("{} {} instead of {}", report.work, report.unit, expected.work));
    }
    for (NamedNumber { name, value }, (_, right)) in report.figures.iter().zip(&expected.figures) {
        if value != right {
            return Some(format!("{name} is {value} instead of {right}"));
        }
    }
    let (expected, found) = ((expected.words)(), parts.iter().map(Vec::len).sum::<usize>());
    if found != expected.len() {
        return Some(format!("the result has {found} words instead of {}", expected.len()));
    }
    let mut right = expected.iter();
    for (rank, part) in parts.iter().enumerate() {
        for (index, (word, right)) in part.iter().zip(&mut right).enumerate() {
            if word != right {
                return Some(format!("word {index} of rank {rank}'s result is {word} instead of {right}"));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> ApplicationReport {
        ApplicationReport {
            app: "test".to_owned(),
            ranks: 2,
            seconds: 2.0,
            work: 10,
            unit: "steps".to_owned(),
            figures: vec![NamedNumber { name: "sum".to_owned(), value: 6 }],
            efforts: Vec::new(),
            placement: "none".to_owned(),
            bundles: 4,
            bytes: 400,
            bundles_between: 2,
            bytes_between: 100,
            link_rate: 500.0,
            memory: Some(MemoryTraffic { bytes: 600, is_measured: false }),
            full: 0,
            violation: None,
            check: None,
        }
    }

    #[test]
    fn every_difference_is_noticed_and_named() {
        let part = |work, words: &[u64], sum| {
            let words = words.to_vec();
            Part {
                work,
                words: Box::new(|| words),
                figures: vec![("sum", sum)],
                efforts: Vec::new(),
                accesses: Vec::new(),
            }
        };
        let parts = [vec![1, 2], vec![3]];
        let found = |expected: Part, parts: &[Vec<u64>]| difference(expected, parts, &report());
        assert_eq!(found(part(10, &[1, 2, 3], 6), &parts), None);
        assert_eq!(found(part(10, &[1, 2, 3], 6), &[vec![1], vec![2, 3]]), None, "only the order matters");
        let cases = [
            (part(11, &[1, 2, 3], 6), "10 steps instead of 11"),
            (part(10, &[1, 2, 4], 6), "word 0 of rank 1's result is 3 instead of 4"),
            (part(10, &[1, 2], 6), "the result has 3 words instead of 2"),
            (part(10, &[1, 2, 3], 7), "sum is 6 instead of 7"),
        ];
        for (expected, text) in cases {
            assert_eq!(found(expected, &parts).as_deref(), Some(text));
        }
        let mut report = report();
        assert_eq!((report.rate(), report.bundle_bytes(), report.wrong()), (5.0, 100.0, None));
        assert_eq!((report.bundle_bytes_between(), report.utilisation()), (50.0, 0.1));
        assert_eq!(report.memory_to_communication(), Some(1.5));
        let difference = Some("something".to_owned());
        report.check = Some(Comparison { serial_seconds: 1.0, difference });
        assert_eq!(report.wrong(), Some("something"));
        report.violation = Some("something else".to_owned());
        assert_eq!(report.wrong(), Some("something else"));
    }
}
