//! Examples in the documentation of the library are programs that run.

use super::Finding;
use super::tree::File;

/// What has examples for users.
const LIBRARY: &str = "crates/outboard/src/";

/// How an example begins that is not run.
const NOT_RUN: &[&str] = &["```no_run", "```ignore", "```rust,no_run", "```rust,ignore", "```compile_fail"];

/// How a line begins that says why an example is not run.
const REASON: &str = "// tidy: allow(no_run) ";

/// Looks for examples that are compiled at most.
pub(super) fn check(file: &File) -> Vec<Finding> {
    let Some(text) = file.text.as_deref().filter(|_| file.path.starts_with(LIBRARY) && file.is_rust()) else {
        return Vec::new();
    };
    let mut findings = Vec::new();
    let mut above = "";
    for (number, line) in text.lines().enumerate() {
        let line = line.trim_start();
        let is_documentation =
            line.starts_with("//!") || line.starts_with("///") || line.starts_with("#[doc");
        let mark = NOT_RUN.iter().find(|mark| is_documentation && line.contains(*mark));
        if let Some(mark) = mark
            && above.strip_prefix(REASON).is_none_or(|reason| reason.trim().is_empty())
        {
            let message = format!(
                "`{mark}`: an example that is not run is wrong one day: let it run, at `outboard_nearby::start()` if it needs a \
                 memory server, or say why not in a line before it, `{REASON}reason`"
            );
            findings.push(Finding::error(&file.path, number + 1, message));
        }
        above = line;
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(&File::of(path, text)).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn an_example_runs_or_a_reason_says_why_not() {
        let path = "crates/outboard/src/far/memory.rs";
        assert_eq!(lines(path, "//! ```no_run\n//! x()\n//! ```\n"), [1]);
        assert_eq!(lines(path, "/// A.\n/// ```rust,ignore\n/// ```\n"), [2]);
        assert_eq!(lines(path, "#[doc = concat!(\"```no_run\\n\", x)]\n"), [1]);
        assert_eq!(lines(path, "/// ```\n/// x()\n/// ```\nlet text = \"```no_run\";\n"), [0; 0]);
        assert_eq!(lines(path, "// tidy: allow(no_run) it never ends\n/// ```no_run\n"), [0; 0]);
        assert_eq!(lines(path, "// tidy: allow(no_run) \n/// ```no_run\n"), [2]);
        assert_eq!(lines("crates/link/src/lib.rs", "//! ```no_run\n"), [0; 0]);
    }
}
