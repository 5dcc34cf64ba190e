//! What is on the pages.

use std::fs;
use std::path::Path;

/// A page for people.
pub(crate) struct Page {
    /// Its path from the root of the repository.
    pub(crate) name: String,
    pub(crate) text: String,
}

/// A part of a page that is set off by fences.
#[derive(Clone)]
pub(crate) struct Block {
    /// The line of its first fence, counted from 1.
    pub(crate) line: usize,
    pub(crate) language: String,
    /// What is between the fences.
    pub(crate) text: String,
}

/// A command on a page, with what the page shows of its output.
pub(crate) struct Shown {
    pub(crate) command: String,
    pub(crate) output: Vec<String>,
}

/// The README and the guides.
pub(crate) fn all(root: &Path) -> Vec<Page> {
    let page = |name: String| Page { text: fs::read_to_string(root.join(&name)).unwrap(), name };
    let docs = fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = docs
        .filter_map(|name| name.into_string().ok())
        .filter(|name| name.ends_with(".md"))
        .map(|name| format!("docs/{name}"))
        .collect();
    names.sort();
    names.insert(0, "README.md".to_owned());
    names.into_iter().map(page).collect()
}

impl Page {
    /// Its blocks, in their order.
    pub(crate) fn blocks(&self) -> Vec<Block> {
        let mut blocks: Vec<Block> = Vec::new();
        let mut is_inside = false;
        for (index, line) in self.text.split_inclusive('\n').enumerate() {
            match (is_inside, line.strip_prefix("```")) {
                (false, Some(language)) => {
                    let language = language.trim().to_owned();
                    blocks.push(Block { line: index + 1, language, text: String::new() });
                    is_inside = true;
                }
                (true, Some(_)) => is_inside = false,
                (true, None) => blocks.last_mut().unwrap().text += line,
                (false, None) => {}
            }
        }
        assert!(!is_inside, "{}: the last block has no end", self.name);
        blocks
    }
}

impl Block {
    /// The commands of a block for a shell. In a `console` they stand behind a dollar sign, and what they print below; in an
    /// `sh` every line is one, and goes on while it ends in a backslash or has an open quote or loop.
    pub(crate) fn commands(&self) -> Vec<Shown> {
        let mut commands: Vec<Shown> = Vec::new();
        let mut is_open = false;
        for line in self.text.lines() {
            let (line, begins) = match (self.language.as_str(), line.strip_prefix("$ ")) {
                ("console", Some(command)) => (command, true),
                ("console", None) => (line, false),
                _ => (line, !is_open),
            };
            match commands.last_mut() {
                Some(command) if is_open => command.command += &format!("\n{line}"),
                _ if begins => commands.push(Shown { command: line.to_owned(), output: Vec::new() }),
                Some(command) => command.output.push(line.to_owned()),
                None => panic!("“{line}” follows no command"),
            }
            is_open = commands.last().is_some_and(|shown| goes_on(&shown.command));
        }
        commands.retain(|shown| !shown.command.trim().is_empty() && !shown.command.starts_with('#'));
        commands
    }
}

/// Whether the next line belongs to this command.
fn goes_on(command: &str) -> bool {
    let is_quoted = command.matches('\'').count() % 2 == 1 && !command.contains('"');
    let is_loop = command.starts_with("for ") && !command.ends_with("done");
    command.ends_with('\\') || is_quoted || is_loop
}
