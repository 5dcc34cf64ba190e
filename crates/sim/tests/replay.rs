//! Every scenario keeps its promises under the first seeds, and a seed replays to the same digest.

use std::process::{Command, Output};

use outboard_sim::{Recorder, SCENARIOS};

#[test]
fn a_seed_replays_every_scenario_to_the_same_digest() {
    for scenario in SCENARIOS {
        let mut digests = Vec::new();
        for seed in 0..12 {
            let [first, again] = [0; 2].map(|_| scenario.run(seed, &Recorder::new(16)));
            assert_eq!(first.broken, None, "{first}");
            assert_eq!((first.digest, first.events), (again.digest, again.events), "{first} / {again}");
            assert!(first.events > 50, "{first}");
            digests.push(first.digest.value());
        }
        digests.sort_unstable();
        digests.dedup();
        assert_eq!(digests.len(), 12, "{} does not depend on its seed", scenario.name);
    }
}

fn program(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_outboard-sim")).args(args).output().expect("the program runs")
}

#[test]
fn the_program_prints_a_line_per_run() {
    let out = program(&["--seed", "7", "--scenario", "routing"]);
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(out.status.success(), "{text}");
    assert!(text.starts_with("seed 7: routing ok, "), "{text}");
    assert!(text.contains(" s virtual, digest ") && text.contains(", faults: "), "{text}");
}

#[test]
fn the_program_speaks_json_and_shows_traces() {
    let out = program(&["--seeds", "3..5", "--scenario", "steering", "--json"]);
    let text = String::from_utf8(out.stdout).unwrap();
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("a JSON object per line")).collect();
    assert_eq!(lines.len(), 2);
    assert_eq!((&lines[0]["seed"], &lines[0]["ok"]), (&3.into(), &true.into()));
    let out = program(&["--seed", "3", "--scenario", "memory", "--trace"]);
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(text.lines().any(|line| line.contains("owner") && line.contains("start life=1")), "{text}");
}

#[test]
fn wrong_usage_is_told_with_a_reason() {
    for (args, reason) in [
        (&["--seeds", "5..2"][..], "has no seed in it"),
        (&["--seed", "1", "--scenario", "nonsense"], "there are memory, daemons, steering"),
        (&[], "--seed <N>"),
        (&["--seed", "1", "--seeds", "0..2"], "cannot be used with"),
    ] {
        let out = program(args);
        let text = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(2), "{text}");
        assert!(text.contains(reason), "{text}");
    }
}
