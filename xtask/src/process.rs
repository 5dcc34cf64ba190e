//! Starts cargo and other programs, with their output streamed while they run.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::step::Outcome;
use crate::tally::{Counter, Failure, Tally};
use crate::workspace::Workspace;

/// A cargo command at the top of the workspace, without standard input.
pub(crate) fn cargo(workspace: &Workspace, args: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    command.args(args).current_dir(&workspace.root).stdin(Stdio::null());
    hide_this_package(&mut command);
    command
}

/// Leaves out what cargo has set to tell this program about itself. Build scripts of others look at it, and would be run
/// again whenever cargo is called now directly, now by this program.
pub(crate) fn hide_this_package(command: &mut Command) {
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_about_this_package(&name.to_string_lossy())) {
        command.env_remove(name);
    }
}

fn is_about_this_package(variable: &str) -> bool {
    variable.starts_with("CARGO_PKG_") || variable.starts_with("CARGO_MANIFEST_")
}

/// Runs `command`; its output goes straight to ours.
pub(crate) fn run(mut command: Command) -> Result<Outcome> {
    let shown = show(&command);
    println!("$ {shown}");
    let status = command.status().with_context(|| format!("could not start `{shown}`"))?;
    Ok(if status.success() { Outcome::Passed } else { Outcome::Failed(format!("`{shown}`: {status}")) })
}

/// Runs commands at the same time; their output goes straight to ours.
pub(crate) fn run_together(commands: impl Iterator<Item = Command>) -> Result<Outcome> {
    let mut children = Vec::new();
    for mut command in commands {
        let shown = show(&command);
        println!("$ {shown}");
        let child = command.spawn().with_context(|| format!("could not start `{shown}`"))?;
        children.push((shown, child));
    }
    let mut outcome = Outcome::Passed;
    for (shown, mut child) in children {
        let status = child.wait().with_context(|| format!("could not wait for `{shown}`"))?;
        if !status.success() {
            outcome = Outcome::Failed(format!("`{shown}`: {status}"));
        }
    }
    Ok(outcome)
}

/// Runs a test command; passes its output on line by line and counts the tests in it.
pub(crate) fn run_tests(mut command: Command) -> Result<(Outcome, Tally)> {
    let shown = show(&command);
    println!("$ {shown}");
    let mut counter = Counter::default();
    // Many tests provoke panics, and their backtraces would hide the one that matters.
    command.stdout(Stdio::piped()).env("RUST_BACKTRACE", "0");
    let mut child = command.spawn().with_context(|| format!("could not start `{shown}`"))?;
    if let Some(output) = child.stdout.take() {
        for_each_line(output, |line| {
            println!("{line}");
            counter.read(line);
        })?;
    }
    let status = child.wait().with_context(|| format!("could not wait for `{shown}`"))?;
    for reason in counter.reasons() {
        println!("skipped {reason}");
    }
    let tally = counter.tally();
    let outcome = match (status.success(), tally.failed) {
        (true, 0) => Outcome::Passed,
        (_, 0) => Outcome::Failed(format!("`{shown}`: {status}")),
        (_, failed) => {
            let first = format!("{failed} tests failed in `{shown}`");
            Outcome::Failed(
                std::iter::once(first).chain(counter.failures().iter().map(Failure::shown)).collect(),
            )
        }
    };
    Ok((outcome, tally))
}

/// Runs a command to its end and returns its standard output; standard error goes to ours.
pub(crate) fn output(mut command: Command) -> Result<String> {
    let shown = show(&command);
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("could not start `{shown}`; is it installed?"))?;
    anyhow::ensure!(output.status.success(), "`{shown}`: {}", output.status);
    String::from_utf8(output.stdout).with_context(|| format!("`{shown}` did not print UTF-8"))
}

/// The program `name` as the tests of the workspace have built it, for which `test` is an integration test of its package. Built
/// by itself it would have other features, and with it everything that it uses would be built once more.
pub(crate) fn program_of_tests(workspace: &Workspace, test: &str, name: &str) -> Result<PathBuf> {
    let build = ["test", "--no-run", "--workspace", "--test", test, "--message-format=json"];
    program_in(&output(cargo(workspace, &build))?, name)
}

/// The program `name` among those that cargo says it has built.
pub(crate) fn program_in(messages: &str, name: &str) -> Result<PathBuf> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let is_it = |message: &Value| message["target"]["name"] == name && message["target"]["kind"][0] == "bin";
    let mut found =
        messages.filter(is_it).filter_map(|message| message["executable"].as_str().map(PathBuf::from));
    found.next_back().with_context(|| format!("cargo built no {name}"))
}

/// Calls `each` with every line of `output`, as it arrives. Bytes that are not UTF-8 are replaced.
pub(crate) fn for_each_line(output: impl std::io::Read, mut each: impl FnMut(&str)) -> Result<()> {
    let mut reader = BufReader::new(output);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line)? > 0 {
        each(String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']));
        std::io::stdout().flush()?;
        line.clear();
    }
    Ok(())
}

/// The command as one would type it, with the variables it sets.
pub(crate) fn show(command: &Command) -> String {
    let variables = command.get_envs().filter_map(|(name, value)| {
        let value = value?.to_string_lossy();
        let quote = if value.contains(' ') { "\"" } else { "" };
        Some(format!("{}={quote}{value}{quote}", name.to_string_lossy()))
    });
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    variables.chain(words.map(|word| word.to_string_lossy().into_owned())).collect::<Vec<_>>().join(" ")
}

/// What this machine is called by compilers.
pub(crate) fn host_triple() -> Result<String> {
    let mut command = Command::new("rustc");
    command.arg("-vV");
    let version = output(command)?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("`rustc -vV` names no host")?.to_owned())
}

/// The first of `programs` that is on the search path.
pub(crate) fn find_program(programs: &[&str]) -> Option<String> {
    let path = std::env::var_os("PATH")?;
    let found = |name: &&&str| std::env::split_paths(&path).any(|dir| dir.join(name).is_file());
    programs.iter().find(found).map(|name| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_it_would_be_typed() {
        let mut command = Command::new("cargo");
        command.args(["test", "-p", "x"]).env("RUSTFLAGS", "--cfg loom -O");
        assert_eq!(show(&command), "RUSTFLAGS=\"--cfg loom -O\" cargo test -p x");
    }

    #[test]
    fn a_program_is_found_among_what_cargo_has_built() {
        let line = |name: &str, kind: &str, path: &str| {
            format!(r#"{{"target":{{"name":"{name}","kind":["{kind}"]}},"executable":{path}}}"#)
        };
        let messages =
            [line("a", "lib", "null"), line("a", "test", "\"/t/a-1\""), line("a", "bin", "\"/t/a\"")];
        assert_eq!(program_in(&messages.join("\n"), "a").unwrap(), PathBuf::from("/t/a"));
        assert!(program_in(&messages.join("\n"), "b").is_err());
    }

    #[test]
    fn cargo_is_called_as_people_call_it() {
        assert!(is_about_this_package("CARGO_PKG_VERSION") && is_about_this_package("CARGO_MANIFEST_DIR"));
        assert!(!is_about_this_package("CARGO_TARGET_DIR") && !is_about_this_package("CARGO_HOME"));
    }

    #[test]
    fn lines_arrive_without_their_ends_and_the_last_needs_none() {
        let mut lines = Vec::new();
        for_each_line("one\r\ntwo\n\nfour".as_bytes(), |line| lines.push(line.to_owned())).unwrap();
        assert_eq!(lines, ["one", "two", "", "four"]);
    }

    #[test]
    fn a_failing_program_is_a_failed_outcome_and_a_missing_one_an_error() {
        assert!(matches!(run(Command::new("false")).unwrap(), Outcome::Failed(_)));
        assert!(run(Command::new("no-such-program-anywhere")).is_err());
    }

    #[test]
    fn failed_tests_fail_the_run_and_are_counted() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo 'test result: FAILED. 3 passed; 2 failed; 0 ignored'; exit 1"]);
        let (outcome, tally) = run_tests(command).unwrap();
        assert!(matches!(outcome, Outcome::Failed(reason) if reason.starts_with("2 tests failed")));
        assert_eq!(tally, Tally { passed: 3, failed: 2, skipped: 0 });
    }
}
