//! `cargo xtask miri`: runs the tests of the packages without system calls under Miri.

use std::process::{Command, Stdio};

use anyhow::Result;

use crate::process;
use crate::step::Outcome;
use crate::tally::Tally;
use crate::workspace::Workspace;

/// What Miri can run: no sockets, memfds or shared mappings. Tests in these packages that need one say
/// `#[cfg_attr(miri, ignore = "…")]`.
const PACKAGES: &[&str] = &["outboard-wire", "outboard-steering", "outboard-link"];

/// Runs the unit tests of [`PACKAGES`] under Miri, if a nightly toolchain with Miri is installed.
pub(crate) fn run(workspace: &Workspace) -> Result<(Outcome, Tally)> {
    if !is_installed() {
        let reason = "no nightly toolchain with miri (rustup +nightly component add miri)";
        return Ok((Outcome::Skipped(reason.to_owned()), Tally::default()));
    }
    let mut command = Command::new("rustup");
    command.args(["run", "nightly", "cargo", "miri", "test", "--lib", "--no-fail-fast"]);
    for package in PACKAGES.iter().filter(|name| workspace.has_package(name)) {
        command.args(["-p", package]);
    }
    command.current_dir(&workspace.root).stdin(Stdio::null());
    // Miri is some hundred times slower than the processor.
    command.env("PROPTEST_CASES", "4");
    process::run_tests(command)
}

fn is_installed() -> bool {
    let mut command = Command::new("rustup");
    command.args(["run", "nightly", "cargo", "miri", "--version"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
