//! `cargo xtask test`: whether it works on this machine, within minutes.

use anyhow::Result;

use crate::process;
use crate::step::Outcome;
use crate::workspace::Workspace;

/// What is run: the state machines of the four services, what the kernel must do for us, and daemons, jobs and the demo as
/// real processes.
const TESTS: &[&str] = &[
    "test",
    "-p",
    "outboard-wire",
    "-p",
    "outboard-steering",
    "-p",
    "outboard-paging",
    "-p",
    "outboard-routing",
    "-p",
    "outboard-writing",
    "-p",
    "outboard-userfaultfd",
    "-p",
    "outboard-cli",
    "--lib",
    "--bins",
    "--test",
    "daemons",
    "--test",
    "doctor",
    "--test",
    "app",
    "--no-fail-fast",
    "--",
    "--show-output",
];

/// Runs the tests and ends with the totals.
pub(crate) fn run(workspace: &Workspace) -> Result<Outcome> {
    let (outcome, tally) = process::run_tests(process::cargo(workspace, TESTS))?;
    println!("\n{} passed, {} failed, {} skipped", tally.passed, tally.failed, tally.skipped);
    Ok(match outcome {
        Outcome::Failed(_) => Outcome::Failed(String::new()),
        outcome => outcome,
    })
}
