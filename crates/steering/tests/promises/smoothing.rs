//! A signal follows what lasts and not what passes.

use std::time::Duration;

use outboard_steering::{Cost, Estimate, Signal, SteeringConfig, Time};
use proptest::prelude::*;

use crate::world::Draw;

const PACE: Duration = Duration::from_micros(50);

struct Feed {
    signal: Signal,
    now: Time,
}

impl Feed {
    fn new() -> Self {
        Self { signal: Signal::new(&SteeringConfig::default()), now: Time::ZERO }
    }

    fn samples(&mut self, count: usize, mut sample: impl FnMut() -> f64) -> &mut Self {
        for _ in 0..count {
            self.now += PACE;
            self.signal.observe(self.now, sample());
        }
        self
    }

    fn estimate(&self) -> Estimate {
        self.signal.estimate().expect("enough samples")
    }
}

proptest! {
    #[test]
    fn a_step_is_followed_within_four_buckets(
        before in 0.0..1e9, after in 0.0..1e9, settled in 500usize..2_000,
    ) {
        let mut feed = Feed::new();
        feed.samples(settled, || before);
        // 500 µs at 50 µs a sample are 11 samples, the first of which opens the bucket.
        feed.samples(4 * 11, || after);
        // The bucket in which the step happened may lie so near the new level that it is not worth a step.
        prop_assert!((feed.estimate().value - after).abs() <= 0.03 * after);
    }

    #[test]
    fn one_wild_sample_hardly_shows(wild in 1.0..1e18, settled in 500usize..2_000) {
        let mut feed = Feed::new();
        feed.samples(settled, || 100.0).samples(1, || wild).samples(10, || 100.0);
        prop_assert!((feed.estimate().value - 100.0).abs() <= 100.0 / 8.0 / 32.0 + 1e-6);
    }

    #[test]
    fn a_rate_made_of_zeros_and_ones_is_not_biased(seed: u64, rate in 0.05..0.95) {
        let mut draw = Draw(seed);
        let mut feed = Feed::new();
        let mut sum = 0.0;
        for _ in 0..40 {
            feed.samples(500, || if draw.unit() < rate { 1.0 } else { 0.0 });
            sum += feed.estimate().value;
        }
        prop_assert!((sum / 40.0 - rate).abs() < 0.06, "{} for {}", sum / 40.0, rate);
    }
}

#[test]
fn an_estimate_needs_three_buckets_and_knows_its_age() {
    let mut feed = Feed::new();
    feed.samples(32, || 5.0);
    assert_eq!(feed.signal.estimate(), None);
    assert_eq!(feed.signal.age(feed.now), None);
    feed.samples(1, || 5.0);
    assert_eq!((feed.estimate().value, feed.estimate().samples), (5.0, 33));
    assert_eq!(feed.signal.age(feed.now), Some(22 * PACE));
}

#[test]
fn a_long_silence_starts_again() {
    let config = SteeringConfig::default();
    let mut feed = Feed::new();
    feed.samples(500, || 5.0);
    feed.now += config.stale_after + config.window;
    let last = feed.estimate();
    feed.samples(32, || 7.0);
    let still = feed.estimate();
    assert_eq!((still.value, still.measured_at), (5.0, last.measured_at), "two new buckets are too few");
    feed.samples(1, || 7.0);
    assert_eq!(feed.estimate().value, 7.0);
}

#[test]
fn more_samples_make_an_estimate_more_certain() {
    let mut draw = Draw(7);
    let mut feed = Feed::new();
    let early = feed.samples(66, || draw.unit()).estimate().spread;
    let late = feed.samples(2_000, || draw.unit()).estimate().spread;
    assert!(late < early / 2.0, "{late} against {early}");
}

#[test]
fn a_cost_is_as_old_as_its_oldest_part() {
    let estimate =
        |value, nanos| Estimate { value, spread: 1.0, measured_at: Time::from_nanos(nanos), samples: 9 };
    let sum = Cost::from(estimate(10.0, 5)) + Cost::from(estimate(20.0, 3)) + Cost::known(1.0);
    assert_eq!((sum.ns(), sum.spread_ns(), sum.measured_at()), (31.0, 2.0, Time::from_nanos(3)));
    let half = sum.scaled_by(Estimate { spread: 0.1, ..estimate(0.5, 2) });
    assert_eq!((half.ns(), half.measured_at()), (15.5, Time::from_nanos(2)));
    assert!((half.spread_ns() - 4.1).abs() < 1e-9);
}
