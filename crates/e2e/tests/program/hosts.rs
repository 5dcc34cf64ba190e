//! `outboard run --hosts`: jobs on several machines, which here are one, reached by a shell that goes nowhere.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use outboard_e2e::{Ended, Folder, outboard, program};
use serde_json::Value;

/// A remote shell that runs what it is told on this machine.
struct Shell {
    path: String,
    _folder: Folder,
}

impl Shell {
    fn new() -> Self {
        let folder = Folder::new();
        let path = folder.write("shell", "#!/bin/sh\nshift\nexec \"$@\"\n");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
        Self { path, _folder: folder }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = outboard(&["run", "--log-level", "warn", "--shell", &self.path]);
        command.args(arguments);
        command
    }

    fn run(&self, arguments: &[&str]) -> Ended {
        Ended::of(&mut self.command(arguments))
    }
}

const TWO: [&str; 2] = ["--hosts", "one=127.0.0.1,two=127.0.0.2"];

#[test]
fn ranks_of_two_machines_meet_and_count() {
    let shell = Shell::new();
    let app = [program(), "app", "histogram", "--table", "1000", "--updates", "20K", "--check", "--json"];
    let arguments = [&TWO[..], &["-n", "4", "--agent", "none", "--no-prefix", "--"], &app].concat();
    let output = shell.run(&arguments);
    let report = output.json();
    assert_eq!(
        (&report["ranks"], &report["check"]["passed"]),
        (&Value::from(4), &Value::from(true)),
        "{report}"
    );
}

#[test]
fn hosts_are_read_from_standard_input() {
    let shell = Shell::new();
    let arguments = ["--hosts", "-", "--agent", "none", "--json", "--", "sh", "-c", "echo here"];
    let mut child = shell.command(&arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let hosts = "# two of them\none=127.0.0.1 slots=2\ntwo=127.0.0.2 slots=1\n";
    child.stdin.take().unwrap().write_all(hosts.as_bytes()).unwrap();
    let summary = Ended::from(child.wait_with_output().unwrap()).json();
    assert_eq!(
        (&summary["success"], &summary["nodes"][1]["first_rank"]),
        (&true.into(), &2.into()),
        "{summary}"
    );
}

#[test]
fn lines_show_the_ranks_of_the_whole_job_and_the_summary_the_machines() {
    let shell = Shell::new();
    let arguments =
        [&TWO[..], &["-n", "3", "--agent", "none", "--json", "--", "sh", "-c", "echo here"]].concat();
    let output = shell.run(&arguments);
    let shown = output.succeeded();
    for rank in 0..3 {
        assert!(shown.lines().any(|line| line == format!("[{rank}] here")), "{shown}");
    }
    let summary: Value = serde_json::from_str(shown.lines().last().unwrap()).unwrap();
    assert_eq!(summary["success"], true);
    assert_eq!(summary["nodes"][1]["host"], "two");
    assert_eq!((&summary["nodes"][1]["first_rank"], &summary["nodes"][1]["ranks"]), (&2.into(), &1.into()));
}

#[test]
fn a_rank_that_fails_ends_the_job_on_all_machines() {
    let shell = Shell::new();
    let program = "if [ $OUTBOARD_JOB_RANK = 1 ]; then exit 7; fi; exec sleep 600";
    let arguments = [&TWO[..], &["-n", "2", "--agent", "none", "--json", "--", "sh", "-c", program]].concat();
    let output = shell.run(&arguments);
    let message = &output.err;
    assert_eq!(output.code, Some(1), "{message}");
    assert!(message.contains("rank 1 exited with code 7") && message.contains("two: "), "{message}");
    let summary: Value = serde_json::from_str(&output.out).unwrap();
    assert_eq!((&summary["failed_host"], &summary["success"]), (&"two".into(), &false.into()));
}

#[test]
fn hosts_that_make_no_sense_are_named_and_nothing_is_started() {
    let shell = Shell::new();
    for (hosts, part) in
        [("one=elsewhere", "no IP address"), ("one slots=0", "slots=N"), ("slurm", "SLURM_JOB_NODELIST")]
    {
        let output = shell.run(&["--hosts", hosts, "--", "true"]);
        let message = &output.err;
        assert_eq!(output.code, Some(1), "{message}");
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn a_machine_that_cannot_be_reached_is_named() {
    let shell = Shell::new();
    std::fs::write(&shell.path, "#!/bin/sh\n[ $1 = one ] && { shift; exec \"$@\"; }\nexit 255\n").unwrap();
    let output = shell.run(&[&TWO[..], &["--agent", "none", "--", "sleep", "600"]].concat());
    let message = &output.err;
    assert_eq!(output.code, Some(1), "{message}");
    assert!(message.contains("two: exited with code 255"), "{message}");
}
