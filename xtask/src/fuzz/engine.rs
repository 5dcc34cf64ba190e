//! The two ways to fuzz a target: libFuzzer where a C++ compiler can build it, seeded mutations elsewhere.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use super::progress::Progress;
use super::{Bound, PACKAGE, driver};
use crate::process;
use crate::step::Outcome;
use crate::workspace::Workspace;

/// The instrumentation that libFuzzer reads, as passes of the stable compiler: edge counters, the table of
/// their addresses, and hooks in comparisons so that it learns the constants that a decoder looks for.
const COVERAGE_FLAGS: &str = "-Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares";

/// A decoder that takes longer than this over one input hangs.
const INPUT_SECONDS_MAX: u32 = 5;
/// Larger inputs say nothing new about decoders of headers and control messages.
const INPUT_BYTES_MAX: u32 = 4096;
/// A decoder that needs more than this believed a length that a stranger wrote.
const MEMORY_MIB_MAX: u32 = 1024;

/// What fuzzes.
pub(super) enum Engine {
    /// Coverage-guided: the program that carries libFuzzer and all targets.
    LibFuzzer { program: PathBuf },
    /// Seeded mutations of the seeds, blind to coverage.
    Mutations,
}

impl Engine {
    /// Builds libFuzzer if there is a C++ compiler.
    pub(super) fn build(workspace: &Workspace) -> Result<Self> {
        let compiler =
            std::env::var("CXX").ok().or_else(|| process::find_program(&["c++", "g++", "clang++"]));
        let Some(compiler) = compiler else {
            println!("no C++ compiler (apt-get install g++): seeded mutations instead of coverage guidance");
            return Ok(Self::Mutations);
        };
        let host = process::host_triple()?;
        // Naming the host as the target keeps the flags away from build scripts, which do not link libFuzzer.
        let args = ["build", "--release", "-p", PACKAGE, "--bin", "libfuzzer", "--features", "libfuzzer"];
        let mut command = process::cargo(workspace, &args);
        let target_dir = workspace.target_dir.join("fuzz");
        command.args(["--target", &host]).env("CARGO_TARGET_DIR", &target_dir);
        command.env("RUSTFLAGS", COVERAGE_FLAGS).env("CXX", compiler);
        checked_release(&mut command);
        match process::run(command)? {
            Outcome::Passed => {
                Ok(Self::LibFuzzer { program: target_dir.join(host).join("release/libfuzzer") })
            }
            other => anyhow::bail!("could not build the fuzzer: {}", other.reason()),
        }
    }

    /// Runs one target until `bound`.
    pub(super) fn run(&self, workspace: &Workspace, target: &str, bound: Bound) -> Result<Outcome> {
        let artifacts = workspace.root.join("fuzz/artifacts").join(target);
        std::fs::create_dir_all(&artifacts)
            .with_context(|| format!("could not make {}", artifacts.display()))?;
        let mut command = match self {
            Self::Mutations => {
                let args = ["run", "--release", "--quiet", "-p", PACKAGE, "--bin", PACKAGE, "--"];
                let mut command = process::cargo(workspace, &args);
                let (what, number) = match bound {
                    Bound::Seconds(seconds) => ("mutate", seconds.to_string()),
                    Bound::Runs(runs) => ("mutations", runs.to_string()),
                };
                command.args([what, target, &number]).arg(&artifacts);
                command.env("CARGO_TARGET_DIR", workspace.target_dir.join("fuzz"));
                checked_release(&mut command);
                command
            }
            Self::LibFuzzer { program } => {
                let corpus = workspace.root.join("fuzz/corpus").join(target);
                let mut seeds = driver(workspace, &["seeds", target]);
                seeds.arg(&corpus);
                process::output(seeds)?;
                let mut command = Command::new(program);
                command.arg(&corpus).arg(format!("-artifact_prefix={}/", artifacts.display()));
                command.arg(match bound {
                    Bound::Seconds(seconds) => format!("-max_total_time={seconds}"),
                    Bound::Runs(runs) => format!("-runs={runs}"),
                });
                command.arg(format!("-max_len={INPUT_BYTES_MAX}"));
                command.arg(format!("-timeout={INPUT_SECONDS_MAX}"));
                command.arg(format!("-rss_limit_mb={MEMORY_MIB_MAX}"));
                command.env("OUTBOARD_FUZZ_TARGET", target).env("RUST_BACKTRACE", "1");
                command.current_dir(&workspace.root).stdin(Stdio::null());
                command
            }
        };
        self.watch(workspace, &mut command, target)
    }

    /// Keeps those inputs of a target's corpus that cover most.
    pub(super) fn keep(&self, workspace: &Workspace, target: &str) -> Result<()> {
        let Self::LibFuzzer { program } = self else {
            anyhow::bail!("without a C++ compiler nothing tells which inputs cover most");
        };
        let merge = workspace.target_dir.join("fuzz/merge").join(target);
        // What an earlier merge has left would be gone on with.
        let _ = std::fs::remove_dir_all(&merge);
        let (merged, control) = (merge.join("corpus"), merge.join("control"));
        std::fs::create_dir_all(&merged).with_context(|| format!("could not make {}", merged.display()))?;
        let mut command = Command::new(program);
        command.arg("-set_cover_merge=1").arg(format!("-merge_control_file={}", control.display()));
        command.arg(&merged).arg(workspace.root.join("fuzz/corpus").join(target));
        command.env("OUTBOARD_FUZZ_TARGET", target).current_dir(&workspace.root);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if let Outcome::Failed(reason) = process::run(command)? {
            anyhow::bail!("the corpus of {target} could not be merged: {reason}");
        }
        let mut keep = driver(workspace, &["keep", target]);
        keep.arg(&control);
        print!("{}", process::output(keep)?);
        Ok(())
    }

    /// Passes on what a run prints, but for libFuzzer's line per new input, and says what it came to.
    fn watch(&self, workspace: &Workspace, command: &mut Command, target: &str) -> Result<Outcome> {
        let shown = process::show(command);
        let mut child =
            command.stderr(Stdio::piped()).spawn().with_context(|| format!("could not start `{shown}`"))?;
        let mut progress = Progress::default();
        if let Some(output) = child.stderr.take() {
            process::for_each_line(output, |line| {
                if progress.read(line) {
                    println!("{target}: {line}");
                }
            })?;
        }
        let status = child.wait().with_context(|| format!("could not wait for `{shown}`"))?;
        let guided = matches!(self, Self::LibFuzzer { .. });
        Ok(match progress {
            Progress { artifact: Some(input), .. } => {
                let input = input.strip_prefix(&workspace.root).unwrap_or(&input).display();
                let again = format!("cargo xtask fuzz --target {target} --input {input}");
                Outcome::Failed(format!("an input broke it; run it again with: {again}"))
            }
            _ if !status.success() => Outcome::Failed(format!("`{shown}`: {status}")),
            Progress { edges_last: 0, .. } if guided => {
                Outcome::Failed("no coverage was seen: the program is not instrumented".to_owned())
            }
            Progress { runs, edges_first, edges_last, .. } => {
                let coverage = format!(", coverage {edges_first} -> {edges_last} edges");
                println!("{target}: {runs} runs{}", if guided { &coverage } else { "" });
                Outcome::Passed
            }
        })
    }
}

/// Optimised, but with the checks that turn a wrong index or an overflow into a panic.
fn checked_release(command: &mut Command) {
    command.env("CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS", "true");
    command.env("CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS", "true");
    command.env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1");
}
