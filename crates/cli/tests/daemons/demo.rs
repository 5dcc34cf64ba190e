//! `outboard demo`: everything works, and nothing is left.

use std::os::unix::process::CommandExt;

use serde_json::Value;

use crate::support::{Ended, outboard, program, socket_exists};

/// Whether any process was started by a demo with this process number.
fn leaves_processes(steps: &[Value]) -> Vec<String> {
    let started = steps.iter().filter_map(|step| step["result"].as_str()?.strip_prefix("process "));
    let pids = started.filter_map(|text| text.split_once(' ')).map(|(pid, _)| pid.to_owned());
    pids.filter(|pid| {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        name.starts_with("outboard")
    })
    .collect()
}

#[track_caller]
fn check(ended: Ended) {
    let json = ended.json();
    assert_eq!(json["success"], true, "{json}");
    let steps = json["steps"].as_array().unwrap();
    assert!(steps.len() >= 12 && steps.iter().all(|step| step["ok"] == true), "{json}");
    let figure = |name: &str| steps.iter().find_map(|step| step["figures"][name].as_f64()).expect(name);
    for name in [
        "attach_shm_p50_us",
        "echo_tcp_64KiB_p50_us",
        "write_shm_bytes_per_s",
        "far_graph_faults",
        "loss_shm_ms",
    ] {
        assert!(figure(name) > 0.0, "{name}: {json}");
    }
    assert_eq!(leaves_processes(steps), [""; 0]);
    let place =
        steps[0]["result"].as_str().unwrap().split(' ').find(|word| word.starts_with("unix:@")).unwrap();
    let stem = place.strip_prefix("unix:").unwrap().strip_suffix("memory").unwrap();
    assert!(stem.contains("demo-") && !socket_exists(stem), "{stem}");
}

#[test]
fn it_works_and_leaves_nothing_behind() {
    check(outboard(&["demo", "--json"]));
}

#[test]
fn people_get_a_table_of_what_happened() {
    let text = outboard(&["demo"]).succeeded();
    for part in [
        "every bit as in memory",
        "a job of 4 ranks",
        "kill -9 the agent",
        "demo-agent",
        "everything worked",
        "nothing is left",
    ] {
        assert!(text.contains(part), "“{part}” is not in {text}");
    }
}

/// Only root can play an ordinary user; an ordinary user has done so above.
#[test]
fn it_needs_no_privilege_and_no_settings() {
    let mut command = program(&["demo", "--json"]);
    command.env("OUTBOARD_CONFIG", "/no/such/file").env("OUTBOARD_LINK_RING", "nonsense").current_dir("/");
    if rustix::process::geteuid().is_root() {
        command.uid(65_534).gid(65_534);
    }
    check(Ended::from(command.output().unwrap()));
}
