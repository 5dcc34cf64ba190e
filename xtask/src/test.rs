//! `cargo xtask test`: whether it works on this machine, within minutes; or the tests of one subject, which are all of one service.

use std::fs;

use anyhow::{Context, Result};
use clap::ValueEnum;

use crate::process;
use crate::step::Outcome;
use crate::workspace::Workspace;

/// Find out within minutes whether it works on this machine, or run the tests of one subject
///
/// Without a name it runs the tests of the state machines, of what the kernel must be able to do, and of daemons, jobs and the
/// demo as real processes. With the name of a service it runs the tests of its room, its scenarios in the simulator, and its
/// folder in crates/e2e/tests; with another name, the folder of that name. It builds what these tests start, and nothing else.
/// It needs Rust and gcc, and installs nothing; `cargo xtask ci` is the whole.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  cargo xtask test                        under five minutes on two cores, most of it compiling
  cargo xtask test calling                all tests of one service
  cargo xtask test newcomer               what the pages show is what happens; BLESS=1 writes examples into pages
  cargo xtask test paging graphs::        only tests whose names contain a word")]
pub(crate) struct Args {
    /// Which tests
    #[arg(value_name = "SUBJECT")]
    subject: Option<Subject>,
    /// Only tests whose names contain one of these words
    #[arg(requires = "subject", value_name = "WORD")]
    words: Vec<String>,
}

/// The folders of crates/e2e/tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Subject {
    /// Far memory
    Paging,
    /// Messages between ranks
    Routing,
    /// Functions that travel
    Calling,
    /// Remote writes
    Writing,
    /// Programs that were not changed, with far memory
    Preload,
    /// Daemons and the jobs that the program starts
    Daemons,
    /// Daemons that are killed, flooded and crowded
    Survival,
    /// The program as people and scripts use it
    Program,
    /// The library for C and C++
    C,
    /// A little of each service over a fabric
    Fabric,
    /// Hostile processes beside honest ones; see also `cargo xtask attack`
    Attack,
    /// What the pages show, and the examples of all help pages
    Newcomer,
}

/// A test of the package of `outboard`. Where it is among those that are run, cargo builds the program too.
pub(crate) const BUILDS_OUTBOARD: &str = "command_line";
/// A test of the package of `outboard-bench`, which builds that program.
const BUILDS_BENCH: &str = "figures";

/// What is run without a name.
const USUAL: &[&str] = &[
    "-p",
    "outboard-wire",
    "-p",
    "outboard-steering",
    "-p",
    "outboard-paging",
    "-p",
    "outboard-routing",
    "-p",
    "outboard-writing",
    "-p",
    "outboard-userfaultfd",
    "-p",
    "outboard-cli",
    "-p",
    "outboard-e2e",
    "--lib",
    "--bins",
    "--test",
    BUILDS_OUTBOARD,
    "--test",
    "daemons",
    "--test",
    "program",
];

impl Subject {
    /// The name of the folder.
    fn folder(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    fn is_service(self) -> bool {
        matches!(self, Self::Paging | Self::Routing | Self::Calling | Self::Writing)
    }

    /// What cargo is told, once or twice. `of_room` are the programs of tests that the room of a service has.
    fn commands(self, of_room: &[String]) -> Vec<Vec<String>> {
        let folder = self.folder();
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let tests = |names: &[String]| {
            names.iter().flat_map(|name| ["--test".to_owned(), name.clone()]).collect::<Vec<_>>()
        };
        if !self.is_service() {
            // As `cargo xtask ci` builds everything, so that nothing is built once more.
            let builders: &[&str] =
                if self == Self::Newcomer { &[BUILDS_OUTBOARD, BUILDS_BENCH] } else { &[BUILDS_OUTBOARD] };
            return vec![[words(&["--workspace"]), tests(&words(builders)), tests(&[folder])].concat()];
        }
        let room = format!("outboard-{folder}");
        let packages = words(&["-p", "outboard-cli", "-p", "outboard-e2e", "-p", &room]);
        let all = [words(&["--lib"]), tests(&words(&[BUILDS_OUTBOARD, &folder])), tests(of_room)].concat();
        let scenarios = words(&["-p", "outboard-sim", "--lib", &format!("{folder}::")]);
        vec![[packages.clone(), all].concat(), [packages, scenarios].concat()]
    }
}

/// Runs the tests and ends with the totals.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<Outcome> {
    let commands = match args.subject {
        None => vec![USUAL.iter().map(|word| (*word).to_owned()).collect()],
        Some(subject) => subject.commands(&programs_of_room(workspace, subject)?),
    };
    let (mut outcome, mut total) = (Outcome::Passed, crate::tally::Tally::default());
    // With words only the first command is meant: the second one has words of its own.
    let count = if args.words.is_empty() { commands.len() } else { 1 };
    for command in &commands[..count] {
        let mut all = vec!["test", "--no-fail-fast"];
        all.extend(command.iter().map(String::as_str));
        all.extend(["--", "--show-output"]);
        all.extend(args.words.iter().map(String::as_str));
        let (this, tally) = process::run_tests(process::cargo(workspace, &all))?;
        total += tally;
        if this != Outcome::Passed {
            outcome = this;
        }
    }
    println!("\n{} passed, {} failed, {} skipped", total.passed, total.failed, total.skipped);
    Ok(match outcome {
        Outcome::Failed(_) => Outcome::Failed(String::new()),
        outcome => outcome,
    })
}

/// The programs of tests in the folder `tests` of a service's room.
fn programs_of_room(workspace: &Workspace, subject: Subject) -> Result<Vec<String>> {
    let folder = workspace.root.join("crates").join(subject.folder()).join("tests");
    if !subject.is_service() || !folder.exists() {
        return Ok(Vec::new());
    }
    let mut names = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        if path.join("main.rs").exists() || path.extension().is_some_and(|extension| extension == "rs") {
            names.extend(path.file_stem().map(|name| name.to_string_lossy().into_owned()));
        }
    }
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn every_folder_of_tests_is_a_subject_and_the_other_way_round() {
        let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/e2e/tests");
        let mut folders: Vec<String> = fs::read_dir(&tests)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            // It needs nodes, which `cargo xtask nodes` sets up.
            .filter(|name| name != "cluster")
            .collect();
        let mut subjects: Vec<String> = Subject::value_variants().iter().map(|it| it.folder()).collect();
        folders.sort();
        subjects.sort();
        assert_eq!(folders, subjects);
    }

    #[test]
    fn a_service_has_its_room_its_scenarios_and_its_folder() {
        let [tests, scenarios] = &Subject::Calling.commands(&["kv".to_owned()])[..] else { panic!() };
        let packages = "-p outboard-cli -p outboard-e2e -p outboard-calling";
        assert_eq!(tests.join(" "), format!("{packages} --lib --test command_line --test calling --test kv"));
        assert_eq!(scenarios.join(" "), format!("{packages} -p outboard-sim --lib calling::"));
    }

    #[test]
    fn other_subjects_are_built_as_ci_builds_them() {
        let commands = Subject::Newcomer.commands(&[]);
        assert_eq!(
            commands,
            [["--workspace", "--test", "command_line", "--test", "figures", "--test", "newcomer"]]
        );
    }
}
