//! Every package says the same things about itself, and starts by saying what it is for.

use super::Finding;
use super::tree::Tree;
use crate::workspace::Package;

/// Fields that a package takes from the workspace.
const INHERITED: &[&str] = &["version", "edition", "rust-version", "license", "publish"];

/// Rooms that need no unsafe code and must not begin to.
const SAFE_ROOMS: &[&str] = &[
    "crates/wire",
    "crates/steering",
    "crates/settings",
    "crates/keys",
    "crates/sim",
    "crates/cli",
    "fuzz/src/lib.rs",
    "xtask",
];

const FORBID_UNSAFE: &str = "#![forbid(unsafe_code)]";

/// Checks the manifest and the root files of every package.
pub(super) fn check(packages: &[Package], tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in packages {
        let path = format!("{}/Cargo.toml", package.room);
        let manifest = tree.get(&path).and_then(|file| file.text.as_deref()).unwrap_or("");
        findings.extend(manifest_gaps(&path, manifest));
        for root in &package.roots {
            let text = tree.get(root).and_then(|file| file.text.as_deref()).unwrap_or("");
            findings.extend(root_gaps(root, text));
        }
    }
    findings
}

fn manifest_gaps(path: &str, manifest: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for field in INHERITED.iter().filter(|field| !inherits(manifest, "package", field)) {
        let message = format!("`{field}` is not the workspace's: write `{field}.workspace = true`");
        findings.push(Finding::error(path, 1, message));
    }
    if !section(manifest, "lints").any(|line| squeezed(line) == "workspace=true") {
        findings.push(Finding::error(path, 1, "add `[lints]` with `workspace = true`"));
    }
    if !section(manifest, "package").any(|line| squeezed(line).starts_with("description=\"")) {
        findings.push(Finding::error(path, 1, "add a `description`: what the package is for, in a sentence"));
    }
    findings
}

fn inherits(manifest: &str, in_section: &str, field: &str) -> bool {
    let forms = [format!("{field}.workspace=true"), format!("{field}={{workspace=true}}")];
    section(manifest, in_section).any(|line| forms.contains(&squeezed(line)))
}

/// The lines of one section of a manifest.
fn section<'a>(manifest: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let head = format!("[{name}]");
    let after = manifest.lines().skip_while(move |line| line.trim() != head).skip(1);
    after.take_while(|line| !line.trim_start().starts_with('['))
}

fn squeezed(line: &str) -> String {
    line.chars().filter(|c| !c.is_whitespace()).collect()
}

fn root_gaps(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !text.starts_with("//! ") {
        let message = "begin with `//!`: one sentence of purpose, one of what it does not do";
        findings.push(Finding::error(path, 1, message));
    }
    let is_safe = |room: &str| path == room || path.starts_with(&format!("{room}/"));
    if SAFE_ROOMS.iter().any(|room| is_safe(room)) && !text.lines().any(|line| line == FORBID_UNSAFE) {
        findings.push(Finding::error(
            path,
            1,
            format!("this room needs no unsafe code: add `{FORBID_UNSAFE}`"),
        ));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = "\
[package]
name = \"outboard-wire\"
description = \"What two processes must agree on.\"
version.workspace = true
edition.workspace = true
rust-version = { workspace = true }
license.workspace = true
publish.workspace = true

[dependencies]

[lints]
workspace = true
";

    fn found(manifest: &str, root: &str) -> Vec<String> {
        let package = Package {
            room: "crates/wire".to_owned(),
            roots: vec!["crates/wire/src/lib.rs".to_owned()],
            ..Package::default()
        };
        let tree = Tree::of(&[("crates/wire/Cargo.toml", manifest), ("crates/wire/src/lib.rs", root)]);
        check(&[package], &tree).into_iter().map(|finding| finding.message).collect()
    }

    const ROOT: &str = "//! What two processes must agree on.\n#![forbid(unsafe_code)]\n";

    #[test]
    fn a_complete_package_passes() {
        assert_eq!(found(MANIFEST, ROOT), [""; 0]);
    }

    #[test]
    fn each_missing_line_of_the_manifest_is_named() {
        for field in INHERITED {
            let changed: String = MANIFEST
                .lines()
                .filter(|line| !line.starts_with(field))
                .fold(String::new(), |text, line| text + line + "\n");
            let found = found(&changed, ROOT);
            assert_eq!(found.len(), 1, "{field}: {found:?}");
            assert!(found[0].starts_with(&format!("`{field}`")), "{found:?}");
        }
        assert_eq!(found(&MANIFEST.replace("[lints]", "[other]"), ROOT).len(), 1);
        assert_eq!(found(&MANIFEST.replace("description", "readme"), ROOT).len(), 1);
        assert_eq!(
            found(&MANIFEST.replace("version.workspace = true\n", "version = \"1\"\n"), ROOT).len(),
            1
        );
    }

    #[test]
    fn roots_say_what_they_are_for_and_forbid_unsafe_code() {
        assert_eq!(found(MANIFEST, "#![forbid(unsafe_code)]\n").len(), 1);
        assert_eq!(found(MANIFEST, "//! Purpose.\n// #![forbid(unsafe_code)]\n").len(), 1);
        assert_eq!(root_gaps("crates/link/src/lib.rs", "//! Moves frames.\n"), []);
    }
}
