//! `outboard demo`: everything works, and nothing is left.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Instant;

use rustix::process::Signal;
use serde_json::Value;

use outboard_e2e::{Ended, PATIENCE, Process, outboard, socket_exists};

/// Runs a demo to its end. Nothing of it is left then.
#[track_caller]
fn run(mut command: Command) -> Ended {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let stem = stem(child.id());
    let ended = Ended::from(child.wait_with_output().unwrap());
    leaves_nothing(&stem);
    ended
}

/// What the names of all sockets of a demo with this process number contain.
fn stem(pid: u32) -> String {
    format!("demo-{pid}-")
}

/// Neither sockets nor processes that were told of these.
#[track_caller]
fn leaves_nothing(stem: &str) {
    assert!(!socket_exists(stem), "{stem}");
    let told = |pid: &str| {
        let variables = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        String::from_utf8_lossy(&variables).contains(stem)
    };
    let processes =
        std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let left: Vec<String> = processes.filter(|name| told(name)).collect();
    assert_eq!(left, [""; 0]);
}

#[test]
fn every_service_works_with_an_agent_and_when_that_is_killed() {
    let json = run(outboard(&["demo", "--json"])).json();
    assert_eq!(json["success"], true, "{json}");
    let steps = json["steps"].as_array().unwrap();
    assert!(steps.iter().all(|step| step["ok"] == true), "{json}");
    for service in ["links", "far memory", "messages", "functions", "remote writes"] {
        for name in [service.to_owned(), format!("{service}, agent killed")] {
            let step = steps.iter().find(|step| step["step"] == name).expect(&name);
            assert!(!step["gain"].as_str().unwrap().is_empty() || is_left_out(step), "{name}: {json}");
        }
    }
    let figure = |name: &str| steps.iter().find_map(|step| step["figures"][name].as_f64()).expect(name);
    for name in [
        "attach_shm_p50_us",
        "echo_64KiB_tcp_p50_us",
        "write_shm_bytes_per_s",
        "loss_shm_ms",
        "updates_inline_per_s",
        "updates_by_agent_per_s",
        "bundles_before_kill",
        "gets_at_server_per_s",
        "gets_at_agent_per_s",
        "gets_at_application_per_s",
        "puts_at_agent_before_kill",
        "writes_chosen_tcp_per_s",
    ] {
        assert!(figure(name) > 0.0, "{name}: {json}");
    }
    let said = steps.iter().find(|step| step["step"] == "functions").unwrap()["result"].as_str().unwrap();
    for (site, place) in
        [("server", "at the memory server"), ("agent", "at the agent"), ("application", "here")]
    {
        let rate = figure(&format!("gets_at_{site}_per_s"));
        let shown = match rate {
            1e6.. => format!("{:.1} M/s {place}", rate / 1e6),
            1e3.. => format!("{:.0} k/s {place}", rate / 1e3),
            _ => format!("{rate:.0}/s {place}"),
        };
        assert!(said.contains(&shown), "{shown}: {said}");
    }
    assert!(figure("slots_at_server_when_loaded") <= 64.0, "calls leave a loaded server: {json}");
    if !steps.iter().any(is_left_out) {
        assert!(3.0 * figure("far_graph_buffer_bytes") <= 1.5 * figure("far_graph_bytes"), "{json}");
        assert!(figure("far_graph_faults_before_kill") > 0.0 && figure("far_graph_faults_after_kill") > 0.0);
    }
}

/// Where the kernel does not let a user serve page faults, far memory is left out, with the reason.
fn is_left_out(step: &Value) -> bool {
    step["result"].as_str().is_some_and(|text| text.starts_with("left out: "))
}

/// Only root can play an ordinary user; for an ordinary user all tests are this one.
#[test]
fn people_get_a_table_without_privilege_and_without_settings() {
    let mut command = outboard(&["demo"]);
    command.env("OUTBOARD_CONFIG", "/no/such/file").env("OUTBOARD_LINK_RING", "nonsense").current_dir("/");
    if rustix::process::geteuid().is_root() {
        command.uid(65_534).gid(65_534);
    }
    let text = run(command).succeeded();
    for part in ["what it gained", "far memory", "messages", "functions", "agent killed", "everything worked"]
    {
        assert!(text.contains(part), "“{part}” is not in {text}");
    }
    assert!(!text.contains('\x1b'), "colours are for terminals: {text}");
}

#[test]
fn an_interrupted_demo_says_so_and_leaves_nothing() {
    let demo = Process::start(outboard(&["demo"]));
    let stem = stem(demo.pid());
    let until = Instant::now() + PATIENCE;
    while !socket_exists(&stem) {
        assert!(Instant::now() < until, "it starts no daemon");
        std::thread::yield_now();
    }
    demo.signal(Signal::INT);
    let (status, lines) = demo.exit();
    assert_eq!(status.code(), Some(1), "{lines:?}");
    assert!(lines.iter().any(|line| line.contains("interrupted; everything is stopped")), "{lines:?}");
    leaves_nothing(&stem);
}
