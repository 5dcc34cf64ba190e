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
    /// Whether the output of failed tests is being shown.
    is_failures: bool,
    failures: Vec<Failure>,
}

/// A test that failed, with the last lines that it printed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) test: String,
    pub(crate) output: Vec<String>,
}

impl Failure {
    /// The test and its output, as lines that follow others.
    pub(crate) fn shown(&self) -> String {
        format!("\n--- {}\n{}", self.test, self.output.join("\n"))
    }
}

/// How many lines of a failed test's output are kept.
const KEPT_LINES: usize = 40;

impl Counter {
    /// Reads one line.
    pub(crate) fn read(&mut self, line: &str) {
        if let Some(name) = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----")) {
            (self.test, self.is_output) = (Some(name.to_owned()), true);
            if self.is_failures {
                self.failures.push(Failure { test: name.to_owned(), output: Vec::new() });
            }
        } else if matches!(line, "successes:" | "failures:") {
            // After the output of failed tests comes a list of their names, under the same title.
            self.is_failures = line == "failures:" && !self.is_output;
            (self.test, self.is_output) = (None, false);
        } else if self.is_output {
            self.read_output(line);
        } else if let Some(tally) = Tally::from_line(line) {
            // Those that failed as well have been counted as such.
            let skipped = std::mem::take(&mut self.of_binary);
            let count = (skipped.len() as u64).min(tally.passed);
            self.total += Tally { passed: tally.passed - count, skipped: tally.skipped + count, ..tally };
            self.reasons.extend(skipped.into_iter().map(|(test, reason)| format!("{test}: {reason}")));
        }
    }

    /// Reads a line that a test has printed.
    fn read_output(&mut self, line: &str) {
        if self.is_failures {
            if let Some(failure) = self.failures.last_mut() {
                failure.output.push(line.to_owned());
                let extra = failure.output.len().saturating_sub(KEPT_LINES);
                failure.output.drain(..extra);
            }
        } else if let Some(reason) = line.strip_prefix(SKIPPED)
            && let Some(test) = self.test.take()
        {
            self.of_binary.push((test, reason.to_owned()));
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

    /// The tests that failed.
    pub(crate) fn failures(&self) -> &[Failure] {
        &self.failures
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
    fn failed_tests_are_kept_with_the_end_of_their_output() {
        let mut counter = Counter::default();
        let mut output =
            "test one ... ok\ntest two ... FAILED\n\nsuccesses:\n\n---- one stdout ----\nfine\n\n\
                          successes:\n    one\n\nfailures:\n\n---- two stdout ----\n"
                .to_owned();
        (0..100).for_each(|line| output += &format!("line {line}\n"));
        output += "panicked\n\nfailures:\n    two\n\ntest result: FAILED. 1 passed; 1 failed; 0 ignored\n";
        output.lines().for_each(|line| counter.read(line));
        let [failure] = counter.failures() else { panic!("{:?}", counter.failures()) };
        assert_eq!(failure.test, "two");
        assert_eq!(failure.output.len(), KEPT_LINES);
        assert_eq!(failure.output[KEPT_LINES - 2], "panicked");
        assert_eq!(counter.tally(), Tally { passed: 1, failed: 1, skipped: 0 });
    }

    #[test]
    fn tallies_add_up() {
        let mut sum = Tally { passed: 1, failed: 2, skipped: 3 };
        sum += Tally { passed: 10, failed: 20, skipped: 30 };
        assert_eq!(sum, Tally { passed: 11, failed: 22, skipped: 33 });
    }
}
