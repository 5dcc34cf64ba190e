//! `cargo xtask fuzz`: looks for bytes that break a decoder.

mod engine;
mod progress;

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};

use crate::process;
use crate::step::Outcome;
use crate::workspace::Workspace;
use engine::Engine;

const PACKAGE: &str = "outboard-fuzz";

/// Look for bytes that break a decoder
///
/// Coverage-guided on a stable toolchain, with libFuzzer, which needs a C++ compiler. Without one the targets
/// run over seeded mutations instead, which finds less. Inputs worth keeping collect in fuzz/corpus; an input
/// that breaks a target is written to fuzz/artifacts, and `--input` runs it again. Every run begins with the few inputs in
/// fuzz/kept, which are committed.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  cargo xtask fuzz                                    every target for ten seconds
  cargo xtask fuzz --target hello --seconds 600       one target for ten minutes
  cargo xtask fuzz --runs 10000000                    ten million inputs for every target
  cargo xtask fuzz --runs 10000000 --keep             and keep the few that cover most
  cargo xtask fuzz --target hello --input FILE        run one input again")]
pub(crate) struct Args {
    /// Only this target
    #[arg(long, value_name = "NAME")]
    target: Option<String>,
    /// How long to run each target
    #[arg(long, value_name = "N", default_value_t = 10, conflicts_with = "runs")]
    seconds: u32,
    /// How many inputs to give each target, however long that takes
    #[arg(long, value_name = "N")]
    runs: Option<u64>,
    /// Keep the few inputs that cover most for later runs, in fuzz/kept
    #[arg(long, conflicts_with_all = ["list", "input"])]
    keep: bool,
    /// List the targets and what they check
    #[arg(long, conflicts_with_all = ["target", "input"])]
    list: bool,
    /// Run this one input instead of looking for new ones
    #[arg(long, value_name = "FILE", requires = "target")]
    input: Option<PathBuf>,
}

impl Args {
    /// The arguments for all targets.
    pub(crate) fn all_for(seconds: u32) -> Self {
        Self { target: None, seconds, runs: None, keep: false, list: false, input: None }
    }

    fn bound(&self) -> Bound {
        self.runs.map_or(Bound::Seconds(self.seconds), Bound::Runs)
    }
}

/// When a target has been tried enough.
#[derive(Debug, Clone, Copy)]
enum Bound {
    Seconds(u32),
    Runs(u64),
}

/// Lists, replays or fuzzes, as asked.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<Outcome> {
    if !workspace.has_package(PACKAGE) {
        return Ok(Outcome::Skipped(format!("the workspace has no package {PACKAGE}")));
    }
    let list = process::output(driver(workspace, &["list"]))?;
    if args.list {
        print!("{list}");
        return Ok(Outcome::Passed);
    }
    let names = chosen(&list, args.target.as_deref())?;
    if let (Some(input), Some(target)) = (&args.input, &args.target) {
        let input = std::path::absolute(input)?;
        let mut replay = driver(workspace, &["replay", target]);
        replay.arg(&input).env("RUST_BACKTRACE", "1");
        return process::run(replay);
    }
    let engine = Engine::build(workspace)?;
    let broken = fuzz_all(workspace, &engine, &names, args.bound())?;
    if broken.is_empty() {
        if args.keep {
            names.iter().try_for_each(|name| engine.keep(workspace, name))?;
        }
        return Ok(Outcome::Passed);
    }
    Ok(Outcome::Failed(format!("{} of {} targets broke: {}", broken.len(), names.len(), broken.join(", "))))
}

/// Runs all targets, as many at a time as there are processors. Returns those that broke.
fn fuzz_all<'a>(
    workspace: &Workspace,
    engine: &Engine,
    names: &[&'a str],
    bound: Bound,
) -> Result<Vec<&'a str>> {
    let (next, broken) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || -> Result<()> {
        while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Outcome::Failed(reason) = engine.run(workspace, name, bound)? {
                println!("{name}: FAILED: {reason}");
                broken.lock().unwrap_or_else(PoisonError::into_inner).push(*name);
            }
        }
        Ok(())
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(names.len());
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| {
            worker.join().unwrap_or_else(|_| Err(anyhow::anyhow!("a thread that fuzzes has panicked")))
        })
    })?;
    Ok(broken.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// The package's own program, not instrumented: it lists targets, writes seeds and runs one input.
fn driver(workspace: &Workspace, args: &[&str]) -> Command {
    let mut command = process::cargo(workspace, &["run", "--quiet", "-p", PACKAGE, "--bin", PACKAGE, "--"]);
    command.args(args);
    command
}

/// The names in a list of targets, or the one that was asked for.
fn chosen<'a>(list: &'a str, wanted: Option<&str>) -> Result<Vec<&'a str>> {
    let names: Vec<&str> = list.lines().filter_map(|line| line.split_whitespace().next()).collect();
    anyhow::ensure!(!names.is_empty(), "{PACKAGE} has no targets");
    match wanted {
        None => Ok(names),
        Some(wanted) => {
            let found = names.iter().find(|name| **name == wanted);
            let found =
                found.with_context(|| format!("no target `{wanted}`; there are: {}", names.join(", ")))?;
            Ok(vec![found])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "hello    the first message\nheader   what precedes a frame\n";

    #[test]
    fn all_targets_run_unless_one_is_named() {
        assert_eq!(chosen(LIST, None).unwrap(), ["hello", "header"]);
        assert_eq!(chosen(LIST, Some("header")).unwrap(), ["header"]);
    }

    #[test]
    fn an_unknown_target_is_refused_with_the_known_ones() {
        let error = chosen(LIST, Some("hallo")).unwrap_err().to_string();
        assert!(error.contains("hello, header"), "{error}");
        assert!(chosen("", None).is_err());
    }
}
