//! `outboard status`: what the daemons count.

use serde_json::Value;

use outboard_e2e::{Daemon, Process, outboard, run_outboard, socket};

use crate::terminal::Terminal;

#[test]
fn a_running_daemon_is_described_by_address_and_found_without() {
    let at = socket();
    let server = Daemon::of(outboard(&[
        "memory",
        "--listen",
        &at,
        "--listen",
        "tcp:127.0.0.1:0",
        "--name",
        "north",
        "--capacity",
        "1GiB",
    ]))
    .process;
    let text = run_outboard(&["status", &at]).succeeded();
    for part in ["memory server “north”", &at, "0 B of 1 GiB used, 0 regions", "went wrong  nothing"] {
        assert!(text.contains(part), "“{part}” is not in {text}");
    }
    assert!(text.lines().count() <= 10 && !text.contains('\x1b'), "{text}");
    let all = run_outboard(&["status", &at, "--all"]).succeeded();
    for part in ["memory server “north”", &at, "capacity", "1 GiB", "clients refused so far", "threads stuck"]
    {
        assert!(all.contains(part), "“{part}” is not in {all}");
    }
    let json = run_outboard(&["status", &at, "--json"]).json();
    assert_eq!(json[0]["pid"], server.pid());
    assert_eq!(json[0]["numbers"]["capacity_bytes"], 1 << 30);
    assert!(json[0]["uptime_s"].as_f64().unwrap() > 0.0 && json[0]["link"] == "shm", "{json}");
    if rustix::process::geteuid().is_root() {
        // The names of other users' sockets begin otherwise, and so does that of this test.
        let found = run_outboard(&["status", "--json"]).json();
        let is_ours = |daemon: &Value| daemon["addresses"].as_array().unwrap().contains(&at.clone().into());
        assert!(found.as_array().unwrap().iter().any(is_ours), "{found}");
    }
}

#[test]
fn what_went_wrong_is_told() {
    let at = socket();
    let _server = Daemon::of(outboard(&["memory", "--listen", &at, "--capacity", "1MiB"])).process;
    let reserve = ["memory", "reserve", "--server", &at, "--name", "large", "--size", "1GiB"];
    run_outboard(&["kv", "get", "key", "--table", "nope", "--server", &at]).failed(1, &["no table “nope”"]);
    let text = run_outboard(&["status", &at]).succeeded();
    assert!(text.contains("went wrong  nothing"), "a name that is not there is no trouble: {text}");
    run_outboard(&reserve).failed(1, &[]);
    let text = run_outboard(&["status", &at]).succeeded();
    assert!(text.contains("went wrong  questions refused so far: 1"), "{text}");
}

#[test]
fn a_watcher_on_a_terminal_sees_all_of_it_in_colour_unless_that_is_not_wanted() {
    let (one, other) = (socket(), socket());
    let _servers = [&one, &other].map(|at| Daemon::of(outboard(&["memory", "--listen", at])).process);
    for (variable, has_colour) in [("OTHER=1", true), ("NO_COLOR=1", false)] {
        let Some(mut watcher) = Terminal::start(variable, &["status", "--watch", &one, &other]) else {
            return;
        };
        let frame = watcher.frame();
        assert!(frame.len() < 24, "{frame:?}");
        let has = |part: &str| frame.iter().any(|line| line.contains(part));
        assert!(has(&one) && has(&other) && has("went wrong"), "{frame:?}");
        assert_eq!(has("\x1b[1m"), has_colour, "{frame:?}");
    }
}

#[test]
fn a_watcher_sees_rates_and_ends_when_nobody_reads() {
    let at = socket();
    let _server = Daemon::of(outboard(&["memory", "--listen", &at])).process;
    let mut watcher = Process::start(outboard(&["status", &at, "--watch", "--json"]));
    watcher.await_line("\"numbers\"");
    let second: Value = serde_json::from_str(&watcher.await_line("per_second")).unwrap();
    assert!(second[0]["per_second"]["clients_total"].is_number(), "{second}");
}

#[test]
fn a_daemon_that_is_not_there_is_named_and_the_others_are_shown() {
    let (at, gone) = (socket(), socket());
    let _server = Daemon::of(outboard(&["memory", "--listen", &at])).process;
    let ended = run_outboard(&["status", &at, &gone]);
    ended.failed(1, &[&gone]);
    assert!(ended.out.contains("memory server") && !ended.out.contains(&gone), "{ended:?}");
    let ended = run_outboard(&["status", &gone]);
    assert!(ended.out.is_empty() && ended.err.matches("Connection refused").count() == 1, "{ended:?}");
    let ended = run_outboard(&["status", &gone, "--json"]);
    assert_eq!((ended.code, ended.out.trim()), (Some(1), "[]"), "{ended:?}");
}
