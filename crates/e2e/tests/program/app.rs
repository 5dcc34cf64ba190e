//! `outboard app` as people and scripts use it: every application as several processes.

use std::process::Command;

use outboard_e2e::{Ended, program, run_outboard};
use serde_json::Value;

/// Every application with a small input.
const APPS: [&[&str]; 6] = [
    &["histogram", "--table", "1000", "--updates", "20K"],
    &["index-gather", "--table", "1000", "--requests", "10K"],
    &["transpose", "--scale", "9", "--degree", "8"],
    &["triangles", "--scale", "8", "--degree", "8"],
    &["sssp", "--scale", "8", "--degree", "6"],
    &["transport", "--mesh", "6x5x4", "--particles", "600", "--steps", "3"],
];

fn run(arguments: &[&str]) -> Ended {
    run_outboard(&[&["app"], arguments].concat())
}

#[track_caller]
fn json(arguments: &[&str], more: &[&str]) -> Value {
    let ended = run(&[arguments, more, &["--json"]].concat());
    assert!(ended.err.is_empty(), "{arguments:?} {more:?}: {ended:?}");
    serde_json::from_str(&ended.succeeded()).expect("the program prints JSON")
}

#[track_caller]
fn refused(code: i32, arguments: &[&str], part: &str) {
    run(arguments).refused(code, part);
}

/// The result is what a serial run finds, and what other numbers of ranks find if it does not depend on them.
fn assert_right(app: &[&str]) {
    let mut alone = None;
    for ranks in ["1", "2", "3", "4"] {
        let found = json(app, &["-n", ranks, "--check"]);
        assert_eq!(found["check"]["passed"], true, "{found}");
        assert_eq!((&found["app"], &found["violation"]), (&Value::from(app[0]), &Value::Null));
        for field in ["seconds", "rate", "work", "bytes_sent", "bundles_sent", "bundle_bytes_average"] {
            assert!(found[field].as_f64().is_some_and(|value| value > 0.0), "{field}: {found}");
        }
        assert_traffic(&found, ranks != "1");
        let is_per_rank = matches!(app[0], "histogram" | "index-gather");
        let result = (found["work"].clone(), found["figures"].clone());
        if !is_per_rank {
            assert_eq!(*alone.get_or_insert_with(|| result.clone()), result, "{ranks} ranks");
        }
    }
}

/// What decides about the placement is there, and fits together.
fn assert_traffic(found: &Value, has_others: bool) {
    let traffic = &found["traffic"];
    assert_eq!(traffic["bytes_routed"], found["bytes_sent"]);
    let between = &traffic["hops"][1];
    assert!(between["bytes"].as_u64() <= found["bytes_sent"].as_u64(), "{found}");
    for number in [&between["bytes"], &between["average"], &traffic["network_utilisation"]] {
        assert_eq!(number.as_f64().map(|number| number > 0.0), Some(has_others), "{found}");
    }
    assert!(traffic["link_bytes_per_second"].as_f64().is_some_and(|rate| rate > 1e6), "{found}");
    let is_known = traffic["memory_bytes"].is_u64();
    for field in ["memory_to_communication", "memory_is_measured"] {
        assert_eq!(traffic[field].is_null(), !is_known, "{found}");
    }
}

#[test]
fn tables_beyond_the_caches_shift_the_balance() {
    let ratio = |table| {
        let found = json(&["histogram", "--updates", "20K", "--table", table], &[]);
        found["traffic"]["memory_to_communication"].as_f64()
    };
    if let Some((small, large)) = ratio("1Ki").zip(ratio("32Mi")) {
        assert!(large > small, "{large} is not more than {small}");
    }
}

#[test]
fn histogram_equals_its_reference() {
    assert_right(APPS[0]);
}

#[test]
fn index_gather_equals_its_reference() {
    assert_right(APPS[1]);
}

#[test]
fn transpose_equals_its_reference() {
    assert_right(APPS[2]);
}

#[test]
fn triangles_equal_their_reference() {
    assert_right(APPS[3]);
}

#[test]
fn shortest_paths_equal_their_reference() {
    assert_right(APPS[4]);
}

#[test]
fn transport_equals_its_reference() {
    assert_right(APPS[5]);
}

#[test]
fn a_seed_decides_and_small_bundles_change_nothing() {
    let figures = |more: &[&str]| json(APPS[5], more)["figures"].clone();
    let usual = figures(&[]);
    assert_eq!(figures(&["--messages-bundle", "1KiB"]), usual);
    assert_ne!(figures(&["--seed", "2"]), usual);
    let small = json(APPS[0], &["--messages-bundle", "1KiB"]);
    assert!(small["bundle_bytes_average"].as_f64().unwrap() <= 1024.0, "{small}");
}

#[test]
fn ranks_that_share_no_memory_find_the_same() {
    for app in APPS {
        let found = json(app, &["-n", "3", "--check", "--job-listen", "tcp:127.0.0.1:0"]);
        assert_eq!(found["check"]["passed"], true, "{found}");
    }
}

#[test]
fn people_see_a_table_and_examples() {
    let table = run(&[APPS[0], &["--check"]].concat()).out;
    for part in [
        "histogram",
        "2 ranks",
        "updates/s",
        "average bundle",
        "network utilisation",
        "memory to communication",
        "passed",
    ] {
        assert!(table.contains(part), "{part}: {table}");
    }
    for app in APPS {
        let help = run(&[app[0], "--help"]).out;
        assert!(help.contains("Examples:") && help.contains(&format!("outboard app {}", app[0])), "{help}");
    }
}

#[test]
fn wrong_sizes_are_refused_before_anything_starts() {
    refused(2, &["histogram", "--table", "0"], "the table is 0, and must be from 1");
    refused(2, &["histogram", "--updates", "many"], "such as 1000, 20k, 4M or 4Mi");
    refused(2, &["histogram", "-n", "0"], "--ranks");
    refused(2, &["index-gather", "--requests", "5Gi"], "the number of requests");
    refused(2, &["transpose", "--scale", "40"], "the scale is 40");
    refused(2, &["sssp", "--scale", "4", "--source", "16"], "the source is 16");
    refused(2, &["sssp", "--delta", "0"], "--delta");
    refused(2, &["transport", "--mesh", "32x16"], "such as 32x16x16");
    refused(2, &["transport", "--mesh", "1x1x2", "-n", "3"], "cannot be cut into 3 blocks");
    refused(2, &["sailing"], "unrecognized subcommand");
}

#[test]
fn a_rank_that_cannot_go_on_ends_the_run() {
    // Four gigabytes of addresses for each process, and a table of eight.
    let limited = "ulimit -v 4194304 && exec \"$0\" app histogram --table 1Gi";
    let ended = Ended::of(Command::new("sh").args(["-c", limited, program()]));
    let message = ended.err;
    assert_eq!(ended.code, Some(1), "{message}");
    assert!(message.contains("no memory for 1073741824 elements of 8 bytes"), "{message}");
}

#[test]
fn agents_carry_what_applications_send() {
    for app in APPS {
        for agents in ["1", "3"] {
            let found = json(app, &["-n", "4", "--agents", agents, "--check"]);
            assert_eq!(found["check"]["passed"], true, "{found}");
            let hops = found["traffic"]["hops"].as_array().unwrap();
            let bundles = |name: &str| {
                let hop = hops.iter().find(|hop| hop["hop"] == name).unwrap();
                hop["bundles"].as_u64().unwrap()
            };
            let processors = outboard_launch::allowed_cpus().unwrap().len();
            let is_crowded = 4 + agents.parse::<usize>().unwrap() > processors;
            assert_eq!(found["agents_share_processors"], is_crowded, "{found}");
            assert!(bundles("into_agents") > 0 && bundles("agent_to_rank") > 0, "{found}");
            assert_eq!(bundles("agent_to_agent") > 0, agents != "1", "{found}");
        }
    }
    refused(2, &["histogram", "--agents", "65"], "--agents");
}
