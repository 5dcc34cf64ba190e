//! The tables of rooms and commands say what there is.

use std::collections::BTreeSet;

use super::Finding;
use super::tree::{File, Tree};
use crate::workspace::Package;

const ROOMS: &str = "ARCHITECTURE.md";
const ROOMS_HEAD: &str = "| room | does | uses |";
const HABITS: &str = "CONTRIBUTING.md";
const COMMANDS: &str = "crates/cli/src/commands/mod.rs";
/// The words that may follow `outboard` on a page without being a command.
const NO_COMMANDS: &[&str] = &["help"];
const SERVICES: [&str; 4] = ["calling", "paging", "routing", "writing"];

/// Checks the rooms and what they use, the commands of the project's tools, and the commands of the program.
pub(super) fn check(packages: &[Package], tree: &Tree, tools: &[String]) -> Vec<Finding> {
    let mut findings = rooms(packages, tree);
    findings.extend(tool_commands(tree, tools));
    findings.extend(program_commands(tree));
    findings
}

/// Checks that every package has one row among the rooms, which lists what it uses.
fn rooms(packages: &[Package], tree: &Tree) -> Vec<Finding> {
    let text = tree.get(ROOMS).and_then(|file| file.text.as_deref()).unwrap_or_default();
    let rows: Vec<(usize, Vec<&str>)> = text
        .lines()
        .enumerate()
        .skip_while(|(_, line)| *line != ROOMS_HEAD)
        .take_while(|(_, line)| line.starts_with('|'))
        .skip(2)
        .map(|(index, line)| (index + 1, line.trim_matches('|').split('|').map(str::trim).collect()))
        .collect();
    let mut findings = Vec::new();
    for package in packages {
        let name = format!("`{}`", package.room);
        let uses = uses(package);
        match rows.iter().find(|(_, cells)| cells[0] == name) {
            None => {
                let message =
                    format!("no row in the table of rooms: add `| {name} | what it does | {uses} |`");
                findings.push(Finding::error(ROOMS, 1, message));
            }
            Some((line, cells)) if cells.last() != Some(&uses.as_str()) => {
                findings.push(Finding::error(ROOMS, *line, format!("{name} uses {uses}: say so in its row")));
            }
            Some(_) => {}
        }
    }
    for (line, cells) in &rows {
        if !packages.iter().any(|package| format!("`{}`", package.room) == cells[0]) {
            findings.push(Finding::error(ROOMS, *line, format!("{} is no room: delete its row", cells[0])));
        }
    }
    findings
}

/// The rooms that a package uses outside of its tests, as its row lists them.
fn uses(package: &Package) -> String {
    let direct = package.dependencies.iter().filter(|dependency| dependency.kind == "normal");
    let short = |room: &String| room.rsplit('/').next().unwrap_or(room).to_owned();
    let rooms = direct.filter_map(|dependency| dependency.room.as_ref());
    let mut names: BTreeSet<String> = rooms.map(short).collect();
    let mut list = Vec::new();
    if SERVICES.iter().all(|service| names.contains(*service)) {
        names.retain(|name| !SERVICES.contains(&name.as_str()));
        list.push("the four services".to_owned());
    }
    list.extend(names);
    if list.is_empty() { "–".to_owned() } else { list.join(", ") }
}

/// Checks that the table of habits names every `cargo xtask` command, and the pages no other.
fn tool_commands(tree: &Tree, tools: &[String]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let habits = tree.get(HABITS).and_then(|file| file.text.as_deref()).unwrap_or_default();
    let in_table: Vec<String> = habits
        .lines()
        .filter(|line| line.starts_with('|'))
        .flat_map(|line| named(line, "cargo xtask"))
        .collect();
    for tool in tools.iter().filter(|tool| !in_table.contains(tool)) {
        findings.push(Finding::error(
            HABITS,
            1,
            format!("no row for `cargo xtask {tool}`: add it to the habits"),
        ));
    }
    findings.extend(strangers(tree, "cargo xtask", tools));
    findings
}

/// Checks that some page names every command of the program, and no page another.
fn program_commands(tree: &Tree) -> Vec<Finding> {
    let Some(text) = tree.get(COMMANDS).and_then(|file| file.text.as_deref()) else { return Vec::new() };
    let lines = text.lines().skip_while(|line| !line.contains("enum Command")).skip(1);
    let variants = lines.take_while(|line| !line.starts_with('}')).map(str::trim);
    let commands: Vec<String> = variants
        .filter(|line| !line.starts_with(['/', '#']))
        .filter_map(|line| Some(kebab(line.split_once('(')?.0)))
        .collect();
    let pages =
        || tree.files.iter().filter(|file| file.path == "README.md" || file.path.starts_with("docs/"));
    let told: BTreeSet<String> =
        pages().flat_map(|page| mentions(page, "outboard")).map(|(_, name)| name).collect();
    let mut findings = Vec::new();
    for command in commands.iter().filter(|command| !told.contains(*command) && !is_internal(text, command)) {
        let message = format!("no page tells of `outboard {command}`: add it to the guide where it belongs");
        findings.push(Finding::error(COMMANDS, 1, message));
    }
    findings.extend(strangers(tree, "outboard", &commands));
    findings
}

/// Whether a command is one that the program starts itself: such have the name of another one before theirs.
fn is_internal(commands: &str, command: &str) -> bool {
    command.split_once('-').is_some_and(|(before, _)| commands.contains(&format!("mod {before};")))
}

/// What pages call commands of `program` that are none.
fn strangers(tree: &Tree, program: &str, commands: &[String]) -> Vec<Finding> {
    let pages = tree.files.iter().filter(|file| file.path.ends_with(".md"));
    let all = pages
        .flat_map(|page| mentions(page, program).into_iter().map(move |(line, name)| (page, line, name)));
    let unknown =
        all.filter(|(_, _, name)| !commands.contains(name) && !NO_COMMANDS.contains(&name.as_str()));
    let found = unknown.map(|(page, line, name)| {
        Finding::error(&page.path, line, format!("`{program} {name}` is no command: correct or delete it"))
    });
    found.collect()
}

/// The commands of `program` that a page names: in `code`, or at the beginning of a line in a block of commands.
fn mentions(page: &File, program: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut block: Option<&str> = None;
    for (index, line) in page.text.as_deref().unwrap_or("").lines().enumerate() {
        if let Some(kind) = line.trim_start().strip_prefix("```") {
            block = if block.is_some() { None } else { Some(kind) };
            continue;
        }
        let names = match block {
            Some("sh" | "console") => {
                let command = line.strip_prefix("$ ").unwrap_or(line);
                command_of(command, program).into_iter().collect()
            }
            Some(_) => Vec::new(),
            None => named(line, program),
        };
        found.extend(names.into_iter().map(|name| (index + 1, name)));
    }
    found
}

/// The commands of `program` that stand in the `code` parts of a line.
fn named(line: &str, program: &str) -> Vec<String> {
    line.split('`').skip(1).step_by(2).filter_map(|code| command_of(code, program)).collect()
}

/// The word after `program`, if that is how `text` begins and the word could be a command.
fn command_of(text: &str, program: &str) -> Option<String> {
    let word = text.strip_prefix(program)?.strip_prefix(' ')?.split_whitespace().next()?;
    let could_be = word.starts_with(|c: char| c.is_ascii_lowercase())
        && word.chars().all(|c| c.is_ascii_lowercase() || c == '-');
    could_be.then(|| word.to_owned())
}

/// `RunNode` as it is typed: `run-node`.
fn kebab(name: &str) -> String {
    let mut typed = String::new();
    for c in name.chars() {
        if c.is_uppercase() && !typed.is_empty() {
            typed.push('-');
        }
        typed.extend(c.to_lowercase());
    }
    typed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Dependency;

    fn package(room: &str, uses: &[&str]) -> Package {
        let dependency = |room: &&str| Dependency {
            name: (*room).to_owned(),
            kind: "normal".to_owned(),
            room: Some(format!("crates/{room}")),
        };
        Package {
            room: room.to_owned(),
            dependencies: uses.iter().map(dependency).collect(),
            ..Package::default()
        }
    }

    fn messages(findings: Vec<Finding>) -> Vec<String> {
        findings.into_iter().map(|finding| finding.to_string()).collect()
    }

    #[test]
    fn a_room_has_a_row_that_lists_what_it_uses() {
        let packages = [
            package("crates/wire", &[]),
            package("crates/agent", &["wire", "paging", "calling", "routing", "writing"]),
        ];
        let page = "| room | does | uses |\n|---|---|---|\n| `crates/wire` | a | – |\n\
            | `crates/agent` | b | the four services, wire |\n";
        assert_eq!(messages(rooms(&packages, &Tree::of(&[(ROOMS, page)]))), [""; 0]);
        let wrong = page.replace("services, wire", "services").replace("`crates/wire`", "`crates/wires`");
        let found = messages(rooms(&packages, &Tree::of(&[(ROOMS, &wrong)])));
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found.iter().any(|message| message.contains("uses the four services, wire")), "{found:?}");
    }

    #[test]
    fn habits_are_complete_and_pages_name_no_other() {
        let tools = ["tidy".to_owned(), "ci".to_owned()];
        let habits = "| `cargo xtask tidy` | a |\n| `cargo xtask ci --only x` | b |\n";
        assert_eq!(messages(tool_commands(&Tree::of(&[(HABITS, habits)]), &tools)), [""; 0]);
        let found = messages(tool_commands(&Tree::of(&[(HABITS, "`cargo xtask tidi`\n")]), &tools));
        assert_eq!(found.len(), 3, "{found:?}");
    }

    #[test]
    fn pages_name_the_commands_that_there_are() {
        let commands = "mod run;\n/// What it can do.\nenum Command {\n    Run(run::Args),\n    RunNode(a::Args),\n    Up(up::Args),\n}\n";
        let page = "```sh\noutboard up > log &\n```\n`outboard run -n 2 -- x`, `outboard help run`, `outboard`, `outboard NAME`\n";
        assert_eq!(
            messages(program_commands(&Tree::of(&[(COMMANDS, commands), ("README.md", page)]))),
            [""; 0]
        );
        let page = "```console\n$ outboard upp\n```\n`outboard run`\n";
        let found = messages(program_commands(&Tree::of(&[(COMMANDS, commands), ("docs/a.md", page)])));
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found.iter().any(|message| message.contains("docs/a.md:2: `outboard upp` is no command")));
    }
}
