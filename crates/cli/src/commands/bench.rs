//! `outboard bench`: how fast is it here, and beside what? A program beside this one answers.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use crate::failure::Silent;
use crate::terminal;

/// The program that measures.
const PROGRAM: &str = "outboard-bench";

/// Has the other program measure, and prints its report.
pub(crate) fn run() -> Result<()> {
    let this =
        std::env::current_exe().context("cannot find this program, beside which the benchmarks lie")?;
    let program = this.with_file_name(PROGRAM);
    if !program.is_file() {
        anyhow::bail!(
            "the benchmarks are a program of their own, {PROGRAM}, which is not in {}; `cargo build --release` makes both, \
             `cargo install --path bench` adds it",
            program.parent().map_or(Path::new("/"), |folder| folder).display()
        );
    }
    // The arguments that this program has understood: the other reads them in the same way.
    let arguments = std::env::args_os().skip_while(|word| word != "bench").skip(1);
    let mut command = Command::new(&program);
    command.args(arguments).stdout(Stdio::piped());
    let measured = command.spawn().and_then(std::process::Child::wait_with_output);
    let measured = measured.with_context(|| format!("cannot start {}", program.display()))?;
    if !measured.status.success() {
        let code = measured.status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
        return Err(Silent { code }.into());
    }
    terminal::print(String::from_utf8_lossy(&measured.stdout).trim_end())
}
