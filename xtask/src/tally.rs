//! Counts tests from the `test result:` lines that every Rust test binary ends with, and those that say that they could
//! not be done here.

use std::ops::AddAssign;

/// What a test prints that cannot be done here, before the reason. To the test binary it has passed.
const SKIPPED: &str = "skipped: ";

/// Reads the output of test binaries that show what passed tests print (`--show-output`).
#[derive(Debug, Default)]
pub(crate) struct Counter {
    total: Tally,
    /// The test whose output is being shown, until it has said that it was skipped.
    test: Option<String>,
    /// Whether this is what tests have printed, which may look like anything.
    is_output: bool,
    /// The tests of the binary that is being read which were skipped, and why.
    of_binary: Vec<(String, String)>,
    reasons: Vec<String>,
}

impl Counter {
    /// Reads one line.
    pub(crate) fn read(&mut self, line: &str) {
        if let Some(name) = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----")) {
            (self.test, self.is_output) = (Some(name.to_owned()), true);
        } else if matches!(line, "successes:" | "failures:") {
            (self.test, self.is_output) = (None, false);
        } else if let Some(reason) = line.strip_prefix(SKIPPED)
            && let Some(test) = self.test.take()
        {
            self.of_binary.push((test, reason.to_owned()));
        } else if let Some(tally) = Tally::from_line(line).filter(|_| !self.is_output) {
            // Those that failed as well have been counted as such.
            let skipped = std::mem::take(&mut self.of_binary);
            let count = (skipped.len() as u64).min(tally.passed);
            self.total += Tally { passed: tally.passed - count, skipped: tally.skipped + count, ..tally };
            self.reasons.extend(skipped.into_iter().map(|(test, reason)| format!("{test}: {reason}")));
        }
    }

    /// What was counted.
    pub(crate) fn tally(&self) -> Tally {
        self.total
    }

    /// The tests that were skipped, with their reasons.
    pub(crate) fn reasons(&self) -> &[String] {
        &self.reasons
    }
}

/// How many tests passed, failed and were skipped.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
}

impl Tally {
    /// Reads one line of a test run; `None` for any line that is not a test binary's last.
    ///
    /// Tests that a filter left out were not asked for, so they count nowhere.
    pub(crate) fn from_line(line: &str) -> Option<Self> {
        let (_verdict, counts) = line.trim().strip_prefix("test result: ")?.split_once(". ")?;
        let mut tally = Self::default();
        for count in counts.split("; ") {
            let Some((number, what)) = count.split_once(' ') else { continue };
            let Ok(number) = number.parse::<u64>() else { continue };
            match what {
                "passed" => tally.passed = number,
                "failed" => tally.failed = number,
                "ignored" => tally.skipped = number,
                _ => {}
            }
        }
        Some(tally)
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_last_line_of_a_passing_binary() {
        let line =
            "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out; finished in 0.02s";
        assert_eq!(Tally::from_line(line), Some(Tally { passed: 12, failed: 0, skipped: 1 }));
    }

    #[test]
    fn reads_the_last_line_of_a_failing_binary() {
        let line = "test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.10s";
        assert_eq!(Tally::from_line(line), Some(Tally { passed: 3, failed: 2, skipped: 0 }));
    }

    #[test]
    fn other_lines_count_nothing() {
        for line in ["", "running 3 tests", "test a::b ... ok", "test result", "12 passed; 1 failed"] {
            assert_eq!(Tally::from_line(line), None, "{line:?}");
        }
    }

    #[test]
    fn tests_that_say_so_were_skipped() {
        let mut counter = Counter::default();
        let output = "running 3 tests\ntest one ... ok\n\nsuccesses:\n\n---- one stdout ----\nskipped: no such device\n\
                      skipped: twice\n\n---- two stdout ----\ntest result: FAILED. 0 passed; 9 failed\n\nsuccesses:\n    one\n\n\
                      test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out\n\
                      skipped: this is no test\ntest result: ok. 2 passed; 0 failed; 0 ignored";
        output.lines().for_each(|line| counter.read(line));
        assert_eq!(counter.tally(), Tally { passed: 4, failed: 0, skipped: 2 });
        assert_eq!(counter.reasons(), ["one: no such device"]);
    }

    #[test]
    fn tallies_add_up() {
        let mut sum = Tally { passed: 1, failed: 2, skipped: 3 };
        sum += Tally { passed: 10, failed: 20, skipped: 30 };
        assert_eq!(sum, Tally { passed: 11, failed: 22, skipped: 33 });
    }
}
