//! The examples of all `--help` pages.

use std::path::Path;
use std::process::Command;

/// A page of a command: its words, and the examples on it.
pub(crate) struct Help {
    /// Without the program's name: `kv get`.
    pub(crate) command: String,
    pub(crate) examples: Vec<String>,
}

/// As wide as help is where there is no terminal.
const WIDTH: usize = 100;

/// A page without wrapped lines.
fn text(program: &Path, command: &[String]) -> String {
    let mut help = Command::new(program);
    let output = help.args(command).arg("--help").env("COLUMNS", "1000").output().unwrap();
    assert!(output.status.success(), "{command:?} --help");
    String::from_utf8(output.stdout).unwrap()
}

/// The page of a command, and those of its subcommands.
pub(crate) fn all(program: &Path) -> Vec<Help> {
    let mut pages = Vec::new();
    let mut open = vec![Vec::new()];
    while let Some(command) = open.pop() {
        let text = text(program, &command);
        let examples = examples(&text);
        assert!(!examples.is_empty(), "outboard {} --help has no examples", command.join(" "));
        let below = subcommands(&text);
        open.extend(below.iter().rev().map(|name| [command.as_slice(), std::slice::from_ref(name)].concat()));
        pages.push(Help { command: command.join(" "), examples });
    }
    pages
}

/// The lines of a section of a page: `Commands:`.
fn section<'a>(text: &'a str, head: &'a str) -> impl Iterator<Item = &'a str> {
    text.lines().skip_while(move |line| *line != head).skip(1).take_while(|line| !line.is_empty())
}

fn subcommands(text: &str) -> Vec<String> {
    let name = |line: &str| line.strip_prefix("  ")?.split(' ').next().map(str::to_owned);
    section(text, "Commands:").filter_map(name).filter(|name| !name.is_empty() && name != "help").collect()
}

/// An example is a command, and two spaces behind it what it is for. A line that begins further right goes on with that.
fn examples(text: &str) -> Vec<String> {
    let command = |line: &str| {
        assert!(
            line.chars().count() <= WIDTH,
            "“{line}” is wrapped where a terminal has {WIDTH} columns: shorten it"
        );
        let line = line.strip_prefix("  ").filter(|line| !line.starts_with(' '))?;
        Some(line.split("  ").next().unwrap_or(line).to_owned())
    };
    section(text, "Examples:").filter_map(command).collect()
}
