use super::*;

/// The first promise that these settings break under the first seeds.
fn broken(config: SteeringConfig) -> Option<String> {
    (0..20).find_map(|seed| {
        let recorder = Recorder::new(8);
        play_with(seed, &recorder, config);
        recorder.broken().map(|broken| broken.promise)
    })
}

#[test]
fn the_default_settings_keep_their_promises() {
    assert_eq!(broken(SteeringConfig::default()), None);
}

#[test]
fn a_choice_that_is_too_slow_is_noticed() {
    let slow = SteeringConfig { dwell: Duration::from_millis(80), ..SteeringConfig::default() };
    let promise = broken(slow).unwrap();
    assert!(promise.contains("left in time"), "{promise}");
}

#[test]
fn a_choice_that_moves_at_every_whim_is_noticed() {
    let config = SteeringConfig {
        window: Duration::ZERO,
        min_samples: 1,
        margin_percent: 0,
        noise_factor: 0,
        dwell: Duration::ZERO,
        switch_burst: 1000,
        explore_after: Duration::ZERO,
        ..SteeringConfig::default()
    };
    let promise = broken(config).unwrap();
    assert!(promise.contains("cheaper") || promise.contains("too many"), "{promise}");
}
