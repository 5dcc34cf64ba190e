//! Faults on purpose have names of their own, which say where they stand.

use std::collections::BTreeMap;

use super::Finding;
use super::source::Source;
use super::tree::{File, Tree};

/// The rooms whose machines may have faults.
const ROOMS: &[&str] = &["agent", "paging", "routing", "calling", "writing"];

/// A fault, and the line at which it stands.
struct Fault<'a> {
    name: &'a str,
    path: &'a str,
    line: usize,
}

/// Checks that every name says its room and stands at one place.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut known: BTreeMap<&str, &str> = BTreeMap::new();
    for Fault { name, path, line } in tree.files.iter().flat_map(faults) {
        let room = ROOMS.iter().find(|room| path.starts_with(&format!("crates/{room}/src/")));
        let is_named_so =
            room.is_some_and(|room| name.strip_prefix(room).is_some_and(|rest| rest.starts_with('.')));
        if !is_named_so {
            let message = format!("the fault `{name}` is named for another room than its own, {path}");
            findings.push(Finding::error(path, line, message));
        }
        if let Some(first) = known.insert(name, path) {
            let message = format!("the fault `{name}` stands in {first} already: one name, one place");
            findings.push(Finding::error(path, line, message));
        }
    }
    findings
}

/// All faults by name, with the file and the line at which each stands.
pub(super) fn list(tree: &Tree) -> Vec<(String, String)> {
    let faults = tree.files.iter().flat_map(faults);
    let mut all: Vec<_> =
        faults.map(|Fault { name, path, line }| (name.to_owned(), format!("{path}:{line}"))).collect();
    all.sort();
    all
}

fn faults(file: &File) -> Vec<Fault<'_>> {
    // Where `mutant` is defined, its name is not a question.
    let Some(text) = file.text.as_deref().filter(|_| file.is_rust() && file.path.starts_with("crates/"))
    else {
        return Vec::new();
    };
    if !text.contains("mutant(") {
        return Vec::new();
    }
    let source = Source::new(text);
    let named = source.find_word("mutant").into_iter().filter_map(|at| {
        let name = text[at..].strip_prefix("mutant(\"")?.split('"').next()?;
        Some(Fault { name, path: &file.path, line: source.line_of(at) })
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_their_room_and_stand_once() {
        let good = ("crates/writing/src/a.rs", "if mutant(\"writing.ack-lost\") {}\n// mutant(\"x\")\n");
        assert_eq!(check(&Tree::of(&[good])), []);
        let again =
            ("crates/writing/src/b.rs", "fn f() {}\nif !outboard_wire::mutant(\"writing.ack-lost\") {}\n");
        let findings = check(&Tree::of(&[good, again]));
        assert!(findings.len() == 1 && findings[0].line == 2, "{findings:?}");
        let elsewhere = ("crates/routing/src/b.rs", "mutant(\"writing.late\");\n");
        assert!(check(&Tree::of(&[elsewhere]))[0].message.contains("another room"));
        let all = list(&Tree::of(&[good]));
        assert_eq!(all, [("writing.ack-lost".to_owned(), "crates/writing/src/a.rs:1".to_owned())]);
    }
}
