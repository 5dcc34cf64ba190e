//! The program on a terminal.

use std::process::{Command, Stdio};

use outboard_e2e::{Process, program, without_settings};

/// The program on a terminal of 80 columns and 24 rows, which draws one frame over the other.
pub(crate) struct Terminal(Process);

impl Terminal {
    /// Starts it, with a variable that is written `NAME=value`. Without `script`, which makes terminals, says so and returns
    /// nothing.
    pub(crate) fn start(variable: &str, arguments: &[&str]) -> Option<Self> {
        if Command::new("script").arg("--version").output().is_err() {
            println!("skipped: there is no `script` here (package bsdutils), so there is no terminal");
            return None;
        }
        let run = format!(
            "stty cols 80 rows 24; TERM=xterm OUTBOARD_CONFIG=none {variable} exec {} {}",
            program(),
            arguments.join(" ")
        );
        let mut script = Command::new("script");
        without_settings(&mut script);
        script.args(["-q", "-e", "-c", &run, "/dev/null"]).stdin(Stdio::null()).env_remove("NO_COLOR");
        Some(Self(Process::start(script)))
    }

    /// What is drawn over what was there before, up to the next time.
    #[track_caller]
    pub(crate) fn frame(&mut self) -> Vec<String> {
        const TO_TOP: &str = "\x1b[H";
        let mut frame = vec![self.0.await_line(TO_TOP)];
        loop {
            match self.0.await_line("") {
                line if line.contains(TO_TOP) => return frame,
                line => frame.push(line),
            }
        }
    }
}
