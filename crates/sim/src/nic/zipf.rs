//! Ranks that are drawn as often as Zipf's law says.

/// Parts of all chances for each of which it is known where to look.
const PARTS: usize = 4096;

/// Draws ranks from 0, each with a chance of one over its place to the power of an exponent.
#[derive(Clone, Debug)]
pub(super) struct Zipf {
    /// The chance of a rank up to this one.
    up_to: Vec<f64>,
    /// The rank in which each part of all chances begins, and the last.
    parts: Vec<usize>,
}

impl Zipf {
    pub(super) fn new(ranks: usize, exponent: f64) -> Self {
        let mut sum = 0.0;
        let mut up_to: Vec<f64> = (1..=ranks)
            .map(|place| {
                sum += (place as f64).powf(-exponent);
                sum
            })
            .collect();
        up_to.iter_mut().for_each(|part| *part /= sum);
        let begins = |part: usize| up_to.partition_point(|chance| *chance < part as f64 / PARTS as f64);
        let parts = (0..=PARTS).map(begins).collect();
        Self { up_to, parts }
    }

    pub(super) fn draw(&self, random: &mut fastrand::Rng) -> usize {
        let chance = random.f64();
        let part = (chance * PARTS as f64) as usize;
        let (first, last) = (self.parts[part], self.parts[part + 1]);
        let rank = first + self.up_to[first..last].partition_point(|up_to| *up_to < chance);
        rank.min(self.up_to.len() - 1)
    }

    pub(super) fn chance(&self, rank: usize) -> f64 {
        let before = if rank == 0 { 0.0 } else { self.up_to[rank - 1] };
        self.up_to[rank] - before
    }
}
