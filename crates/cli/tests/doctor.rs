//! What a script sees of `outboard doctor`.

use std::process::{Command, Output};

use serde_json::Value;

fn doctor(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_outboard"))
        .arg("doctor")
        .args(arguments)
        .output()
        .expect("outboard was built")
}

/// Whatever this machine lacks, the exit code and the JSON agree about it.
#[test]
fn the_exit_code_tells_whether_something_needed_is_missing() {
    let output = doctor(&["--json", "--peer", "unix:@agent", "--peer", "tcp:127.0.0.1:7000"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let missing = report["summary"]["missing"].as_u64().unwrap();
    assert_eq!(output.status.code(), Some(i32::from(missing > 0)), "{report}");
    assert_eq!(output.stderr.is_empty(), missing == 0, "{report}");
    assert_eq!(report["choices"][1]["link"], "tcp");
    let table = doctor(&[]);
    assert!(String::from_utf8(table.stdout).unwrap().contains("userfaultfd"));
}

#[test]
fn a_peer_without_an_address_is_wrong_usage() {
    let output = doctor(&["--peer", "tcp:somewhere"]);
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("--peer") && message.contains("unix:@name"), "{message}");
}

#[test]
fn help_has_examples() {
    let output = doctor(&["--help"]);
    assert!(output.status.success());
    assert!(String::from_utf8(output.stdout).unwrap().contains("Examples:"));
}
