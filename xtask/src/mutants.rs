//! `cargo xtask mutants`: gives the machines one small fault at a time, and shows what notices it.

mod hunt;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::process;
use crate::step::Outcome;
use crate::tally::Tally;
use crate::tidy;
use crate::workspace::Workspace;
use hunt::Hunters;

const SIMULATOR: &str = "outboard-sim";
/// The packages of the rooms in which faults may stand, whose tests look for them as well.
const ROOMS: &[&str] =
    &["outboard-agent", "outboard-paging", "outboard-routing", "outboard-calling", "outboard-writing"];

/// Show that tests and simulator notice every fault that the machines can be given
///
/// Builds the machines once with all their faults (`mutant("…")` in the source), which one variable chooses from, and lets
/// the simulator and the tests of the room look for each. One that nothing notices is a failure: a checker is missing.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  cargo xtask mutants                             all faults, some minutes
  cargo xtask mutants --only writing.             those whose names begin so
  cargo xtask mutants --list                      what they are and where they stand")]
pub(crate) struct Args {
    /// Only the faults whose names begin so
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// List the faults and where they stand
    #[arg(long)]
    list: bool,
}

impl Args {
    /// The arguments for all faults.
    pub(crate) fn all() -> Self {
        Self { only: None, list: false }
    }
}

/// Builds, and hunts for every fault.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<(Outcome, Tally)> {
    let faults = tidy::mutants(workspace)?;
    let is_wanted = |name: &str| args.only.as_deref().is_none_or(|only| name.starts_with(only));
    let wanted: Vec<&(String, String)> = faults.iter().filter(|(name, _)| is_wanted(name)).collect();
    if wanted.is_empty() {
        let reason = "no fault has such a name; --list shows all".to_owned();
        return Ok((Outcome::Failed(reason), Tally::default()));
    }
    if args.list {
        wanted.iter().for_each(|(name, place)| println!("{name:<45} {place}"));
        return Ok((Outcome::Passed, Tally::default()));
    }
    let hunters = build(workspace)?;
    if let Some(caught) = hunters.look_at_all()? {
        let reason = format!("something is wrong without a fault: {caught}");
        return Ok((Outcome::Failed(reason), Tally::default()));
    }
    let names: Vec<&str> = wanted.iter().map(|(name, _)| name.as_str()).collect();
    let missed = hunt_all(&hunters, &names)?;
    let failed = missed.len() as u64;
    let tally = Tally { passed: names.len() as u64 - failed, failed, skipped: 0 };
    if missed.is_empty() {
        println!("all {} faults were noticed", names.len());
        return Ok((Outcome::Passed, tally));
    }
    let reason = format!("nothing notices {} of {} faults: {}", missed.len(), names.len(), missed.join(", "));
    Ok((Outcome::Failed(reason), tally))
}

/// Looks for all faults, as many at a time as there are processors. Returns those that nothing notices.
fn hunt_all<'a>(hunters: &Hunters, names: &[&'a str]) -> Result<Vec<&'a str>> {
    let (next, missed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || -> Result<()> {
        while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
            let began = Instant::now();
            let caught = hunters.look_for(name)?;
            let seconds = began.elapsed().as_secs_f64();
            match &caught {
                Some(caught) => println!("{name:<45} {seconds:>5.1} s  {caught}"),
                None => println!("{name:<45} {seconds:>5.1} s  MISSED"),
            }
            if caught.is_none() {
                missed.lock().unwrap_or_else(PoisonError::into_inner).push(*name);
            }
        }
        Ok(())
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(names.len());
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| {
            worker.join().unwrap_or_else(|_| Err(anyhow::anyhow!("a thread that hunts has panicked")))
        })
    })?;
    Ok(missed.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// Builds the simulator and the tests of the rooms, with all faults in them.
fn build(workspace: &Workspace) -> Result<Hunters> {
    // Built as other builds are not, in a folder of its own: cargo would make everything anew at each change of flags.
    let cargo = |args: &[&str]| {
        let mut command = process::cargo(workspace, args);
        command
            .env("RUSTFLAGS", "--cfg mutants")
            // Thousands of runs are played: optimised, but with all assertions of a debug build.
            .env("CARGO_PROFILE_DEV_OPT_LEVEL", "1")
            .env("CARGO_TARGET_DIR", workspace.target_dir.join("mutants"));
        process::output(command)
    };
    let simulator = cargo(&["build", "-p", SIMULATOR, "--bin", SIMULATOR, "--message-format=json"])?;
    let simulator = process::program_in(&simulator, SIMULATOR)?;
    let mut args = vec!["test", "--no-run", "--message-format=json"];
    args.extend(ROOMS.iter().flat_map(|room| ["-p", *room]));
    let mut tests: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for (manifest, program) in executables(&cargo(&args)?) {
        let room = manifest.parent().and_then(Path::file_name).context("a package lies in no folder")?;
        tests.entry(room.to_string_lossy().into_owned()).or_default().push(program);
    }
    Ok(Hunters { simulator, tests, root: workspace.root.clone() })
}

/// The programs that cargo has built, each with the manifest of its package.
fn executables(messages: &str) -> impl DoubleEndedIterator<Item = (PathBuf, PathBuf)> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let pairs = messages.filter_map(|message| {
        let path = |name: &str| message[name].as_str().map(PathBuf::from);
        Some((path("manifest_path")?, path("executable")?))
    });
    pairs.collect::<Vec<_>>().into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_read_from_what_cargo_says() {
        let messages = concat!(
            r#"{"reason":"compiler-artifact","manifest_path":"/w/crates/a/Cargo.toml","executable":null}"#,
            "\n",
            r#"{"reason":"compiler-artifact","manifest_path":"/w/crates/b/Cargo.toml","executable":"/t/b-1"}"#,
            "\nnot json\n",
            r#"{"reason":"build-finished","success":true}"#,
        );
        let found: Vec<_> = executables(messages).collect();
        assert_eq!(found, [(PathBuf::from("/w/crates/b/Cargo.toml"), PathBuf::from("/t/b-1"))]);
    }
}
