//! Ours and the yardstick by turns, so that whatever disturbs the machine disturbs both.

use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::{Better, Effort, Figure, Progress, Unit};
use crate::BenchError;
use outboard_measure::percentile;

/// Which of the two does the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Side {
    /// This project.
    Ours,
    /// What it is measured against.
    Yardstick,
}

/// What one round of one side brought.
pub(crate) struct Round {
    /// The round's result: a rate, or its median time.
    pub(crate) score: f64,
    /// Single times in nanoseconds, if the round has them.
    pub(crate) samples_ns: Vec<u32>,
}

impl Round {
    /// So many items in so many seconds.
    pub(crate) fn rate(items: u64, seconds: f64) -> Self {
        Self { score: items as f64 / seconds, samples_ns: Vec::new() }
    }

    /// A time for each repetition.
    pub(crate) fn times(mut samples_ns: Vec<u32>) -> Self {
        Self { score: percentile(&mut samples_ns, 0.5), samples_ns }
    }

    /// The better of two ways to do the same work.
    pub(crate) fn better_rate(self, other: Self) -> Self {
        if other.score > self.score { other } else { self }
    }

    /// One after the other: the median of the sum of both is taken to be the sum of their medians.
    pub(crate) fn then(self, other: Self) -> Self {
        Self { score: self.score + other.score, samples_ns: Vec::new() }
    }
}

/// All rounds of one side.
#[derive(Default)]
struct Rounds {
    scores: Vec<f64>,
    samples_ns: Vec<u32>,
}

impl Rounds {
    fn add(&mut self, round: Round) {
        self.scores.push(round.score);
        self.samples_ns.extend(round.samples_ns);
    }

    /// The round that was disturbed least.
    fn best(&self, better: Better) -> f64 {
        self.scores.iter().copied().reduce(|one, other| better.of(one, other)).unwrap_or(0.0)
    }

    /// The round in the middle.
    fn median(&self) -> f64 {
        percentile(&mut self.scores.clone(), 0.5)
    }

    /// A percentile over the times of all rounds, in nanoseconds.
    fn percentile_ns(&self, fraction: f64) -> f64 {
        percentile(&mut self.samples_ns.clone(), fraction)
    }
}

/// How both sides did.
#[derive(Default)]
pub(crate) struct Duel {
    ours: Rounds,
    yardstick: Rounds,
}

impl Duel {
    /// The median rounds, each counting `scale` of the figure's unit, and the median of the ratios within the
    /// rounds.
    pub(crate) fn figure(&self, name: &str, unit: Unit, scale: f64, versus: &str) -> Figure {
        let sides = [&self.ours, &self.yardstick];
        let [ours, yardstick] = sides.map(|side| side.median() * scale);
        let [ours_best, yardstick_best] = sides.map(|side| side.best(unit.better()) * scale);
        let pairs = self.ours.scores.iter().zip(&self.yardstick.scores);
        let mut ratios: Vec<f64> = pairs.map(|(ours, yardstick)| ours / yardstick).collect();
        let ratio = percentile(&mut ratios, 0.5);
        let figure = Figure::new(name, unit, ours, yardstick, versus);
        Figure { ratio, ..figure.with_best(ours_best, yardstick_best) }
    }

    /// A percentile over all rounds compared.
    pub(crate) fn figure_of_all(&self, name: &str, fraction: f64, versus: &str) -> Figure {
        let [ours, yardstick] = [&self.ours, &self.yardstick].map(|side| side.percentile_ns(fraction));
        Figure::new(name, Unit::Nanoseconds, ours, yardstick, versus)
    }

    /// Lets both sides do rounds by turns until the time is up.
    pub(crate) fn run(
        effort: Effort,
        progress: &Progress,
        mut round: impl FnMut(Side) -> Result<Round, BenchError>,
    ) -> Result<Self, BenchError> {
        let mut duel = Self::default();
        let began = Instant::now();
        let mut done = 0;
        let warm_up = effort.warm_up();
        while done < warm_up + effort.rounds_min() || began.elapsed() < effort.budget() {
            // Neither always runs in the other's wake.
            let order =
                if done % 2 == 0 { [Side::Yardstick, Side::Ours] } else { [Side::Ours, Side::Yardstick] };
            for side in order {
                let result = round(side)?;
                match side {
                    _ if done < warm_up => {}
                    Side::Ours => duel.ours.add(result),
                    Side::Yardstick => duel.yardstick.add(result),
                }
            }
            done += 1;
            progress.show(began.elapsed());
        }
        Ok(duel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_run_equally_often_and_warm_up_does_not_count() {
        let (mut calls, mut last) = ([0, 0], 0.0);
        let duel = Duel::run(Effort::Tiny, &Progress::silent(), |side| {
            calls[side as usize] += 1;
            last += 1.0;
            Ok(Round::rate(last as u64, 1.0))
        })
        .unwrap();
        assert_eq!(calls, [1, 1]);
        assert_eq!((duel.yardstick.best(Better::Higher), duel.ours.median()), (1.0, 2.0));
    }

    #[test]
    fn the_best_round_is_the_fastest() {
        let mut rounds = Rounds::default();
        for samples in [vec![5, 9, 7], vec![4, 4, 60]] {
            rounds.add(Round::times(samples));
        }
        assert_eq!((rounds.best(Better::Lower), rounds.best(Better::Higher)), (4.0, 7.0));
        assert_eq!(rounds.percentile_ns(1.0), 60.0);
    }
}
