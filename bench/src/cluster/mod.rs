//! What does it cost that the two ends are on different machines, and that there are many of them?

mod scaling;

use crate::harness::BenchReport;
use crate::link::{self, Question};
use crate::{BenchError, BenchOptions};

const QUESTIONS: &[Question] = &[link::TLS_STREAM, link::OFI_STREAM, link::OFI_READ];

/// Asks all questions.
pub(crate) fn run(options: &BenchOptions) -> Result<BenchReport, BenchError> {
    let mut report = link::ask("cluster", QUESTIONS, options)?;
    report.figures.extend(scaling::figures(options)?);
    report.environment.notes.push(scaling::remark());
    Ok(report)
}

/// The peer's part in a question; `None` if there is no such question here.
pub(crate) fn serve(question: &str) -> Option<Result<(), BenchError>> {
    link::play(QUESTIONS, question)
}
