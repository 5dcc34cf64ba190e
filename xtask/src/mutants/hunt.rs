//! Looks for one fault: by the scenarios of its room over some seeds, by the tests of the room, by the scenarios over more seeds.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{BufRead, BufReader};
use std::ops::Range;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

/// The seeds of the first look, which finds most, and of the last.
const SEEDS_FIRST: Range<u32> = 0..12;
const SEEDS_LAST: Range<u32> = 12..200;

/// The scenarios of the simulator that play the machines of a room.
const SCENARIOS: &[(&str, &[&str])] = &[
    ("agent", &["daemons", "paging"]),
    ("calling", &["calling"]),
    ("paging", &["paging", "pager"]),
    ("routing", &["routing"]),
    ("writing", &["writing"]),
];
/// How long a program may say nothing. A machine that goes round in circles is noticed by that.
const PATIENCE: Duration = Duration::from_secs(120);
const VARIABLE: &str = "OUTBOARD_MUTANT";

/// The programs that look for faults.
pub(super) struct Hunters {
    pub(super) simulator: PathBuf,
    /// The test programs of every room.
    pub(super) tests: BTreeMap<String, Vec<PathBuf>>,
    pub(super) root: PathBuf,
}

/// What noticed a fault.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Caught {
    /// The simulator, and which promise was broken.
    Simulator { scenario: String, seed: u64, promise: String },
    /// A test.
    Test { program: String, test: String },
    /// A program that did not get on.
    Stuck { program: String },
    /// A program that ended otherwise than it should, without a word that is understood.
    Fell { program: String, how: String },
}

impl fmt::Display for Caught {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Simulator { scenario, seed, promise } => {
                let first = promise.lines().next().unwrap_or_default();
                write!(f, "simulator, {scenario}, seed {seed}: {first}")
            }
            Self::Test { program, test } => write!(f, "test of {program}: {test}"),
            Self::Stuck { program } => write!(f, "{program} did not get on for {} s", PATIENCE.as_secs()),
            Self::Fell { program, how } => write!(f, "{program}: {how}"),
        }
    }
}

impl Hunters {
    /// Everything that is looked at for any fault, without one.
    pub(super) fn look_at_all(&self) -> Result<Option<Caught>> {
        for (room, _) in SCENARIOS {
            if let Some(caught) = self.simulate(None, room, SEEDS_FIRST)? {
                return Ok(Some(caught));
            }
            if let Some(caught) = self.test(None, room)? {
                return Ok(Some(caught));
            }
        }
        Ok(None)
    }

    /// Looks for one fault.
    pub(super) fn look_for(&self, name: &str) -> Result<Option<Caught>> {
        let room = name.split('.').next().unwrap_or(name);
        if let Some(caught) = self.simulate(Some(name), room, SEEDS_FIRST)? {
            return Ok(Some(caught));
        }
        if let Some(caught) = self.test(Some(name), room)? {
            return Ok(Some(caught));
        }
        self.simulate(Some(name), room, SEEDS_LAST)
    }

    fn simulate(&self, fault: Option<&str>, room: &str, seeds: Range<u32>) -> Result<Option<Caught>> {
        let scenarios =
            SCENARIOS.iter().find(|(known, _)| *known == room).map_or(&[][..], |(_, names)| *names);
        for scenario in scenarios {
            let mut command = Command::new(&self.simulator);
            command.args([
                "--json",
                "--scenario",
                scenario,
                "--seeds",
                &format!("{}..{}", seeds.start, seeds.end),
            ]);
            if let Some(caught) = watch(command, fault, "the simulator", broken_promise)? {
                return Ok(Some(caught));
            }
        }
        Ok(None)
    }

    fn test(&self, fault: Option<&str>, room: &str) -> Result<Option<Caught>> {
        for program in self.tests.get(room).into_iter().flatten() {
            let mut command = Command::new(program);
            // Cargo runs tests in the folder of their package.
            command.current_dir(self.root.join("crates").join(room));
            let shown = shown(program);
            let failed = |line: &str| {
                let test = line.strip_prefix("test ")?.strip_suffix(" ... FAILED")?.to_owned();
                Some(Caught::Test { program: shown.clone(), test })
            };
            if let Some(caught) = watch(command, fault, &shown, failed)? {
                return Ok(Some(caught));
            }
        }
        Ok(None)
    }
}

/// The name of a test program without what cargo has added to it.
fn shown(program: &Path) -> String {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    name.rsplit_once('-').map_or(&*name, |(name, _)| name).to_owned()
}

/// The promise that a line of the simulator says was broken.
fn broken_promise(line: &str) -> Option<Caught> {
    let run: Value = serde_json::from_str(line).ok()?;
    let promise = run["broken"].as_str()?.to_owned();
    Some(Caught::Simulator {
        scenario: run["scenario"].as_str()?.to_owned(),
        seed: run["seed"].as_u64()?,
        promise,
    })
}

/// Runs a program until a line of its output tells of something wrong, or it ends.
fn watch(
    mut command: Command,
    fault: Option<&str>,
    program: &str,
    told: impl Fn(&str) -> Option<Caught>,
) -> Result<Option<Caught>> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).env("RUST_BACKTRACE", "0");
    // What a planted fault makes fail is no case for the honest machine to repeat for ever.
    command.env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "1");
    // In a group of its own, which is ended whole: tests start programs as well.
    command.process_group(0);
    match fault {
        Some(fault) => command.env(VARIABLE, fault),
        None => command.env_remove(VARIABLE),
    };
    let mut child = command.spawn().with_context(|| format!("could not start {program}"))?;
    let lines = BufReader::new(child.stdout.take().context("no output")?).lines();
    let (sender, received) = mpsc::channel();
    let reader = thread::spawn(move || lines.map_while(Result::ok).all(|line| sender.send(line).is_ok()));
    let caught = loop {
        match received.recv_timeout(PATIENCE) {
            Ok(line) => match told(&line) {
                Some(caught) => break Some(caught),
                None => continue,
            },
            Err(mpsc::RecvTimeoutError::Timeout) => {
                break Some(Caught::Stuck { program: program.to_owned() });
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => break None,
        }
    };
    if caught.is_some() {
        end(&mut child)?;
        drop(received);
        let _ = reader.join();
        return Ok(caught);
    }
    let status = child.wait().with_context(|| format!("could not wait for {program}"))?;
    Ok((!status.success()).then(|| Caught::Fell { program: program.to_owned(), how: status.to_string() }))
}

/// Ends a program and what it has started.
fn end(child: &mut Child) -> Result<()> {
    let mut kill = Command::new("kill");
    kill.args(["-KILL", "--", &format!("-{}", child.id())]).stderr(Stdio::null());
    // It may have ended by itself meanwhile.
    let _ = kill.status();
    child.wait().context("could not wait for a program that was ended")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_broken_promise_is_read_from_the_simulators_line() {
        let line = r#"{"scenario":"writing","seed":3,"ok":false,"broken":"no write is lost: 7"}"#;
        let caught = broken_promise(line).unwrap();
        assert_eq!(caught.to_string(), "simulator, writing, seed 3: no write is lost: 7");
        assert_eq!(broken_promise(r#"{"scenario":"writing","seed":3,"ok":true,"broken":null}"#), None);
        assert_eq!(broken_promise("nonsense"), None);
    }

    #[test]
    fn the_first_line_that_tells_of_something_ends_the_program() {
        let told = |line: &str| (line == "wrong").then(|| Caught::Stuck { program: "it".to_owned() });
        let caught = watch(shell("echo right; echo wrong; exec sleep 600"), None, "it", told).unwrap();
        assert_eq!(caught, Some(Caught::Stuck { program: "it".to_owned() }));
    }

    #[test]
    fn a_program_that_ends_well_has_noticed_nothing_and_one_that_falls_has() {
        assert_eq!(watch(shell("echo right"), None, "it", |_| None).unwrap(), None);
        let caught = watch(shell("exit 3"), None, "it", |_| None).unwrap();
        assert!(matches!(caught, Some(Caught::Fell { .. })), "{caught:?}");
    }

    #[test]
    fn the_program_is_told_which_fault_it_has() {
        let caught = watch(shell("test \"$OUTBOARD_MUTANT\" = a.b"), Some("a.b"), "it", |_| None);
        assert_eq!(caught.unwrap(), None);
    }
}
