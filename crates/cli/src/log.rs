//! What the program writes about what happens, to the standard error.

use std::io::IsTerminal;

use outboard_settings::{LogFormat, LogSettings};
use tracing_subscriber::filter::LevelFilter;

/// From now on lines are written as the settings say. The first call counts.
pub(crate) fn start(settings: &LogSettings) {
    let level = settings.level.as_str().parse().unwrap_or(LevelFilter::INFO);
    // Failures to write would be told on the standard error, where telling fails too and then panics.
    let lines = tracing_subscriber::fmt().log_internal_errors(false).with_writer(std::io::stderr);
    let lines = lines.with_max_level(level).with_target(false);
    // A log that is set up already stays as it is.
    let _ = match settings.format {
        LogFormat::Json => lines.json().flatten_event(true).try_init().is_ok(),
        LogFormat::Human => lines.with_ansi(is_coloured()).try_init().is_ok(),
    };
}

fn is_coloured() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
