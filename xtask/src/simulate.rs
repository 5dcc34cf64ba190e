//! `cargo xtask simulate`: runs the simulator over one seed or a range of them.

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
#[group(required = true, multiple = false)]
pub(crate) struct Args {
    /// The one seed to run
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// All seeds from A up to, but without, B
    #[arg(long, value_name = "A..B")]
    seeds: Option<Seeds>,
}

impl Args {
    /// The arguments for a range of seeds.
    pub(crate) fn over(seeds: Seeds) -> Self {
        Self { seed: None, seeds: Some(seeds) }
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
    let mut command = process::cargo(workspace, &["run", "--release", "--quiet", "-p", SIMULATOR, "--"]);
    command.args(args.for_simulator());
    process::run(command)
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
    fn the_simulator_gets_what_was_asked_for() {
        let one = Args { seed: Some(7), seeds: None };
        assert_eq!(one.for_simulator(), ["--seed", "7"]);
        assert_eq!(Args::over(Seeds { first: 1, end: 4 }).for_simulator(), ["--seeds", "1..4"]);
    }
}
