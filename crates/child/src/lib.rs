//! Starts a program of tests again as a child that plays a part instead of running tests: a client that is killed, a rank, an
//! attacker. It waits for nothing, and starts no other program.
//!
//! A part that were a test among the tests would be run, and counted as passed, whenever the tests are. So a child plays its part
//! before the tests begin, and ends.

use std::panic::catch_unwind;
use std::process::{Command, exit};

/// The variable that a child has in its environment.
pub const VARIABLE: &str = "TEST_AS_CHILD";

/// What a process exits with whose part has panicked.
const PANICKED: i32 = 101;

/// A command that starts this program of tests again, as a child. What it plays is up to the function that
/// [`instead_of_tests!`] names, which reads more of the environment.
///
/// # Panics
///
/// If the system does not know where this program lies.
#[must_use]
pub fn again() -> Command {
    let mut command = Command::new(own());
    command.env(VARIABLE, "");
    command
}

/// Starts it by another program, which ends its command line with the program that it starts.
///
/// # Panics
///
/// If the system does not know where this program lies.
#[must_use]
pub fn again_by(mut command: Command) -> Command {
    command.arg(own()).env(VARIABLE, "");
    command
}

fn own() -> std::path::PathBuf {
    std::env::current_exe().expect("a process knows itself")
}

/// Has a child call a function instead of running tests. It stands once in a program of tests, at its top.
#[macro_export]
macro_rules! instead_of_tests {
    ($part:path) => {
        const _: () = {
            extern "C" fn before_main() {
                $crate::play_if_child($part);
            }
            // SAFETY: the section holds functions without arguments that the C library calls before `main`. The standard
            // library has been told of the arguments by then, since its own entry comes first.
            #[used]
            #[unsafe(link_section = ".init_array")]
            static BEFORE_MAIN: extern "C" fn() = before_main;
        };
    };
}

/// Plays the part, and ends the process, if this process is a child.
pub fn play_if_child(part: fn()) {
    if std::env::var_os(VARIABLE).is_none() {
        return;
    }
    // SAFETY: it only says what a signal does. Before `main` the standard library has not done so yet, and a child that writes to
    // a parent that is gone is to be told by an error.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    exit(if catch_unwind(part).is_ok() { 0 } else { PANICKED });
}
