//! `cargo xtask sanitize`: unit tests under tools that watch memory and threads.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::Result;
use clap::ValueEnum;

use crate::process;
use crate::step::Outcome;
use crate::tally::Tally;
use crate::workspace::Workspace;

/// Run unit tests under sanitizers
///
/// ThreadSanitizer finds data races, AddressSanitizer wrong accesses and leaks; both compile the standard library
/// anew, which needs the sources of a toolchain (rust-src). Valgrind runs the ordinary tests of rooms that compile no
/// functions. What cannot run here is skipped with a reason.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  cargo xtask sanitize                            all of them
  cargo xtask sanitize thread                     one of them
  rustup component add --toolchain nightly rust-src     once, for thread and address")]
pub(crate) struct Args {
    /// Only this one
    #[arg(value_enum)]
    tool: Option<Tool>,
}

impl Args {
    /// The arguments for all tools.
    pub(crate) fn all() -> Self {
        Self { tool: None }
    }
}

/// What watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Tool {
    Thread,
    Address,
    Valgrind,
}

/// The rooms whose threads and shared memory meet, and those that are mostly unsafe. ThreadSanitizer sees nothing of what
/// another process or the kernel does, and no machine code that the engine makes.
const SANITIZED: &[&str] = &[
    "outboard-contract",
    "outboard-link",
    "outboard-userfaultfd",
    "outboard-paging",
    "outboard-routing",
    "outboard-ebpf",
    "outboard-calling",
    "outboard-writing",
    "outboard-driver",
];

/// Valgrind executes one thread at a time, some thirty times slower than the processor: rooms without I/O.
const UNDER_VALGRIND: &[&str] = &["outboard-wire", "outboard-paging", "outboard-routing", "outboard-writing"];

/// Runs the tools, one after the other.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<(Outcome, Tally)> {
    let (mut total, mut failed, mut skipped) = (Tally::default(), Vec::new(), Vec::new());
    let tools = Tool::value_variants().iter().filter(|tool| args.tool.is_none_or(|only| only == **tool));
    let mut count = 0;
    for tool in tools {
        count += 1;
        let (outcome, tally) = match tool {
            Tool::Thread => sanitize(workspace, "thread", ("TSAN_OPTIONS", "halt_on_error=0:exitcode=66"))?,
            Tool::Address => sanitize(workspace, "address", ("ASAN_OPTIONS", "detect_leaks=1"))?,
            Tool::Valgrind => valgrind(workspace)?,
        };
        total += tally;
        match outcome {
            Outcome::Passed => {}
            Outcome::Failed(reason) => failed.push(format!("{tool:?}: {reason}")),
            Outcome::Skipped(reason) => {
                println!("skipped: {tool:?}: {reason}");
                skipped.push(reason);
            }
        }
    }
    let outcome = if !failed.is_empty() {
        Outcome::Failed(failed.join("; "))
    } else if skipped.len() == count {
        skipped.dedup();
        Outcome::Skipped(skipped.join("; "))
    } else {
        Outcome::Passed
    };
    Ok((outcome, total))
}

/// Unit tests, and the standard library, compiled with a sanitizer.
fn sanitize(workspace: &Workspace, name: &str, options: (&str, &str)) -> Result<(Outcome, Tally)> {
    let Some(toolchain) = toolchain_with_sources() else {
        let reason = "no toolchain with the sources of the standard library (rustup component add --toolchain \
                      nightly rust-src)";
        return Ok((Outcome::Skipped(reason.to_owned()), Tally::default()));
    };
    let mut command = Command::new("rustup");
    let host = process::host_triple()?;
    command.args([
        "run",
        toolchain,
        "cargo",
        "test",
        "-Zbuild-std",
        "--target",
        &host,
        "--lib",
        "--no-fail-fast",
    ]);
    for package in SANITIZED.iter().filter(|package| workspace.has_package(package)) {
        command.args(["-p", package]);
    }
    command.args(["--", "--show-output"]);
    command.current_dir(&workspace.root).stdin(Stdio::null());
    process::hide_this_package(&mut command);
    // A toolchain that is not a nightly one takes these flags only so.
    command.env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", format!("-Zsanitizer={name}"));
    command.env("CARGO_TARGET_DIR", workspace.target_dir.join(format!("sanitize-{name}")));
    command.env("PROPTEST_CASES", "16").env(options.0, options.1);
    process::run_tests(command)
}

/// The first toolchain that has the sources of its standard library.
fn toolchain_with_sources() -> Option<&'static str> {
    ["stable", "nightly"].into_iter().find(|toolchain| {
        let mut command = Command::new("rustup");
        command.args(["run", toolchain, "rustc", "--print", "sysroot"]).stderr(Stdio::null());
        let Ok(output) = command.output() else { return false };
        let sysroot = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
        output.status.success() && sysroot.join("lib/rustlib/src/rust/library/std/Cargo.toml").is_file()
    })
}

/// The ordinary unit tests under valgrind.
fn valgrind(workspace: &Workspace) -> Result<(Outcome, Tally)> {
    let Some(program) = process::find_program(&["valgrind"]) else {
        return Ok((Outcome::Skipped("no valgrind (apt-get install valgrind)".to_owned()), Tally::default()));
    };
    let mut command = process::cargo(workspace, &["test", "--lib", "--no-fail-fast"]);
    for package in UNDER_VALGRIND.iter().filter(|package| workspace.has_package(package)) {
        command.args(["-p", package]);
    }
    command.args(["--", "--show-output", "--test-threads", "1"]);
    // Leaks are counted where nothing points to memory any more: the test harness keeps some until the end.
    let runner = format!(
        "{program} --quiet --error-exitcode=67 --leak-check=full --errors-for-leak-kinds=definite --fair-sched=yes"
    );
    let host = process::host_triple()?.to_uppercase().replace('-', "_");
    command.env(format!("CARGO_TARGET_{host}_RUNNER"), runner);
    command.env("PROPTEST_CASES", "4");
    process::run_tests(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_has_packages_of_the_workspace() {
        let workspace = Workspace::load().unwrap();
        for package in SANITIZED.iter().chain(UNDER_VALGRIND) {
            assert!(workspace.has_package(package), "{package}");
        }
    }
}
