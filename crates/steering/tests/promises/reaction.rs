//! A change that matters is followed within the promised bound.

use std::time::Duration;

use crate::world::{Noise, World, pace};
use outboard_steering::SteeringConfig;
use proptest::prelude::*;

/// Runs until everything is measured, makes the chosen option dearer, and returns how long that is borne.
fn reaction(seed: u64, pace: Duration, noise: f64, factor: f64, limit: Duration) -> Option<Duration> {
    let noise = Noise::Uniform(noise);
    let mut world = World::<2>::new(SteeringConfig::default(), seed);
    // Long enough to explore the rival at the slowest pace, short enough for that to be recent.
    world.run(pace * 2_000, pace, noise, [1e4; 2]);
    assert!(world.moves.is_empty() && world.signals[1].estimate().is_some());
    let onset = world.now;
    world.run(limit, pace, noise, [1e4 * factor, 1e4]);
    world.moves.first().map(|decision| decision.since - onset)
}

fn bucket(config: &SteeringConfig, pace: Duration) -> Duration {
    // The exploring picks take some of the samples, and a bucket ends with a sample.
    config.window.max(pace * (config.min_samples + 1)) + pace
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn twice_as_dear_is_left_within_a_dwell(
        seed: u64, pace in pace(), noise in 0.0..0.09, factor in 2.0..1e6,
    ) {
        let config = SteeringConfig::default();
        let bound = 5 * bucket(&config, pace) + config.dwell + 2 * pace;
        let taken = reaction(seed, pace, noise, factor, 4 * bound);
        prop_assert!(taken.is_some_and(|taken| taken <= bound), "{:?} > {:?}", taken, bound);
    }

    #[test]
    fn five_times_as_dear_is_left_within_half_a_dwell(
        seed: u64, pace in pace(), noise in 0.0..0.09, factor in 5.0..1e6,
    ) {
        let config = SteeringConfig::default();
        let bound = 5 * bucket(&config, pace) + config.dwell / 2 + 2 * pace;
        let taken = reaction(seed, pace, noise, factor, 4 * bound);
        prop_assert!(taken.is_some_and(|taken| taken <= bound), "{:?} > {:?}", taken, bound);
    }
}

#[test]
fn an_overload_is_left_within_ten_milliseconds() {
    let taken = reaction(1, Duration::from_micros(20), 0.05, 3.0, Duration::from_secs(1));
    assert!(taken.is_some_and(|taken| taken < Duration::from_millis(10)), "{taken:?}");
}
