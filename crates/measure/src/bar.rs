//! Shows people that something happens.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar of so many steps on standard error, if that is a terminal.
pub fn bar(steps: u64) -> ProgressBar {
    // Drawn rarely: the bar runs on one of the cores that are measured.
    let bar = ProgressBar::with_draw_target(Some(steps), ProgressDrawTarget::stderr_with_hz(4));
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {percent:>3} %  {msg}") {
        bar.set_style(style);
    }
    bar
}
