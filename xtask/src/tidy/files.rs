//! Only files that belong here, and no litter inside them.

use super::Finding;
use super::source::find_word;
use super::tree::{File, Kind};

/// What may lie at the top of the tree.
const TOP_LEVEL: &[&str] = &[
    ".cargo",
    ".ci",
    ".gitignore",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Cargo.lock",
    "Cargo.toml",
    "Containerfile",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "SECURITY.md",
    "apps",
    "bench",
    "bindings",
    "clippy.toml",
    "crates",
    "docs",
    "fuzz",
    "packaging",
    "rustfmt.toml",
    "xtask",
];

/// What a file below the top level may be. `txt` holds the inputs that proptest found, `c`, `h` and `o` are eBPF
/// functions, what they include and what clang made of them, `c`, `cpp`, `h` and `map` programs in C and C++ and their library,
/// `service` and `rules` are for systemd and udev, `py`, `pyi` and `typed` for Python.
const EXTENSIONS: &[&str] = &[
    "rs", "sh", "toml", "md", "svg", "png", "txt", "c", "cpp", "h", "map", "o", "service", "rules", "py",
    "pyi", "typed",
];
const EXACT: &[&str] = &[".ci/run"];

const LEN_MIB_MAX: u64 = 1;

/// Words for work that is not finished, in comments too. Spelled in halves so that they do not find themselves.
const UNFINISHED: &[&str] = &[concat!("FIX", "ME"), concat!("XX", "X")];

/// Folders that exist on one person's machine.
const FOREIGN: &[&str] =
    &[concat!("/ho", "me/"), concat!("/ro", "ot/"), concat!("/Use", "rs/"), concat!("/wo", "rk/")];

/// Checks where a file lies and every line of it.
pub(super) fn check(file: &File) -> Vec<Finding> {
    let mut findings: Vec<Finding> = place(file).into_iter().collect();
    let mut found = |line, message: String| findings.push(Finding::error(&file.path, line, message));
    if file.kind == Kind::Special {
        found(1, "not a regular file: commit the file itself".to_owned());
    }
    if file.len_bytes > LEN_MIB_MAX << 20 {
        found(1, format!("larger than {LEN_MIB_MAX} MiB: make it from code instead"));
    }
    let Some(text) = &file.text else { return findings };
    if !text.is_empty() && !text.ends_with('\n') {
        found(text.lines().count(), "no newline at the end of the file: add one".to_owned());
    }
    if text.ends_with("\n\n") {
        found(text.lines().count(), "empty lines at the end of the file: delete them".to_owned());
    }
    for (index, line) in text.split('\n').enumerate() {
        if line.ends_with([' ', '\t', '\r']) {
            found(index + 1, "white space at the end of the line: delete it".to_owned());
        }
        for word in UNFINISHED.iter().filter(|word| !find_word(line, word).is_empty()) {
            found(index + 1, format!("`{word}`: finish it, or file an issue and delete the mark"));
        }
        for folder in FOREIGN.iter().filter(|folder| names_folder(line, folder)) {
            found(index + 1, format!("`{folder}` exists on one machine only: use a relative path"));
        }
    }
    findings
}

/// Whether the file may lie where it does.
fn place(file: &File) -> Option<Finding> {
    let (top, below) = match file.path.split_once('/') {
        Some((top, below)) => (top, Some(below)),
        None => (file.path.as_str(), None),
    };
    let message = if !TOP_LEVEL.contains(&top) {
        format!("`{top}` is not a known entry at the top: move it into a room, or add it to TOP_LEVEL")
    } else if below.is_some_and(|path| path.ends_with("Cargo.lock")) {
        "a second Cargo.lock: make its package a member of the workspace".to_owned()
    } else if below.is_some() && !EXACT.contains(&file.path.as_str()) && !has_known_extension(&file.path) {
        format!("not a known kind of file ({}): delete it, or add its extension", EXTENSIONS.join(", "))
    } else {
        return None;
    };
    Some(Finding::error(&file.path, 1, format!("{message} in xtask/src/tidy/files.rs")))
}

fn has_known_extension(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.rsplit_once('.').is_some_and(|(stem, extension)| !stem.is_empty() && EXTENSIONS.contains(&extension))
}

/// Whether `line` names an absolute path below `folder`, and not a part of an address or a longer path.
fn names_folder(line: &str, folder: &str) -> bool {
    let starts_path = |(at, _): (usize, &str)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '/' | '~' | '}' | '*'))
    };
    line.match_indices(folder).any(starts_path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(path: &str, text: &str) -> Vec<String> {
        check(&File::of(path, text)).into_iter().map(|finding| finding.to_string()).collect()
    }

    #[track_caller]
    fn assert_one(path: &str, text: &str, line: usize, part: &str) {
        let messages = messages(path, text);
        assert_eq!(messages.len(), 1, "{messages:?}");
        assert!(messages[0].starts_with(&format!("error: {path}:{line}: ")), "{messages:?}");
        assert!(messages[0].contains(part), "{messages:?}");
    }

    #[test]
    fn known_places_and_kinds_pass() {
        for path in ["README.md", "crates/link/src/a.rs", ".ci/run", ".cargo/config.toml", "docs/flow.svg"] {
            assert_eq!(messages(path, "text\n"), [""; 0], "{path}");
        }
        assert_eq!(messages("crates/link/src/empty.rs", ""), [""; 0]);
    }

    #[test]
    fn strays_are_found() {
        assert_one("notes.md", "x\n", 1, "not a known entry");
        assert_one("crates/link/core.1234", "x\n", 1, "not a known kind");
        assert_one("crates/link/.rs", "x\n", 1, "not a known kind");
        assert_one("fuzz/Cargo.lock", "x\n", 1, "second Cargo.lock");
        assert_one("docs/big.md", &"x\n".repeat(600_000), 1, "larger than 1 MiB");
        let link = File { kind: Kind::Special, text: None, ..File::of("docs/link.md", "") };
        assert_eq!(check(&link).len(), 1);
    }

    #[test]
    fn litter_is_found_at_its_line() {
        assert_one("docs/a.md", "one\ntwo \nthree\n", 2, "white space");
        assert_one("docs/a.md", "one\r\ntwo\n", 1, "white space");
        assert_one("docs/a.md", "one\ntwo", 2, "no newline");
        assert_one("docs/a.md", "one\n\n", 2, "empty lines");
        assert_one("docs/a.md", &format!("ok\n{}: later\n", UNFINISHED[0]), 2, "finish it");
        assert_eq!(messages("docs/a.md", "mktemp XXXXXX\n"), [""; 0]);
    }

    #[test]
    fn paths_of_one_machine_are_found_and_addresses_are_not() {
        for folder in FOREIGN {
            assert_one("docs/a.md", &format!("see `{folder}me/file`\n"), 1, "one machine only");
            assert_eq!(messages("docs/a.md", &format!("https://example.org{folder}x\n")), [""; 0]);
        }
    }
}
