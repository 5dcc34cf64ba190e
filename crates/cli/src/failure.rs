//! How the program says that something went wrong.

use std::fmt;
use std::io::Write;
use std::process::ExitCode;

use clap::error::ErrorKind;
use outboard_settings::{Origin, SettingsError};

use crate::terminal::{self, ReaderGone};

/// The command line makes no sense.
const USAGE: u8 = 2;

/// A program that this one has started failed and has said why; it ended with this code.
#[derive(Debug)]
pub(crate) struct Silent {
    pub(crate) code: u8,
}

impl fmt::Display for Silent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "it ended with code {}", self.code)
    }
}

impl std::error::Error for Silent {}

/// Prints an error with its causes.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    if let Some(Silent { code }) = error.downcast_ref() {
        return ExitCode::from(*code);
    }
    if error.is::<ReaderGone>() {
        return ExitCode::SUCCESS;
    }
    if let Some(error) = error.downcast_ref() {
        return usage(error);
    }
    say(&format!("{} {}\n", name(), chain(error)));
    match error.downcast_ref() {
        Some(SettingsError::BadValue { origin: Origin::Flag(_), .. }) => ExitCode::from(USAGE),
        _ => ExitCode::FAILURE,
    }
}

/// A mistake that a command finds when it looks at several of its arguments.
pub(crate) fn wrong_usage(message: &str) -> anyhow::Error {
    clap::Error::raw(ErrorKind::ArgumentConflict, format!("{message}\n")).into()
}

/// The word before an error; in red where that can be seen.
fn name() -> &'static str {
    if terminal::is_coloured(&std::io::stderr()) { "\x1b[1;31moutboard:\x1b[0m" } else { "outboard:" }
}

/// A caller that does not read the standard error still gets the exit code.
fn say(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// An error and its causes.
pub(crate) fn chain(error: &anyhow::Error) -> String {
    outboard_wire::with_causes(error.as_ref())
}

/// Prints what is wrong with the command line, or the help or version that was asked for.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        // A reader that has gone away wants no help.
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    let text = error.render();
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        // The help is no message, so it has no sender.
        let is_coloured = terminal::is_coloured(&std::io::stderr());
        say(&if is_coloured { text.ansi().to_string() } else { text.to_string() });
        return ExitCode::from(USAGE);
    }
    if terminal::is_coloured(&std::io::stderr()) {
        let text = text.ansi().to_string();
        let rest = text.split_once("error:").filter(|(before, _)| before.len() < 16).map(|(_, rest)| rest);
        let rest = rest.map(|rest| rest.trim_start_matches(|letter| "\x1b[0m ".contains(letter)));
        say(&format!("{} {}", name(), rest.unwrap_or(&text)));
    } else {
        let text = text.to_string();
        say(&format!("{} {}", name(), text.strip_prefix("error: ").unwrap_or(&text)));
    }
    ExitCode::from(USAGE)
}
