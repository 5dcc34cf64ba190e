//! How the program says that something went wrong.

use std::process::ExitCode;

/// The command line makes no sense.
const USAGE: u8 = 2;

/// Prints an error with its causes.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    eprintln!("outboard: {error:#}");
    ExitCode::FAILURE
}

/// Prints what is wrong with the command line, or the help or version that was asked for.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        // A reader that has gone away wants no help.
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    let text = error.render().to_string();
    eprint!("outboard: {}", text.strip_prefix("error: ").unwrap_or(&text));
    ExitCode::from(USAGE)
}
