//! No number, time or configuration makes steering panic or utter nonsense.

use std::time::Duration;

use outboard_steering::{Chooser, Cost, Estimate, Evidence, Preference, Signal, Site, SteeringConfig, Time};
use proptest::num::f64::ANY;
use proptest::prelude::*;

fn duration() -> impl Strategy<Value = Duration> {
    prop_oneof![
        Just(Duration::ZERO),
        Just(Duration::MAX),
        any::<u64>().prop_map(Duration::from_nanos),
        (0u64..10_000_000).prop_map(Duration::from_nanos),
    ]
}

prop_compose! {
    fn config()(
        durations in [duration(), duration(), duration(), duration(), duration()],
        counts in any::<[u32; 6]>(),
    ) -> SteeringConfig {
        let [window, stale_after, dwell, switch_period, explore_after] = durations;
        let [samples, margin_percent, noise_factor, switch_burst, explore_one_in, fast] = counts;
        SteeringConfig {
            window, min_samples: samples % 8, stale_after, margin_percent, noise_factor, dwell, switch_period,
            switch_burst, explore_after, explore_one_in, explore_fast_one_in: fast,
        }
    }
}

prop_compose! {
    fn estimate()(value in ANY, spread in ANY, nanos: u64, samples: u64) -> Estimate {
        Estimate { value, spread, measured_at: Time::from_nanos(nanos), samples }
    }
}

fn evidence() -> impl Strategy<Value = Evidence> {
    prop_oneof![
        Just(Evidence::Unmeasured),
        Just(Evidence::Excluded),
        ANY.prop_map(|ns| Evidence::Measured(Cost::known(ns))),
        (estimate(), estimate(), estimate())
            .prop_map(|(a, b, c)| Evidence::Measured((Cost::from(a) + Cost::from(b)).scaled_by(c))),
    ]
}

fn sensible(number: f64) -> bool {
    number.is_finite() && number >= 0.0
}

proptest! {
    #[test]
    fn signals_stay_finite(
        config in config(),
        samples in prop::collection::vec((ANY, any::<u64>(), 0usize..20), 1..100),
    ) {
        let mut signal = Signal::new(&config);
        for (sample, nanos, repeats) in samples {
            for step in 0..=repeats as u64 {
                signal.observe(Time::from_nanos(nanos.wrapping_add(step << 20)), sample);
            }
            if let Some(estimate) = signal.estimate() {
                prop_assert!(estimate.value.is_finite() && sensible(estimate.spread), "{:?}", estimate);
            }
        }
    }

    #[test]
    fn choosers_survive_anything(
        config in config(),
        rounds in prop::collection::vec(
            ([evidence(), evidence(), evidence()], any::<u64>(), 0usize..50), 1..100,
        ),
    ) {
        let hint = Preference::Hint(Site::Server);
        let mut chooser = Chooser::new(Site::ALL, hint, config, Time::ZERO).expect("known");
        for (evidence, nanos, picks) in rounds {
            let now = Time::from_nanos(nanos);
            chooser.review(now, &evidence);
            for _ in 0..picks {
                let picked = chooser.pick();
                let usable = evidence[picked as usize] != Evidence::Excluded;
                prop_assert!(usable || picked == chooser.decision().chosen);
            }
            let explanation = chooser.explain(now);
            for cost in explanation.cost.into_iter().chain(explanation.rival.map(|rival| rival.cost)) {
                prop_assert!(sensible(cost.ns()) && sensible(cost.spread_ns()), "{:?}", cost);
            }
            prop_assert!(!explanation.to_string().contains("NaN"));
        }
    }
}
