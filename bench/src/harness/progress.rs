//! Shows people that something happens.

use std::time::Duration;

use indicatif::ProgressBar;
use outboard_measure::{Effort, bar};

/// The bar of a benchmark.
pub(crate) struct Progress {
    bar: ProgressBar,
    budget: Duration,
    done: Duration,
}

impl Progress {
    /// A bar for so many questions.
    pub(crate) fn new(effort: Effort, questions: usize) -> Self {
        let budget = effort.budget();
        let total = budget.as_millis() as u64 * questions as u64;
        Self { bar: bar(total), budget, done: Duration::ZERO }
    }

    /// A bar that is never drawn.
    #[cfg(test)]
    pub(crate) fn silent() -> Self {
        Self { bar: ProgressBar::hidden(), budget: Duration::ZERO, done: Duration::ZERO }
    }

    /// The next question begins.
    pub(crate) fn begin(&self, question: &str) {
        self.bar.set_message(question.to_owned());
    }

    /// The question has run for so long.
    pub(crate) fn show(&self, elapsed: Duration) {
        self.bar.set_position((self.done + elapsed.min(self.budget)).as_millis() as u64);
    }

    /// The question is answered.
    pub(crate) fn end(&mut self) {
        self.done += self.budget;
        self.show(Duration::ZERO);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
