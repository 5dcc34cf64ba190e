//! Shows how far an application has come.

use std::sync::atomic::{AtomicU64, Ordering};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use outboard_graph::{Step, StepProgress};

/// Counts edges, and draws a bar on the standard error if that is a terminal.
pub(super) struct Watcher {
    bar: ProgressBar,
    walked: AtomicU64,
}

impl Watcher {
    pub(super) fn new() -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
        set_style(&bar, "{spinner} {msg}, {human_pos} edges walked");
        bar.set_message("starting");
        Self { bar, walked: AtomicU64::new(0) }
    }

    /// Clears the bar and says how many edges were walked.
    pub(super) fn end(self) -> u64 {
        self.bar.finish_and_clear();
        self.walked.into_inner()
    }
}

fn set_style(bar: &ProgressBar, template: &str) {
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
}

impl StepProgress for Watcher {
    fn step(&self, step: Step) {
        match (step.of, step.edges) {
            (Some(of), Some(edges)) => {
                if self.bar.length().is_none() {
                    set_style(&self.bar, "{bar:30} {percent:>3} %  {msg}");
                    self.bar.set_length(edges.saturating_mul(of.into()));
                }
                self.bar.set_message(format!("{} {} of {of}", step.what, step.number));
            }
            _ => self.bar.set_message(format!("{} {}", step.what, step.number)),
        }
    }

    fn walked(&self, edges: u64) {
        self.walked.fetch_add(edges, Ordering::Relaxed);
        self.bar.inc(edges);
    }
}
