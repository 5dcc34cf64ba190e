//! Smooths one noisy measured quantity.

use core::time::Duration;

use outboard_wire::time::Time;

use crate::SteeringConfig;

/// Buckets whose median watches for steps: two wild ones in five cannot move it, three new ones always do.
const RECENT: usize = 5;
/// Fewest buckets that make an estimate: the smallest number whose median ignores one outlier.
const RECENT_MIN: usize = 3;
/// How many buckets the level and the deviation remember, unless a step makes them start again.
const MEMORY: u32 = 32;
/// A median further than so many deviations from the level is a step. Steady Gaussian noise gets there once
/// in some thousand buckets, and then costs only certainty.
const STEP: f64 = 2.5;
/// A bucket further than so many deviations from the level counts as if it were only so far.
const WILD: f64 = 8.0;
/// Samples are clamped to this magnitude (31 years in nanoseconds), so that no later sum overflows.
pub(crate) const MAGNITUDE_MAX: f64 = 1e18;

/// A noisy measurement of one quantity: a latency or queueing delay in nanoseconds, a utilisation, a hit rate.
///
/// Samples are averaged in buckets. Two things watch the bucket means, one for each way of being wrong:
///
/// - The *level* is their average, which is what a cost is about: the median of a hit rate made of zeros
///   and ones, or of a cost that is rarely but hugely larger, would be of no use. It becomes more certain
///   with every bucket. A wild bucket counts only in part.
/// - The *median of the last five* is uncertain but cannot be moved by one or two wild buckets, and three
///   whole buckets after a step it is there, whatever the size of the step. When it lies too far from the
///   level for noise, the level starts again from it.
#[derive(Clone, Debug)]
pub struct Signal {
    window: Duration,
    stale_after: Duration,
    min_samples: u32,
    samples: u64,
    open: Bucket,
    /// Closed buckets, newest first; the first `recent_len` are in use.
    recent: [Mean; RECENT],
    recent_len: usize,
    level: f64,
    /// Mean absolute deviation of a bucket from the level.
    deviation: f64,
    /// Buckets that level and deviation rest on, up to `MEMORY`; 0 before there is a level.
    weight: u32,
    measured_at: Time,
}

/// What a [`Signal`] says now, in the signal's own unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The smoothed value.
    pub value: f64,
    /// About one standard error of the value: how wrong it may well be.
    pub spread: f64,
    /// The point since which the majority of what the value rests on was measured.
    pub measured_at: Time,
    /// Samples the signal has ever taken.
    pub samples: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    sum: f64,
    count: u32,
    opened_at: Time,
}

#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    value: f64,
    closed_at: Time,
}

impl Signal {
    /// A signal without samples.
    pub fn new(config: &SteeringConfig) -> Self {
        Self {
            window: config.window,
            stale_after: config.stale_after,
            min_samples: config.min_samples.max(1),
            samples: 0,
            open: Bucket::default(),
            recent: [Mean::default(); RECENT],
            recent_len: 0,
            level: 0.0,
            deviation: 0.0,
            weight: 0,
            measured_at: Time::ZERO,
        }
    }

    /// Takes one sample. Samples that are not finite are ignored.
    #[inline]
    pub fn observe(&mut self, now: Time, sample: f64) {
        if !sample.is_finite() {
            return;
        }
        if self.open.count == 0 || now - self.open.opened_at > self.stale_after {
            self.open = Bucket { opened_at: now, ..Bucket::default() };
        }
        self.open.sum += sample.clamp(-MAGNITUDE_MAX, MAGNITUDE_MAX);
        self.open.count = self.open.count.saturating_add(1);
        self.samples = self.samples.saturating_add(1);
        if self.open.count >= self.min_samples && now - self.open.opened_at >= self.window {
            self.close(now);
        }
    }

    /// The present estimate, or `None` while too little was measured. It does not vanish with age:
    /// the caller looks at [`Estimate::measured_at`].
    pub fn estimate(&self) -> Option<Estimate> {
        if self.weight == 0 {
            return None;
        }
        let weight = f64::from(self.weight);
        // A deviation learnt from few buckets may be small by luck; as with Student's t, few count for less.
        let spread = self.deviation / weight.sqrt() * (1.0 + 6.0 / weight);
        Some(Estimate { value: self.level, spread, measured_at: self.measured_at, samples: self.samples })
    }

    /// How long ago the estimate was measured, or `None` while there is none.
    pub fn age(&self, now: Time) -> Option<Duration> {
        self.estimate().map(|estimate| now - estimate.measured_at)
    }

    #[cold]
    fn close(&mut self, now: Time) {
        let value = self.open.sum / f64::from(self.open.count);
        self.open = Bucket { opened_at: now, ..Bucket::default() };
        if self.recent_len > 0 && now - self.recent[0].closed_at > self.stale_after {
            self.recent_len = 0;
        }
        self.recent.copy_within(..RECENT - 1, 1);
        self.recent[0] = Mean { value, closed_at: now };
        self.recent_len = (self.recent_len + 1).min(RECENT);
        if self.recent_len < RECENT_MIN {
            return;
        }
        self.measured_at = self.recent[RECENT_MIN - 1].closed_at;
        let median = median(self.recent, self.recent_len);
        if self.recent_len == RECENT_MIN {
            // The first buckets, or the first after a silence.
            self.begin(median);
        } else if (median - self.level).abs() > STEP * self.deviation {
            self.step(median, value);
        } else {
            self.learn(value);
        }
    }

    fn begin(&mut self, median: f64) {
        let newest = self.recent.map(|mean| mean.value);
        let newest = &newest[..RECENT_MIN];
        let high = newest.iter().copied().fold(f64::MIN, f64::max);
        let low = newest.iter().copied().fold(f64::MAX, f64::min);
        self.level = median;
        // Three values of Gaussian noise span about twice their mean deviation.
        self.deviation = (high - low) / 2.0;
        self.weight = RECENT_MIN as u32;
    }

    /// The newest buckets lie on both sides of a step and tell nothing of the noise beyond it, so the
    /// deviation keeps its proportion to the level, as the noise of a cost mostly does. It still learns a
    /// little, or one that is far too small would take every bucket for a step for ever.
    fn step(&mut self, median: f64, value: f64) {
        let scale = median.abs() / self.level.abs();
        if scale.is_finite() {
            self.deviation = (self.deviation * scale).min(MAGNITUDE_MAX);
        }
        self.level = median;
        self.weight = RECENT_MIN as u32;
        self.deviation += (self.off_level(value).abs() - self.deviation) / f64::from(MEMORY);
    }

    fn learn(&mut self, value: f64) {
        let off = self.off_level(value);
        self.weight = (self.weight + 1).min(MEMORY);
        self.level += off / f64::from(self.weight);
        self.deviation += (off.abs() - self.deviation) / f64::from(self.weight);
    }

    /// How far from the level a value counts as being.
    fn off_level(&self, value: f64) -> f64 {
        // Without noise so far there is no measure for wildness but the level itself. An eighth of it lets
        // noise be learnt, and two buckets of a step cannot pass for the noise that would hide the step.
        let limit = (WILD * self.deviation).max(self.level.abs() / 8.0);
        (value - self.level).clamp(-limit, limit)
    }
}

fn median(mut means: [Mean; RECENT], len: usize) -> f64 {
    let sorted = &mut means[..len];
    sorted.sort_unstable_by(|a, b| a.value.total_cmp(&b.value));
    let middle = len / 2;
    if len % 2 == 1 {
        sorted[middle].value
    } else {
        f64::midpoint(sorted[middle - 1].value, sorted[middle].value)
    }
}
