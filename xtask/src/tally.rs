//! Counts tests from the `test result:` lines that every Rust test binary ends with.

use std::ops::AddAssign;

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
    fn tallies_add_up() {
        let mut sum = Tally { passed: 1, failed: 2, skipped: 3 };
        sum += Tally { passed: 10, failed: 20, skipped: 30 };
        assert_eq!(sum, Tally { passed: 11, failed: 22, skipped: 33 });
    }
}
