//! `cargo xtask simulate`: runs the simulator over one seed or a range of them.

use std::process::{Command, Stdio};
use std::str::FromStr;

use anyhow::Result;

use crate::process;
use crate::step::Outcome;
use crate::workspace::Workspace;

const SIMULATOR: &str = "outboard-sim";

/// Run the state machines on simulated links and time
///
/// A seed decides everything about a run: the same seed always gives the same run. A run that breaks a
/// promise prints its seed, and `--seed` replays it.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  cargo xtask simulate --seed 7               replay one run
  cargo xtask simulate --seeds 0..10000       look for a run that breaks a promise")]
pub(crate) struct Args {
    /// The one seed to run
    #[arg(long, value_name = "N", required_unless_present = "seeds", conflicts_with = "seeds")]
    seed: Option<u64>,
    /// All seeds from A up to, but without, B
    #[arg(long, value_name = "A..B")]
    seeds: Option<Seeds>,
    /// Use the build that tests use: runs take several times as long, but some hundreds of them are done before an
    /// optimised simulator would be built
    #[arg(long)]
    debug: bool,
}

impl Args {
    /// The arguments for a range of seeds that is short.
    pub(crate) fn over(seeds: Seeds) -> Self {
        Self { seed: None, seeds: Some(seeds), debug: true }
    }

    /// These arguments in parts, one for each processor: a run uses one.
    fn divided(&self, parts: u64) -> Vec<Self> {
        let Some(Seeds { first, end }) = self.seeds else { return vec![Self { ..*self }] };
        let step = (end - first).div_ceil(parts.max(1)).max(1);
        let part = |first: u64| Seeds { first, end: first.saturating_add(step).min(end) };
        let starts =
            std::iter::successors(Some(first), |first| first.checked_add(step).filter(|next| *next < end));
        starts.map(|first| Self { seeds: Some(part(first)), ..*self }).collect()
    }

    fn for_simulator(&self) -> [String; 2] {
        match (self.seed, self.seeds) {
            (_, Some(Seeds { first, end })) => ["--seeds".to_owned(), format!("{first}..{end}")],
            (seed, None) => ["--seed".to_owned(), seed.unwrap_or(0).to_string()],
        }
    }
}

/// A range of seeds, written `A..B`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seeds {
    first: u64,
    end: u64,
}

impl Seeds {
    /// As CI plays them. A run of all scenarios takes the machines of the product some three seconds of a core.
    pub(crate) fn usual(is_full: bool) -> Self {
        Self { first: 0, end: if is_full { 1024 } else { 96 } }
    }
}

impl FromStr for Seeds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parse = |number: &str| number.parse::<u64>().map_err(|error| format!("`{number}`: {error}"));
        let (first, end) = text.split_once("..").ok_or("write a range of seeds as A..B, such as 0..100")?;
        let (first, end) = (parse(first)?, parse(end)?);
        if first >= end {
            return Err(format!("{first}..{end} has no seed in it"));
        }
        Ok(Self { first, end })
    }
}

/// Builds the simulator and runs it.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<Outcome> {
    if !workspace.has_package(SIMULATOR) {
        return Ok(Outcome::Skipped(format!("the workspace has no package {SIMULATOR}")));
    }
    let program = if args.debug {
        process::program_of_tests(workspace, "replay", SIMULATOR)?
    } else {
        let build = ["build", "--release", "-p", SIMULATOR, "--bin", SIMULATOR, "--message-format=json"];
        process::program_in(&process::output(process::cargo(workspace, &build))?, SIMULATOR)?
    };
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let runs = args.divided(processors as u64).into_iter().map(|part| {
        let mut command = Command::new(&program);
        command.args(part.for_simulator()).stdin(Stdio::null());
        command
    });
    process::run_together(runs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_of_seeds_is_read() {
        assert_eq!("3..10".parse(), Ok(Seeds { first: 3, end: 10 }));
    }

    #[test]
    fn what_is_no_range_is_refused_with_a_reason() {
        for (text, reason) in [("7", "A..B"), ("a..b", "`a`"), ("5..5", "no seed"), ("9..2", "no seed")] {
            let refused = text.parse::<Seeds>().unwrap_err();
            assert!(refused.contains(reason), "{text}: {refused}");
        }
    }

    #[test]
    fn processors_share_the_seeds() {
        let shared = |seeds: &str, parts| {
            let divided = Args::over(seeds.parse().unwrap()).divided(parts);
            divided.iter().map(|args| args.for_simulator()[1].clone()).collect::<Vec<_>>()
        };
        assert_eq!(shared("0..256", 2), ["0..128", "128..256"]);
        assert_eq!(shared("5..10", 2), ["5..8", "8..10"]);
        assert_eq!(shared("3..5", 8), ["3..4", "4..5"]);
    }

    #[test]
    fn the_simulator_gets_what_was_asked_for() {
        let one = Args { seed: Some(7), seeds: None, debug: false };
        assert_eq!(one.for_simulator(), ["--seed", "7"]);
        assert_eq!(Args::over(Seeds { first: 1, end: 4 }).for_simulator(), ["--seeds", "1..4"]);
    }
}
