//! Preferences are honoured, and an explanation says what was decided.

use std::time::Duration;

use outboard_steering::{
    Chooser, Cost, Evidence, Preference, Reason, Review, Site, SteeringConfig, Time, UnknownOption,
};
use proptest::prelude::*;

fn evidence() -> impl Strategy<Value = Evidence> {
    prop_oneof![
        1 => Just(Evidence::Unmeasured),
        1 => Just(Evidence::Excluded),
        6 => (0.0..1e6).prop_map(|ns| Evidence::Measured(Cost::known(ns))),
    ]
}

fn preference() -> impl Strategy<Value = Preference<Site>> {
    let site = || prop::sample::select(&Site::ALL[..]);
    prop_oneof![Just(Preference::Auto), site().prop_map(Preference::Hint), site().prop_map(Preference::Fixed)]
}

proptest! {
    #[test]
    fn explanations_agree_with_decisions(
        preference in preference(),
        rounds in prop::collection::vec(([evidence(), evidence(), evidence()], 0u64..50), 1..100),
    ) {
        let config = SteeringConfig::default();
        let mut chooser = Chooser::new(Site::ALL, preference, config, Time::ZERO).expect("known");
        let mut now = Time::ZERO;
        for (evidence, step_ms) in rounds {
            now += Duration::from_millis(step_ms);
            let former = chooser.decision().chosen;
            let moved = chooser.review(now, &evidence);
            let (decision, explanation) = (*chooser.decision(), chooser.explain(now));
            prop_assert_eq!(explanation.chosen, decision.chosen);
            prop_assert_eq!(explanation.held, now - decision.since);
            prop_assert_eq!((explanation.reason, explanation.former), (decision.reason, decision.former));
            let known = |site: Site| match evidence[site as usize] {
                Evidence::Measured(cost) => Some(cost),
                _ => None,
            };
            prop_assert_eq!(explanation.cost, known(decision.chosen));
            let line = explanation.to_string();
            let start = format!("{} for ", decision.chosen);
            prop_assert!(line.starts_with(&start), "{}", line);
            if let Some(rival) = explanation.rival {
                prop_assert_ne!(rival.option, decision.chosen);
                prop_assert_eq!(Some(rival.cost), known(rival.option));
                let at = format!(" at {} (margin 20 %)", rival.option);
                prop_assert!(line.contains(&at), "{}", line);
            }
            if explanation.review == Review::Cheapest {
                prop_assert!(explanation.rival.is_some_and(|rival| Some(rival.cost) >= explanation.cost));
            }
            if let Some(moved) = moved {
                prop_assert_eq!((moved, moved.former, moved.since), (decision, Some(former), now));
                prop_assert!(!matches!(preference, Preference::Fixed(_)));
                prop_assert_ne!(evidence[moved.chosen as usize], Evidence::Excluded);
                if moved.reason == Reason::Cheaper && preference == Preference::Auto {
                    let (cost, former) = (moved.cost.expect("known"), moved.former_cost.expect("known"));
                    prop_assert!(former.ns() > cost.ns() * 1.2);
                }
            } else {
                prop_assert_eq!(decision.chosen, former);
            }
        }
    }

    #[test]
    fn a_fixed_choice_is_never_left_nor_explored_around(
        rounds in prop::collection::vec([evidence(), evidence(), evidence()], 1..50),
    ) {
        let fixed = Preference::Fixed(Site::Agent);
        let mut chooser = Chooser::new(Site::ALL, fixed, SteeringConfig::default(), Time::ZERO).expect("known");
        for (round, evidence) in rounds.iter().enumerate() {
            prop_assert_eq!(chooser.review(Time::from_nanos(round as u64 * 1_000_000_000), evidence), None);
            prop_assert!((0..100).all(|_| chooser.pick() == Site::Agent));
        }
    }
}

/// Reviews the same costs every millisecond for a second.
fn settle(preference: Preference<Site>, costs: [f64; 3]) -> Chooser<Site, 3> {
    let mut chooser =
        Chooser::new(Site::ALL, preference, SteeringConfig::default(), Time::ZERO).expect("known");
    for ms in 1..=1_000 {
        let evidence = costs.map(|ns| Evidence::Measured(Cost::known(ns)));
        chooser.review(Time::from_nanos(ms * 1_000_000), &evidence);
    }
    chooser
}

#[test]
fn a_hint_is_a_start_and_an_advantage_but_not_an_order() {
    let chosen = |costs| settle(Preference::Hint(Site::Agent), costs).decision().chosen;
    assert_eq!(chosen([100.0, 140.0, 100.0]), Site::Agent);
    assert_eq!(chosen([100.0, 150.0, 110.0]), Site::Application);
}

#[test]
fn an_unknown_option_is_refused_by_name() {
    let refused =
        Chooser::new([Site::Agent], Preference::Fixed(Site::Server), SteeringConfig::default(), Time::ZERO)
            .err();
    assert_eq!(refused, Some(UnknownOption { option: Site::Server }));
    assert_eq!(refused.expect("refused").to_string(), "server is not among the options here");
}

#[test]
fn an_excluded_choice_is_left_at_once_and_for_the_cheapest() {
    let mut chooser = settle(Preference::Auto, [100.0, 300.0, 200.0]);
    let [agent, server] = [300.0, 200.0].map(|ns| Evidence::Measured(Cost::known(ns)));
    let now = Time::from_nanos(1_001_000_000);
    let moved = chooser.review(now, &[Evidence::Excluded, agent, server]).expect("moves");
    assert_eq!((moved.chosen, moved.reason), (Site::Server, Reason::FormerExcluded));
}

#[test]
fn the_lines_read_well() {
    let line =
        |preference, costs| settle(preference, costs).explain(Time::from_nanos(1_000_000_000)).to_string();
    assert_eq!(
        line(Preference::Auto, [9_800.0, 30_000.0, 4_100.0]),
        "server for 997 ms: it costs 4.1 µs against 9.8 µs at application (margin 20 %); it is the cheapest; \
         moved from application because it is cheaper"
    );
    assert_eq!(
        line(Preference::Auto, [110.0, 100.0, 4e9]),
        "application for 1.0 s: it costs 110 ns against 100 ns at agent (margin 20 %); \
         the difference is within margin and noise; chosen at the start"
    );
    assert_eq!(
        line(Preference::Fixed(Site::Agent), [5.0, 2.5e6, 12.0]),
        "agent for 1.0 s: it costs 2.5 ms against 5.0 ns at application (margin 20 %); nothing else is considered; \
         chosen by the user"
    );
    let fresh =
        Chooser::new(Site::ALL, Preference::Auto, SteeringConfig::default(), Time::ZERO).expect("known");
    assert_eq!(
        fresh.explain(Time::ZERO).to_string(),
        "application for 0 ns: nothing was measured lately; chosen at the start"
    );
}
