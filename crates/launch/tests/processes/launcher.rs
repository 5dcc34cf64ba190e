//! A launcher that is interrupted or killed: this file's program, started again as one.

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::support::{Lines, PATIENCE, ends};
use outboard_launch::{Console, DaemonConfig, DaemonProcess, Interrupts, Launch, Quota, StdinTo, Style};
use rustix::process::{Pid, Signal, kill_process};

const ROLE: &str = "OUTBOARD_LAUNCH_TEST_ROLE";
const SCRIPT: &str = "OUTBOARD_LAUNCH_TEST_SCRIPT";

/// What a child does.
pub(crate) fn play() {
    let role = std::env::var(ROLE).unwrap();
    let script = std::env::var(SCRIPT).unwrap();
    let code = match role.as_str() {
        "job" => launch_job(&script),
        "daemon" => launch_daemon(&script),
        other => panic!("{other}"),
    };
    std::process::exit(code);
}

fn launch_job(script: &str) -> i32 {
    let interrupts = Interrupts::catch().unwrap();
    let launch = Launch::new("sh").args(["-c", script]).ranks(2).stdin(StdinTo::Rank(0));
    let running = launch.env(|rank| vec![("RANK".into(), rank.to_string())]).grace(Duration::from_secs(600));
    let mut console = Console::stdio(Style::Prefixed).unwrap();
    let outcome = running.start().unwrap().wait(&mut console, Some(&interrupts)).unwrap();
    eprintln!("outcome: {outcome}");
    outcome.exit_code().into()
}

fn launch_daemon(script: &str) -> i32 {
    let quota = Quota::percent(20);
    let args = vec!["-c".into(), script.into()];
    let config = DaemonConfig { args, quota, ..DaemonConfig::new("daemon", "sh") };
    let daemon = DaemonProcess::start(config, Console::stdio(Style::Prefixed).unwrap()).unwrap();
    println!("limit: {}", daemon.limit().unwrap());
    println!("pid: {}", daemon.pid());
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    0
}

/// This program again, in a role.
struct Launcher {
    child: Child,
    out: Lines,
    err: Lines,
}

impl Launcher {
    fn start(role: &str, script: &str) -> Self {
        // Tests may run where signals are ignored, as under nohup, and a launcher respects that.
        let mut command = Command::new("env");
        command.arg("--default-signal=HUP,INT,TERM");
        let mut command = outboard_child::again_by(command);
        command.env(ROLE, role).env(SCRIPT, script);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (out, err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        Self { out: Lines::of(out), err: Lines::of(err), child }
    }

    fn send(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn exit_code(mut self) -> Option<i32> {
        assert!(ends(self.child.id()), "the launcher did not end within {PATIENCE:?}");
        self.child.wait().unwrap().code()
    }
}

impl Drop for Launcher {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_killed_launcher_leaves_no_rank_and_nothing_that_a_rank_started() {
    let script = "sleep 600 > /dev/null 2>&1 & echo pids $$ $!; wait";
    let launcher = Launcher::start("job", script);
    let lines = [launcher.out.with("pids"), launcher.out.with("pids")];
    let pids: Vec<u32> = lines.iter().flat_map(|line| line.split(' ')).flat_map(str::parse).collect();
    assert_eq!(pids.len(), 4, "{lines:?}");
    launcher.send(Signal::KILL);
    assert_eq!(launcher.exit_code(), None);
    for pid in pids {
        assert!(ends(pid), "{pid}");
    }
}

#[test]
fn an_interrupt_asks_the_ranks_to_end() {
    for (signal, name) in [(Signal::INT, "SIGINT"), (Signal::TERM, "SIGTERM"), (Signal::HUP, "SIGHUP")] {
        let launcher = Launcher::start("job", "echo here I am; exec sleep 600");
        launcher.out.with("here I am");
        launcher.out.with("here I am");
        launcher.send(signal);
        let outcome = launcher.err.with("outcome");
        assert_eq!(outcome, format!("outcome: interrupted by {name}; ended ranks 0, 1"));
        assert_eq!(launcher.exit_code(), Some(1));
    }
}

#[test]
fn a_second_interrupt_kills_them_at_once() {
    let script = "trap 'echo never' TERM; echo here I am; while :; do sleep 0.01; done";
    let launcher = Launcher::start("job", script);
    for part in ["here I am", "here I am"] {
        launcher.out.with(part);
    }
    launcher.send(Signal::INT);
    for part in ["never", "never"] {
        launcher.out.with(part);
    }
    launcher.send(Signal::INT);
    let expected = "outcome: interrupted by SIGINT; ended ranks 0, 1; had to kill ranks 0, 1";
    assert_eq!(launcher.err.with("outcome"), expected);
    assert_eq!(launcher.exit_code(), Some(1));
}

#[test]
fn standard_input_goes_to_the_rank_that_was_named() {
    let mut launcher = Launcher::start("job", "wc -c");
    let mut stdin = launcher.child.stdin.take().unwrap();
    stdin.write_all(&vec![b'x'; 1_000_000]).unwrap();
    drop(stdin);
    let counts = [launcher.out.with("["), launcher.out.with("[")];
    // On one processor the name of the test comes before what is printed first.
    let is_counted = |count: &str| counts.iter().any(|line| line.ends_with(count));
    assert!(is_counted("[0] 1000000") && is_counted("[1] 0"), "{counts:?}");
    assert_eq!(launcher.exit_code(), Some(0));
}

#[test]
fn a_killed_launcher_leaves_no_daemon_and_the_next_one_removes_its_control_group() {
    let launcher = Launcher::start("daemon", "echo ready > /proc/self/fd/$OUTBOARD_READY_FD; exec sleep 600");
    let limit = launcher.out.with("limit: ");
    let pid = launcher.out.number_with("pid: ");
    launcher.send(Signal::KILL);
    assert_eq!(launcher.exit_code(), None);
    assert!(ends(pid));
    let Some((_, group)) = limit.split_once("control group ") else { return };
    let until = std::time::Instant::now() + PATIENCE;
    while std::path::Path::new(group).exists() {
        assert!(std::time::Instant::now() < until, "{group} is still there");
        let mut process = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        drop(Quota::percent(50).unwrap().apply(process.id()).unwrap());
        drop(process.stdin.take());
        process.wait().unwrap();
    }
}
