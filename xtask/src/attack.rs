//! `cargo xtask attack`: hostile clients, servers and agents against real daemons, for as long as is wanted.

use anyhow::Result;

use crate::process;
use crate::step::Outcome;
use crate::tally::Tally;
use crate::test::BUILDS_OUTBOARD;
use crate::workspace::Workspace;

/// The test that plays rounds until its time is up, and what it reads from its environment.
const TEST: &str = "honest_clients_and_the_daemons_survive_what_a_seed_chooses";
const SECONDS: &str = "ATTACK_SECONDS";
const SEED: &str = "OUTBOARD_SEED";
const ONLY: &str = "ATTACK_ONLY";

/// Attack daemons with everything that can be done wrong, beside honest clients
///
/// Plays rounds. In each, daemons are started, honest clients use them and check every result, and attackers do from a
/// seed a fault. A finding prints the seed of its round, and `--seed` plays that round first.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  cargo xtask attack --minutes 30              look for something that does harm
  cargo xtask attack --seed 7                  play the round of one seed again
  cargo xtask attack --only routing,meeting    only attacks whose names begin so; a wrong name lists all")]
pub(crate) struct Args {
    /// For how long; without it, one round
    #[arg(long, value_name = "N", default_value_t = 0)]
    minutes: u64,
    /// The seed of the first round; without it, one that is drawn
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Only these attacks, by the beginning of their names, all at once
    #[arg(long, value_name = "NAMES")]
    only: Option<String>,
}

impl Args {
    /// As CI attacks: the same five rounds each time, in which every attack is played, so that a change is told from chance.
    pub(crate) fn for_a_minute() -> Self {
        Self { minutes: 1, seed: Some(5), only: None }
    }

    /// With a seed that is drawn, for a minute: what no run has tried yet.
    pub(crate) fn anew() -> Self {
        Self { minutes: 1, seed: None, only: None }
    }

    fn variables(&self) -> Vec<(&'static str, String)> {
        let given = [(SEED, self.seed.map(|seed| seed.to_string())), (ONLY, self.only.clone())];
        let mut variables = vec![(SECONDS, (self.minutes * 60).to_string())];
        variables.extend(given.into_iter().filter_map(|(name, value)| Some((name, value?))));
        variables
    }
}

/// Builds the attackers and lets them.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<(Outcome, Tally)> {
    let build = ["test", "--workspace", "--test", BUILDS_OUTBOARD, "--test", "attack"];
    let mut command = process::cargo(workspace, &build);
    command.args(["--", "--exact", TEST, "--nocapture"]);
    command.envs(args.variables());
    process::run_tests(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_test_is_told_what_was_asked_for() {
        let args = Args { minutes: 2, seed: Some(7), only: Some("rings".to_owned()) };
        let expected = [(SECONDS, "120"), (SEED, "7"), (ONLY, "rings")];
        assert_eq!(args.variables(), expected.map(|(name, value)| (name, value.to_owned())));
        assert_eq!(Args::anew().variables(), [(SECONDS, "60".to_owned())]);
        assert_eq!(Args::for_a_minute().variables(), [(SECONDS, "60".to_owned()), (SEED, "5".to_owned())]);
    }
}
