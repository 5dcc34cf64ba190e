//! Pages whose links lead somewhere, and a changelog that can take the next change.

use super::Finding;
use super::tree::{File, Tree};

const CHANGELOG: &str = "CHANGELOG.md";

/// Checks all pages.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let pages = tree.files.iter().filter(|file| file.path.ends_with(".md"));
    let mut findings: Vec<Finding> = pages.flat_map(|page| dead_links(page, tree)).collect();
    findings.extend(changelog(tree.get(CHANGELOG)));
    findings
}

fn changelog(file: Option<&File>) -> Option<Finding> {
    let Some(text) = file.and_then(|file| file.text.as_deref()) else {
        return Some(Finding::error(CHANGELOG, 1, "missing: write it in Keep-a-Changelog form"));
    };
    let is_unreleased = |line: &str| {
        line.strip_prefix("## ").is_some_and(|title| title.trim_matches(['[', ']']) == "Unreleased")
    };
    if text.lines().any(is_unreleased) {
        return None;
    }
    Some(Finding::error(CHANGELOG, 1, "no place for the next change: add `## [Unreleased]`"))
}

fn dead_links(page: &File, tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut in_fence = false;
    for (index, line) in page.text.as_deref().unwrap_or("").lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_fence = !in_fence;
        }
        if in_fence {
            continue;
        }
        for target in link_targets(&without_code(line)) {
            let path = target.split(['#', '?']).next().unwrap_or("");
            let is_address = target.contains("://") || target.starts_with("mailto:");
            if is_address || path.is_empty() {
                continue;
            }
            if !resolve(&page.path, path).is_some_and(|path| tree.contains(&path)) {
                let message = format!("the link to `{target}` leads nowhere: correct or delete it");
                findings.push(Finding::error(&page.path, index + 1, message));
            }
        }
    }
    findings
}

/// The line without its `code` parts.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("`")
}

/// What `[text](target)` and `[name]: target` point to.
fn link_targets(line: &str) -> Vec<String> {
    let inline = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let reference =
        line.trim_start().strip_prefix('[').and_then(|rest| rest.split_once("]: ")).map(|(_, target)| target);
    let targets = inline.chain(reference).filter_map(|target| target.split_whitespace().next());
    targets.map(|target| target.trim_matches(['<', '>']).to_owned()).collect()
}

/// The path that `link` on the page `from` means; `None` if it leads out of the tree.
fn resolve(from: &str, link: &str) -> Option<String> {
    if link.starts_with('/') {
        return None;
    }
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANGES: (&str, &str) = (CHANGELOG, "# Changelog\n\n## [Unreleased]\n");

    fn lines(page: &str) -> Vec<usize> {
        let files = [CHANGES, ("docs/page.md", page), ("docs/other.md", ""), ("crates/wire/src/lib.rs", "")];
        check(&Tree::of(&files)).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn links_that_lead_somewhere_pass() {
        let page = "\
[a](other.md) and [b](./other.md#part) and [c](../crates/wire/)\n\
[d](#here) [e](https://example.org/x) [f](mailto:a@b.c) ![g](<other.md> \"title\")\n\
`[code](nowhere.md)` is no link\n\
```\n[h](nowhere.md)\n```\n\
[i]: other.md\n";
        assert_eq!(lines(page), [0; 0]);
    }

    #[test]
    fn links_that_lead_nowhere_are_found_at_their_line() {
        assert_eq!(lines("ok\n[a](nowhere.md)\n"), [2]);
        assert_eq!(lines("[a](other.md) [b](gone/)\n[c]: gone.md\n"), [1, 2]);
        assert_eq!(lines("[a](../../outside.md)\n[b](/docs/other.md)\n"), [1, 2]);
        assert_eq!(lines("```\ncode\n```\n[a](nowhere.md)\n"), [4]);
    }

    #[test]
    fn the_changelog_has_a_place_for_the_next_change() {
        assert_eq!(changelog(Some(&File::of(CHANGELOG, CHANGES.1))), None);
        assert_eq!(changelog(Some(&File::of(CHANGELOG, "## Unreleased\n"))), None);
        assert!(changelog(Some(&File::of(CHANGELOG, "## [0.1.0]\n"))).is_some());
        assert!(changelog(None).is_some());
    }
}
