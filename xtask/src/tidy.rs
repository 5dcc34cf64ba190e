//! `cargo xtask tidy`: the parts of our style that a program can check.
//!
//! Every check is a function from what it looks at to what it finds, so that it can be tried on a few lines of
//! text. What to do about a finding is part of its message.

mod banned;
mod direction;
mod examples;
mod files;
mod flows;
mod hand_overs;
mod length;
mod manifests;
mod markdown;
mod mutants;
mod nameable;
mod source;
mod tables;
mod tree;
mod types;
mod words;

use std::fmt;

use anyhow::Result;

use crate::step::Outcome;
use crate::workspace::Workspace;
use tree::Tree;

/// Something that a check does not like.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    /// The file, relative to the workspace.
    path: String,
    /// The line, counted from 1.
    line: usize,
    /// Whether it has to be put right, or is only worth knowing.
    level: Level,
    /// What is wrong and what to do about it.
    message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Error,
    Note,
}

impl Finding {
    fn error(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, level: Level::Error, message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.level {
            Level::Error => "error",
            Level::Note => "note",
        };
        write!(out, "{level}: {}:{}: {}", self.path, self.line, self.message)
    }
}

/// Checks the whole tree.
pub(crate) fn run(workspace: &Workspace) -> Result<Outcome> {
    let tree = Tree::load(&workspace.root)?;
    let mut findings = check(workspace, &tree);
    findings.sort();
    for finding in &findings {
        println!("{finding}");
    }
    let errors = findings.iter().filter(|finding| finding.level == Level::Error).count();
    println!("tidy: {} files, {errors} errors, {} notes", tree.files.len(), findings.len() - errors);
    Ok(match errors {
        0 => Outcome::Passed,
        _ => Outcome::Failed(format!("{errors} things to tidy up")),
    })
}

/// The faults that machines can be given, with the places at which they stand.
pub(crate) fn mutants(workspace: &Workspace) -> Result<Vec<(String, String)>> {
    Ok(mutants::list(&Tree::load(&workspace.root)?))
}

/// Shows how long the flows of ARCHITECTURE.md are, and where they are not drawn as they are.
pub(crate) fn flows(workspace: &Workspace) -> Result<Outcome> {
    let tree = Tree::load(&workspace.root)?;
    for flows::Measure { name, steps, files, returns, hand_overs } in flows::measure(&tree) {
        println!(
            "{name}: {steps} steps in {files} files, at most {returns} returns to one, {hand_overs} hand-overs"
        );
    }
    let findings = flows::check(&tree);
    for finding in &findings {
        println!("{finding}");
    }
    Ok(match findings.len() {
        0 => Outcome::Passed,
        count => Outcome::Failed(format!("{count} steps are not as they are drawn")),
    })
}

fn check(workspace: &Workspace, tree: &Tree) -> Vec<Finding> {
    let mut findings = direction::check(&workspace.packages);
    findings.extend(manifests::check(&workspace.packages, tree));
    findings.extend(markdown::check(tree));
    findings.extend(flows::check(tree));
    findings.extend(mutants::check(tree));
    findings.extend(nameable::check(tree));
    findings.extend(tables::check(&workspace.packages, tree, &crate::commands()));
    findings.extend(types::check(tree));
    findings.extend(words::check(tree));
    for file in &tree.files {
        findings.extend(files::check(file));
        if let (true, Some(text)) = (file.is_rust(), &file.text) {
            let source = source::Source::new(text);
            findings.extend(length::check(file, &source));
            findings.extend(banned::check(file, &source));
            findings.extend(examples::check(file));
        }
    }
    findings
}
