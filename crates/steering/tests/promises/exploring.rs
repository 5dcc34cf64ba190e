//! What is not chosen is measured again, at a bounded price, and never chosen unmeasured.

use std::time::Duration;

use outboard_steering::{Chooser, Cost, Estimate, Evidence, Preference, Reason, Site, SteeringConfig, Time};
use proptest::prelude::*;

use crate::world::{Noise, World, pace};

fn measured(ns: f64, measured_at: Time) -> Evidence {
    Evidence::Measured(Cost::from(Estimate { value: ns, spread: 0.0, measured_at, samples: 12 }))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn no_run_of_picks_explores_more_than_allowed(
        fast in 1u32..32, one_in in 0u32..256, picks_per_review in 1usize..100,
        costs in prop::collection::vec(prop::option::of(0.0..1e6), 3),
    ) {
        let config = SteeringConfig { explore_fast_one_in: fast, explore_one_in: one_in, ..SteeringConfig::default() };
        let mut chooser = Chooser::new(Site::ALL, Preference::Auto, config, Time::ZERO).expect("known");
        let mut explored_at = Vec::new();
        let mut now = Time::ZERO;
        for pick in 0..20_000u64 {
            if (pick as usize).is_multiple_of(picks_per_review) {
                now += Duration::from_millis(1);
                let evidence = [0, 1, 2].map(|index| match costs[index] {
                    Some(ns) => measured(ns, Time::ZERO),
                    None => Evidence::Unmeasured,
                });
                chooser.review(now, &evidence);
            }
            if chooser.pick() != chooser.decision().chosen {
                explored_at.push(pick);
            }
        }
        prop_assert!(explored_at.windows(2).all(|pair| pair[1] - pair[0] >= u64::from(fast)));
        prop_assert!(one_in > 0 || explored_at.is_empty());
    }

    #[test]
    fn exploring_dearer_options_costs_at_most_its_share(
        seed: u64, pace in pace(), first in 1.0..500.0, second in 1.0..500.0,
    ) {
        let config = SteeringConfig::default();
        let costs = [1e4, 1e4 * first, 1e4 * second];
        let mut world = World::<3>::new(config, seed);
        world.run(pace * 5_000, pace, Noise::Uniform(0.05), costs);
        let learnt = world.picks;
        world.run(pace * 100_000, pace, Noise::Uniform(0.05), costs);
        let spent = |index: usize| (world.picks[index] - learnt[index]) as f64 * costs[index];
        // One pick of each may have been due already when the count began.
        let due = costs[1] + costs[2];
        let share = spent(0) / f64::from(config.explore_one_in);
        prop_assert!(spent(1) + spent(2) <= share * 1.1 + due, "{:?}", world.picks);
    }

    #[test]
    fn an_option_that_recovers_is_found_again(seed: u64, pace in pace(), factor in 2.0..20.0) {
        let mut world = World::<2>::new(SteeringConfig::default(), seed);
        let noise = Noise::Uniform(0.05);
        world.run(Duration::from_millis(300) + pace * 10_000, pace, noise, [1e4, 1e4 * factor]);
        prop_assert_eq!(world.chooser.decision().chosen, 0);
        // Twenty exploring picks, half as many again, and the age at which they begin.
        let patience = pace * (20.0 * 64.0 * 1.5 * factor) as u32 + Duration::from_millis(300);
        world.run(patience, pace, noise, [1e4, 1e4 / factor]);
        prop_assert_eq!(world.chooser.decision().chosen, 1);
    }

    #[test]
    fn nothing_is_chosen_on_stale_measurements(
        steps in prop::collection::vec((0u64..3_000, 0u64..4_000, 0.0..1e6, 0.0..1e6), 1..200),
    ) {
        let config = SteeringConfig { dwell: Duration::ZERO, switch_burst: u32::MAX, ..SteeringConfig::default() };
        let mut chooser = Chooser::new([0, 1], Preference::Auto, config, Time::ZERO).expect("known");
        let mut now = Time::from_nanos(10_000_000_000);
        for (step_ms, age_ms, left, right) in steps {
            now += Duration::from_millis(step_ms);
            let then = Time::from_nanos(now.as_nanos() - age_ms * 1_000_000);
            let evidence = [measured(left, then), measured(right, now)];
            if let Some(decision) = chooser.review(now, &evidence) {
                let cost = decision.cost.expect("a move rests on a cost");
                prop_assert!(now - cost.measured_at() < config.stale_after);
            }
        }
    }
}

#[test]
fn an_option_that_never_answers_is_asked_ever_more_rarely() {
    let mut chooser =
        Chooser::new([0, 1], Preference::Auto, SteeringConfig::default(), Time::ZERO).expect("known");
    let mut explored = 0;
    for pick in 0..1_000_000 {
        chooser
            .review(Time::from_nanos(pick), &[measured(100.0, Time::from_nanos(pick)), Evidence::Unmeasured]);
        explored += u32::from(chooser.pick() != 0);
    }
    assert!((100..400).contains(&explored), "{explored}");
}

#[test]
fn exploring_keeps_out_of_step_with_periodic_work() {
    let mut chooser =
        Chooser::new([0, 1], Preference::Auto, SteeringConfig::default(), Time::ZERO).expect("known");
    let now = Time::from_nanos(1_000_000_000);
    chooser.review(now, &[measured(100.0, now), measured(100.0, Time::ZERO)]);
    let mut phases = [false; 8];
    for pick in 0..100_000 {
        phases[pick % 8] |= chooser.pick() == 1;
    }
    assert_eq!(phases, [true; 8]);
}

#[test]
fn a_silent_choice_is_left_for_a_measured_one() {
    let config = SteeringConfig::default();
    let mut chooser = Chooser::new([0, 1], Preference::Auto, config, Time::ZERO).expect("known");
    let mut now = Time::ZERO;
    let moved = std::iter::repeat_with(|| {
        now += Duration::from_millis(1);
        chooser.review(now, &[measured(1.0, Time::ZERO), measured(100.0, now)])
    })
    .take(3_000)
    .flatten()
    .next()
    .expect("moves");
    assert_eq!((moved.chosen, moved.reason), (1, Reason::FormerStale));
    let waited = moved.since - Time::ZERO;
    assert!(waited >= config.stale_after && waited <= config.stale_after + 2 * config.dwell, "{waited:?}");
}
