//! `cargo xtask loom`: runs the model checks of every package that has some.

use anyhow::Result;

use crate::process;
use crate::step::Outcome;
use crate::tally::Tally;
use crate::workspace::Workspace;

/// How often a thread may be interrupted in one execution, unless the environment says otherwise. loom's
/// authors recommend 2 or 3: nearly all bugs show within it, and the search stays finite in practice.
const PREEMPTIONS_MAX: &str = "3";

/// Model checks live in modules named `model`, compiled only under `cfg(loom)`.
const MODEL_TESTS: &str = "model";

/// Runs the tests in modules named `model` with loom's atomics and threads.
pub(crate) fn run(workspace: &Workspace) -> Result<(Outcome, Tally)> {
    let uses_loom = |name: &str| name == "loom";
    let modelled = workspace
        .packages
        .iter()
        .filter(|package| package.dependencies.iter().any(|dependency| uses_loom(&dependency.name)));
    let mut args = vec!["test", "--release", "--lib", "--no-fail-fast"];
    for package in modelled {
        args.extend(["-p", &package.name]);
    }
    if !args.contains(&"-p") {
        return Ok((Outcome::Skipped("no package depends on loom".to_owned()), Tally::default()));
    }
    args.extend(["--", MODEL_TESTS]);
    let mut command = process::cargo(workspace, &args);
    command.env("RUSTFLAGS", "--cfg loom");
    // Other flags would make cargo rebuild everything in a shared folder each time they change.
    command.env("CARGO_TARGET_DIR", workspace.target_dir.join("loom"));
    if std::env::var_os("LOOM_MAX_PREEMPTIONS").is_none() {
        command.env("LOOM_MAX_PREEMPTIONS", PREEMPTIONS_MAX);
    }
    let (outcome, tally) = process::run_tests(command)?;
    if outcome == Outcome::Passed && tally.passed == 0 {
        let reason = "no test ran: model checks belong in a module named `model` under cfg(all(loom, test))";
        return Ok((Outcome::Failed(reason.to_owned()), tally));
    }
    Ok((outcome, tally))
}
