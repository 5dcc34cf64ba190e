//! `cargo xtask miri`: runs tests that make no system calls under Miri.

use std::process::{Command, Stdio};

use anyhow::Result;

use crate::process;
use crate::step::Outcome;
use crate::tally::Tally;
use crate::workspace::Workspace;

/// What Miri can run: no sockets, memfds or shared mappings. Of a package with some, the tests whose names begin so.
const TESTS: &[(&str, &[&str])] = &[
    ("outboard-wire", &[]),
    ("outboard-steering", &[]),
    ("outboard-routing", &[]),
    ("outboard-writing", &[]),
    ("outboard-contract", &["memory::copy", "memory::window"]),
    ("outboard-link", &["ring::", "shaped::queue", "patience"]),
];

/// Runs the unit tests of [`TESTS`] under Miri, if a nightly toolchain with Miri is installed.
pub(crate) fn run(workspace: &Workspace) -> Result<(Outcome, Tally)> {
    if !is_installed() {
        let reason = "no nightly toolchain with miri (rustup +nightly component add miri)";
        return Ok((Outcome::Skipped(reason.to_owned()), Tally::default()));
    }
    let mut total = Tally::default();
    let mut failed = Vec::new();
    for (package, names) in TESTS {
        let mut command = Command::new("rustup");
        command.args([
            "run",
            "nightly",
            "cargo",
            "miri",
            "test",
            "--lib",
            "--no-fail-fast",
            "-p",
            package,
            "--",
        ]);
        command.args(*names).current_dir(&workspace.root).stdin(Stdio::null());
        // Miri is some hundred times slower than the processor, and proptest asks for the current folder.
        command.env("PROPTEST_CASES", "2").env("MIRIFLAGS", "-Zmiri-disable-isolation");
        let (outcome, tally) = process::run_tests(command)?;
        total += tally;
        if let Outcome::Failed(reason) = outcome {
            failed.push(format!("{package}: {reason}"));
        }
    }
    let outcome = if failed.is_empty() { Outcome::Passed } else { Outcome::Failed(failed.join("\n")) };
    Ok((outcome, total))
}

fn is_installed() -> bool {
    let mut command = Command::new("rustup");
    command.args(["run", "nightly", "cargo", "miri", "--version"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
