//! Nothing moves without a reason that lasts.

use std::time::Duration;

use crate::world::{Noise, World, pace};
use outboard_steering::{Chooser, Cost, Evidence, Preference, Reason, SteeringConfig, Time};
use proptest::prelude::*;

/// What the crate promises to ignore with a margin of 20 %.
const IGNORED: f64 = 0.2 / 2.2;

fn bounded_noise() -> impl Strategy<Value = Noise> {
    prop_oneof![(0.0..IGNORED).prop_map(Noise::Uniform), (0.0..IGNORED).prop_map(Noise::Square),]
}

fn wild_noise() -> impl Strategy<Value = Noise> {
    prop_oneof![
        Just(Noise::Uniform(0.9)),
        Just(Noise::Exponential),
        Just(Noise::Hiccups),
        Just(Noise::Pareto)
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn equal_options_with_bounded_noise_never_move(
        seed: u64, pace in pace(), noise in bounded_noise(), cost_ns in 1.0..1e9,
    ) {
        let mut world = World::<3>::new(SteeringConfig::default(), seed);
        world.run(pace * 20_000, pace, noise, [cost_ns; 3]);
        prop_assert!(world.moves.is_empty(), "{:?}", world.moves);
    }

    #[test]
    fn the_better_option_is_never_left_under_bounded_noise(
        seed: u64, pace in pace(), noise in bounded_noise(), factor in 1.0..10.0,
    ) {
        let mut world = World::<2>::new(SteeringConfig::default(), seed);
        world.run(pace * 20_000, pace, noise, [1e4 * factor, 1e4]);
        prop_assert!(world.moves.len() <= 1, "{:?}", world.moves);
    }

    #[test]
    fn wild_noise_moves_equal_options_at_most_three_times_in_twenty_thousand_samples(
        seed: u64, pace in pace(), noise in wild_noise(),
    ) {
        let mut world = World::<3>::new(SteeringConfig::default(), seed);
        world.run(pace * 20_000, pace, noise, [1e4; 3]);
        prop_assert!(world.moves.len() <= 3, "{:?}", world.moves);
    }

    #[test]
    fn wild_noise_cannot_hide_a_much_better_option(seed: u64, pace in pace(), noise in wild_noise()) {
        let mut world = World::<2>::new(SteeringConfig::default(), seed);
        // Time enough to explore more than once.
        let pace = pace.max(Duration::from_micros(50));
        world.run(pace * 30_000, pace, noise, [1e5, 1e4]);
        prop_assert_eq!(world.chooser.decision().chosen, 1);
        prop_assert!(world.moves.len() <= 3, "{:?}", world.moves);
    }

    #[test]
    fn moves_stay_within_the_budget_whatever_the_costs(
        costs in prop::collection::vec((0.0..1e6, 0.0..1e6), 1..2_000),
        step_us in 1u64..100_000,
        burst in 0u32..6,
        period_ms in 1u64..5_000,
    ) {
        let period = Duration::from_millis(period_ms);
        let config = SteeringConfig {
            dwell: Duration::ZERO, switch_burst: burst, switch_period: period, ..SteeringConfig::default()
        };
        let mut chooser = Chooser::new(["left", "right"], Preference::Auto, config, Time::ZERO).expect("known");
        let mut moves = Vec::new();
        for (step, (left, right)) in costs.into_iter().enumerate() {
            let now = Time::from_nanos(step as u64 * step_us * 1_000);
            let evidence = [left, right].map(|ns| Evidence::Measured(Cost::known(ns)));
            moves.extend(chooser.review(now, &evidence).map(|decision| decision.since));
        }
        for (first, from) in moves.iter().enumerate() {
            for (last, until) in moves.iter().enumerate().skip(first) {
                let allowed = u128::from(burst) + (*until - *from).as_nanos() / period.as_nanos();
                prop_assert!((last - first + 1) as u128 <= allowed);
            }
        }
    }
}

#[test]
fn a_lead_that_comes_and_goes_does_not_add_up() {
    let config = SteeringConfig::default();
    let mut chooser = Chooser::new([0, 1], Preference::Auto, config, Time::ZERO).expect("known");
    let leading = [Cost::known(150.0), Cost::known(100.0)].map(Evidence::Measured);
    let level = [Cost::known(100.0), Cost::known(100.0)].map(Evidence::Measured);
    let mut now = Time::ZERO;
    for round in 0..10_000 {
        now += Duration::from_millis(1);
        let evidence = if round % 4 == 3 { &level } else { &leading };
        assert_eq!(chooser.review(now, evidence), None);
    }
}

#[test]
fn two_good_rivals_do_not_block_each_other() {
    let mut chooser =
        Chooser::new([0, 1, 2], Preference::Auto, SteeringConfig::default(), Time::ZERO).expect("known");
    let mut now = Time::ZERO;
    let moved = (0..100).find_map(|round| {
        now += Duration::from_millis(1);
        let (left, right) = if round % 2 == 0 { (99.0, 100.0) } else { (100.0, 99.0) };
        chooser.review(now, &[150.0, left, right].map(|ns| Evidence::Measured(Cost::known(ns))))
    });
    assert_eq!(moved.map(|decision| decision.reason), Some(Reason::Cheaper));
}
