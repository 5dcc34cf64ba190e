//! What the size of bundles and their number change.

use super::UPDATES;
use super::part::Work;
use super::seat::Bundling;
use super::tables::SMALL;
use super::team::Team;
use super::updates::Seeds;
use crate::harness::{Duel, Figure, Progress, Side, Unit};
use crate::{BenchError, BenchOptions, Effort};

const BUNDLES_KIB: [u64; 5] = [4, 8, 16, 32, 64];
const BUFFERS: [usize; 5] = [1, 2, 4, 8, 16];
/// How many figures there are.
pub(super) const COUNT: usize = BUNDLES_KIB.len() + BUFFERS.len();

const DEFAULT: &str = "as it is without a setting: bundles of 32 KiB, 16 under way to each rank";

/// The histogram of two ranks with other bundles, beside the one with those that everybody has.
pub(super) fn figures(options: &BenchOptions, progress: &mut Progress) -> Result<Vec<Figure>, BenchError> {
    // There are many of them, and only their order matters.
    let effort = if options.effort == Effort::Full { Effort::Quick } else { options.effort };
    let bundles = BUNDLES_KIB
        .map(|kib| (format!("bundle.{kib}KiB"), Bundling { bundle: Some(kib << 10), ..Bundling::default() }));
    let buffers = BUFFERS
        .map(|count| (format!("buffers.{count}"), Bundling { buffers: Some(count), ..Bundling::default() }));
    let mut usual = Team::start(&options.peer, 2, SMALL)?;
    let mut figures = Vec::new();
    for (what, bundling) in bundles.into_iter().chain(buffers) {
        let name = format!("routing.sweep.{what}");
        progress.begin(&name);
        let mut other = Team::start_with(&options.peer, 2, SMALL, bundling)?;
        let mut seeds = Seeds::default();
        let duel = Duel::run(effort, progress, |side| {
            let team = if side == Side::Ours { &mut other } else { &mut usual };
            team.round(Work::Histogram, effort.items(UPDATES), seeds.next())
        })?;
        other.stop()?;
        progress.end();
        figures.push(duel.figure(&name, Unit::MessagesPerSecond, 1.0, DEFAULT));
    }
    usual.stop()?;
    Ok(figures)
}
