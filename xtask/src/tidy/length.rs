//! Files and functions stay short enough to be read at one sitting.

use super::source::Source;
use super::tree::File;
use super::{Finding, Level};

/// The length to aim for, and the length at which it is an error.
struct Limit {
    aim: usize,
    max: usize,
}

const FILE: Limit = Limit { aim: 400, max: 500 };
const TEST_FILE: Limit = Limit { aim: 500, max: 700 };
const FUNCTION: Limit = Limit { aim: 60, max: 80 };

impl Limit {
    fn level(&self, lines: usize) -> Option<Level> {
        match lines {
            _ if lines > self.max => Some(Level::Error),
            _ if lines > self.aim => Some(Level::Note),
            _ => None,
        }
    }
}

/// Measures a file and its functions.
pub(super) fn check(file: &File, source: &Source<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut found = |line, level, message| {
        let finding = Finding::error(&file.path, line, message);
        findings.push(Finding { level, ..finding });
    };
    let limit = if file.is_test() { &TEST_FILE } else { &FILE };
    let lines = source.text.lines().count();
    if let Some(level) = limit.level(lines) {
        let Limit { aim, max } = limit;
        found(1, level, format!("{lines} lines, the aim is {aim} and the most {max}: split it by subject"));
    }
    for function in source.functions() {
        let lines = function.line_last - function.line_first + 1;
        if let Some(level) = FUNCTION.level(lines) {
            let (name, Limit { aim, max }) = (&function.name, &FUNCTION);
            let message = format!(
                "`{name}` has {lines} lines, the aim is {aim} and the most {max}: name its parts as functions"
            );
            found(function.line_first, level, message);
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn levels(path: &str, text: &str) -> Vec<(usize, Level)> {
        let findings = check(&File::of(path, text), &Source::new(text));
        findings.into_iter().map(|finding| (finding.line, finding.level)).collect()
    }

    #[test]
    fn files_are_measured_and_tests_may_be_longer() {
        assert_eq!(levels("a/src/b.rs", &"x\n".repeat(400)), []);
        assert_eq!(levels("a/src/b.rs", &"x\n".repeat(401)), [(1, Level::Note)]);
        assert_eq!(levels("a/src/b.rs", &"x\n".repeat(501)), [(1, Level::Error)]);
        assert_eq!(levels("a/tests/b.rs", &"x\n".repeat(501)), [(1, Level::Note)]);
        assert_eq!(levels("a/tests/b.rs", &"x\n".repeat(701)), [(1, Level::Error)]);
    }

    #[test]
    fn functions_are_measured_from_head_to_brace() {
        let function = |lines: usize| format!("// why\nfn f() {{\n{}}}\n", "    x;\n".repeat(lines - 2));
        assert_eq!(levels("a/src/b.rs", &function(60)), []);
        assert_eq!(levels("a/src/b.rs", &function(61)), [(2, Level::Note)]);
        assert_eq!(levels("a/src/b.rs", &function(81)), [(2, Level::Error)]);
        assert_eq!(levels("a/tests/b.rs", &function(81)), [(2, Level::Error)]);
    }
}
