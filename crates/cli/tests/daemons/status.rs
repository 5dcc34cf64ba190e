//! `outboard status`: what the daemons count.

use serde_json::Value;

use crate::support::{Running, outboard, program, socket};

#[test]
fn a_running_daemon_is_described_by_address_and_found_without() {
    let at = socket();
    let server = Running::daemon(&[
        "memory",
        "--listen",
        &at,
        "--listen",
        "tcp:127.0.0.1:0",
        "--name",
        "north",
        "--capacity",
        "1GiB",
    ]);
    let text = outboard(&["status", &at]).succeeded();
    for part in ["memory server “north”", &at, "capacity", "1 GiB", "regions"] {
        assert!(text.contains(part), "“{part}” is not in {text}");
    }
    let json = outboard(&["status", &at, "--json"]).json();
    assert_eq!(json[0]["pid"], server.pid().as_raw_nonzero().get());
    assert_eq!(json[0]["numbers"]["capacity_bytes"], 1 << 30);
    assert!(json[0]["uptime_s"].as_f64().unwrap() > 0.0 && json[0]["link"] == "shm", "{json}");
    if rustix::process::geteuid().is_root() {
        // The names of other users' sockets begin otherwise, and so does that of this test.
        let found = outboard(&["status", "--json"]).json();
        let is_ours = |daemon: &Value| daemon["addresses"].as_array().unwrap().contains(&at.clone().into());
        assert!(found.as_array().unwrap().iter().any(is_ours), "{found}");
    }
}

#[test]
fn a_watcher_sees_rates_and_ends_when_nobody_reads() {
    let at = socket();
    let _server = Running::daemon(&["memory", "--listen", &at]);
    let mut watcher = Running::start(program(&["status", &at, "--watch", "--json"]));
    watcher.await_line("\"numbers\"");
    let second: Value = serde_json::from_str(&watcher.await_line("per_second")).unwrap();
    assert!(second[0]["per_second"]["clients_total"].is_number(), "{second}");
}

#[test]
fn a_daemon_that_is_not_there_is_named_and_the_others_are_shown() {
    let (at, gone) = (socket(), socket());
    let _server = Running::daemon(&["memory", "--listen", &at]);
    let ended = outboard(&["status", &at, &gone]);
    ended.failed(1, &[&gone]);
    assert!(ended.out.contains("memory server") && !ended.out.contains(&gone), "{ended:?}");
    let ended = outboard(&["status", &gone]);
    assert!(ended.out.is_empty() && ended.err.matches("Connection refused").count() == 1, "{ended:?}");
    let ended = outboard(&["status", &gone, "--json"]);
    assert_eq!((ended.code, ended.out.trim()), (Some(1), "[]"), "{ended:?}");
}
