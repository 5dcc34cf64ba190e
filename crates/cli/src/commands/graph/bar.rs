//! Shows how far a graph has come.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use outboard_graph_format::FormatProgress;

/// A bar on the standard error, if that is a terminal.
pub(super) struct Bar(ProgressBar);

impl Bar {
    pub(super) fn new() -> Self {
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr_with_hz(10));
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {percent:>3} %  {msg}") {
            bar.set_style(style);
        }
        Self(bar)
    }

    /// Something of unknown length begins.
    pub(super) fn say(&self, what: &'static str) {
        self.begin(what, 0);
    }
}

impl FormatProgress for Bar {
    fn begin(&self, what: &'static str, total: u64) {
        self.0.set_message(what);
        self.0.set_position(0);
        match total {
            // The length of a pipe is unknown.
            0 => self.0.unset_length(),
            total => self.0.set_length(total),
        }
    }

    fn advance(&self, amount: u64) {
        self.0.inc(amount);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
