//! What a script sees of `outboard doctor`.

use outboard_e2e::{Ended, run_outboard};
use serde_json::Value;

fn doctor(arguments: &[&str]) -> Ended {
    run_outboard(&[&["doctor"], arguments].concat())
}

/// Whatever this machine lacks, the exit code and the JSON agree about it.
#[test]
fn the_exit_code_tells_whether_something_needed_is_missing() {
    let ended = doctor(&["--json", "--peer", "unix:@agent", "--peer", "tcp:127.0.0.1:7000"]);
    let report: Value = serde_json::from_str(&ended.out).unwrap();
    let missing = report["summary"]["missing"].as_u64().unwrap();
    assert_eq!(ended.code, Some(i32::from(missing > 0)), "{report}");
    assert_eq!(ended.err.is_empty(), missing == 0, "{report}");
    assert_eq!(report["choices"][1]["link"], "tcp");
    assert!(doctor(&[]).out.contains("userfaultfd"));
}

#[test]
fn a_peer_without_an_address_is_wrong_usage() {
    let ended = doctor(&["--peer", "tcp:somewhere"]);
    assert_eq!(ended.code, Some(2));
    let message = ended.err;
    assert!(message.contains("--peer") && message.contains("unix:@name"), "{message}");
}

#[test]
fn help_has_examples() {
    assert!(doctor(&["--help"]).succeeded().contains("Examples:"));
}
