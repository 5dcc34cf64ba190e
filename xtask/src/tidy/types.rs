//! A type's name means one thing.

use std::collections::BTreeMap;

use super::Finding;
use super::source::Source;
use super::tree::{File, Tree};

const KEYWORDS: &[&str] = &["struct", "enum", "trait", "type", "union"];

/// What commands of a program call their arguments: each is named by its module.
const BY_MODULE: &[&str] = &["Args"];

/// Rooms of tests alone, whose library no other room can use.
const TESTS: &[&str] = &["crates/e2e"];

/// The definition of a type that other modules see.
struct Definition<'a> {
    name: &'a str,
    path: &'a str,
    /// The crate, by its folder.
    room: &'a str,
    line: usize,
    /// `pub`, and not `pub(crate)` or less.
    is_public: bool,
}

/// Checks that no two public types of the workspace share a name, and that a crate has no second type of its own with the
/// name of a public one.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut by_name: BTreeMap<&str, Vec<Definition<'_>>> = BTreeMap::new();
    for definition in tree.files.iter().flat_map(definitions) {
        by_name.entry(definition.name).or_default().push(definition);
    }
    by_name.into_values().flat_map(clashes).collect()
}

/// The definitions of one name that another one is in the way of.
fn clashes(mut all: Vec<Definition<'_>>) -> Vec<Finding> {
    all.sort_by_key(|definition| !definition.is_public);
    let mut findings = Vec::new();
    for (index, second) in all.iter().enumerate() {
        let clashes =
            |first: &&Definition<'_>| first.is_public && (second.is_public || first.room == second.room);
        if let Some(first) = all[..index].iter().find(clashes) {
            let Definition { name, path, line, .. } = second;
            let message = format!(
                "a public type in {}:{} is called `{name}` too: one name, one concept; say in the name what sets this \
                 one apart",
                first.path, first.line
            );
            findings.push(Finding::error(path, *line, message));
        }
    }
    findings
}

/// The types that a file defines for other modules; none in tests, which no other crate can import.
fn definitions(file: &File) -> Vec<Definition<'_>> {
    let Some(text) = file.text.as_deref().filter(|_| file.is_rust() && !file.is_test()) else {
        return Vec::new();
    };
    let Some((room, _)) = file.path.split_once("/src/").filter(|(room, _)| !TESTS.contains(room)) else {
        return Vec::new();
    };
    let source = Source::new(text);
    let tests = source.test_parts();
    let in_tests = |at: &usize| tests.iter().any(|part| part.contains(at));
    let found = source.find_word("pub").into_iter().filter(|at| !in_tests(at)).filter_map(|at| {
        let rest = source.code[at + "pub".len()..].trim_start();
        let (is_public, rest) = match rest.strip_prefix('(') {
            Some(rest) => (false, rest.split_once(')')?.1),
            None => (true, rest),
        };
        let rest = rest.trim_start();
        let rest = rest.strip_prefix("unsafe ").unwrap_or(rest);
        let (keyword, rest) = rest.split_once(char::is_whitespace)?;
        let start = text.len() - rest.len();
        let len = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        let name = &text[start..start + len];
        let is_type = KEYWORDS.contains(&keyword) && !name.is_empty() && !BY_MODULE.contains(&name);
        is_type.then(|| Definition { name, path: &file.path, room, line: source.line_of(at), is_public })
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        check(&Tree::of(files)).into_iter().map(|finding| finding.to_string()).collect()
    }

    #[test]
    fn a_public_name_is_found_twice_wherever_it_stands() {
        for second in
            ["pub enum Site {}", "pub trait Site: Send {}", "pub type Site<T> = Vec<T>;", "pub struct Site;"]
        {
            let found =
                found(&[("crates/a/src/x.rs", "pub struct Site(u32);\n"), ("apps/b/src/y.rs", second)]);
            assert_eq!(found.len(), 1, "{second}: {found:?}");
            assert!(found[0].contains("`Site`"), "{found:?}");
        }
    }

    #[test]
    fn what_one_crate_keeps_to_itself_clashes_only_at_home() {
        let public = ("crates/a/src/x.rs", "/// A.\npub struct Site;\n");
        let own = "pub(super) struct Site;\npub(crate) enum Other {}\n";
        assert_eq!(found(&[public, ("crates/a/src/y.rs", own)]).len(), 1);
        assert_eq!(found(&[public, ("crates/b/src/y.rs", own)]), [""; 0]);
        assert_eq!(found(&[("crates/a/src/y.rs", own), ("crates/a/src/z.rs", own)]), [""; 0]);
    }

    #[test]
    fn exports_tests_functions_and_arguments_are_no_definitions() {
        let public = ("crates/a/src/x.rs", "pub struct Site;\npub struct Args;\npub fn typed() {}\n");
        let others = "pub use a::Site;\npub fn Site() {}\n#[cfg(test)]\nmod tests { pub struct Site; }\npub struct Args;\n";
        assert_eq!(found(&[public, ("crates/b/src/y.rs", others)]), [""; 0]);
        assert_eq!(found(&[public, ("crates/b/tests/y.rs", "pub struct Site;\n")]), [""; 0]);
    }
}
