//! Ranks that are drawn as often as Zipf's law says.

/// Draws ranks from 0, each with a chance of one over its place to the power of an exponent.
#[derive(Clone, Debug)]
pub(super) struct Zipf {
    /// The chance of a rank up to this one.
    up_to: Vec<f64>,
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
        Self { up_to }
    }

    pub(super) fn draw(&self, random: &mut fastrand::Rng) -> usize {
        let chance = random.f64();
        self.up_to.partition_point(|part| *part < chance).min(self.up_to.len() - 1)
    }

    pub(super) fn chance(&self, rank: usize) -> f64 {
        let before = if rank == 0 { 0.0 } else { self.up_to[rank - 1] };
        self.up_to[rank] - before
    }
}
