//! `outboard up`: a cluster that comes and goes as a whole.

use std::os::unix::process::CommandExt;

use rustix::process::{Pid, Signal};

use outboard_e2e::{Ended, Process, await_end, outboard, run_outboard, socket, socket_exists};

use crate::terminal::Terminal;

fn start(memory: &str, agent: &str) -> (Process, Vec<u32>) {
    let arguments = ["up", "--memory-listen", memory, "--agent-listen", agent, "--memory-capacity", "64MiB"];
    let mut cluster = Process::start(outboard(&arguments));
    let pids = ["memory (process", "agent (process"].map(|part| {
        let line = cluster.await_line(part);
        let number = line.split_once("(process ").unwrap().1.split_once(')').unwrap().0;
        number.parse().unwrap()
    });
    cluster.await_line("agent: memory servers connected 1");
    (cluster, pids.to_vec())
}

#[test]
fn it_serves_until_it_is_interrupted_and_leaves_nothing() {
    let (memory, agent) = (socket(), socket());
    let (mut cluster, pids) = start(&memory, &agent);
    run_outboard(&["memory", "reserve", "--server", &memory, "--name", "a", "--size", "1MiB"]).succeeded();
    cluster.await_line("memory: regions 1");
    let second = run_outboard(&["up", "--memory-listen", &memory, "--agent-listen", &agent]);
    let owner = format!("{memory} is already in use by the memory server (process {})", pids[0]);
    second.failed(1, &[&owner, &agent, "`outboard status`", "--memory-listen"]);
    assert_eq!(second.err.trim_end().lines().count(), 1, "{second:?}");
    cluster.signal(Signal::INT);
    let (status, lines) = cluster.exit();
    assert_eq!(status.code(), Some(0), "{lines:?}");
    assert!(
        lines.iter().any(|line| line.contains("stopped: the agent and the memory server have ended")),
        "{lines:?}"
    );
    pids.into_iter().for_each(await_end);
    assert!(!socket_exists(&memory.replace("unix:", "")) && !socket_exists(&agent.replace("unix:", "")));
}

/// Only root can play an ordinary user who has no cluster yet; at root's usual sockets there may be one.
#[test]
fn its_memory_server_is_found_without_an_address_and_hosts_tables_and_trees() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can run this as a user of its own");
        return;
    }
    let user = 1_000_000 + std::process::id();
    let by = |arguments: &[&str]| {
        let mut command = outboard(arguments);
        command.uid(user).gid(user).current_dir("/");
        command
    };
    let run = |arguments: &[&str]| Ended::from(by(arguments).output().unwrap()).succeeded();
    let mut cluster = Process::start(by(&["up", "--memory-capacity", "64MiB"]));
    cluster.await_line("agent: memory servers connected 1");
    for arguments in [
        &["kv", "create", "--keys", "1000"][..],
        &["kv", "put", "greeting", "hello"],
        &["btree", "create", "--keys", "1000"],
        &["btree", "insert", "17", "4"],
        &["memory", "reserve", "--name", "table", "--size", "1MiB"],
    ] {
        run(arguments);
    }
    assert_eq!(run(&["kv", "get", "greeting"]), "hello\n");
    assert_eq!(run(&["btree", "get", "17"]), "4\n");
    let status = run(&["status"]);
    assert!(
        status.contains("3 regions") && status.contains(&format!("unix:@outboard-{user}-memory")),
        "{status}"
    );
    cluster.signal(Signal::INT);
    assert_eq!(cluster.exit().0.code(), Some(0));
}

#[test]
fn it_fits_a_small_terminal_with_the_addresses_in_view() {
    let (memory, agent) = (socket(), socket());
    let arguments = ["up", "--memory-listen", &memory, "--agent-listen", &agent];
    let Some(mut cluster) = Terminal::start("NO_COLOR=1", &arguments) else { return };
    let frame = cluster.frame();
    assert!(frame.len() < 24 && frame.iter().all(|line| line.len() < 200), "{frame:?}");
    for part in [&memory, &agent, "per second", "went wrong", "Ctrl-C stops them"] {
        assert!(frame.iter().any(|line| line.contains(part)), "“{part}” is not in {frame:?}");
    }
}

#[test]
fn the_death_of_one_daemon_is_named_and_ends_the_other() {
    let (cluster, pids) = start(&socket(), &socket());
    rustix::process::kill_process(Pid::from_raw(pids[1].cast_signed()).unwrap(), Signal::KILL).unwrap();
    let (status, lines) = cluster.exit();
    assert_eq!(status.code(), Some(1), "{lines:?}");
    assert!(lines.iter().any(|line| line.contains("agent was killed by SIGKILL")), "{lines:?}");
    pids.into_iter().for_each(await_end);
}

#[test]
fn killed_without_warning_it_takes_its_daemons_along() {
    let (cluster, pids) = start(&socket(), &socket());
    cluster.signal(Signal::KILL);
    cluster.exit();
    pids.into_iter().for_each(await_end);
}
