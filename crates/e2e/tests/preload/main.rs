//! Programs that were not changed, with most of their memory far: they do what they do without.
// Tests print why they are skipped.
#![allow(clippy::print_stdout)]

mod database;
mod programs;
mod refusals;
mod tortured;

use std::process::Command;

use outboard_e2e::{Ended, beside_tests, outboard};

/// Why nothing can be tried here, if so.
fn skipped() -> bool {
    let library = beside_tests("liboutboard_preload.so");
    let ended = far(&["--dry-run", "--", "/bin/true"]);
    let why = if !library.is_file() {
        format!("{} has not been built: cargo build -p outboard-preload", library.display())
    } else if ended.code != Some(0) {
        ended.err
    } else {
        return false;
    };
    println!("skipped: {}", why.trim());
    true
}

/// Runs `outboard far` with these arguments.
fn far(arguments: &[&str]) -> Ended {
    Ended::of(outboard(&["far"]).args(arguments))
}

/// Whether a program is installed.
fn has(program: &str) -> bool {
    let there = std::env::var_os("PATH")
        .is_some_and(|folders| std::env::split_paths(&folders).any(|folder| folder.join(program).is_file()));
    if !there {
        println!("skipped: {program} is not installed");
    }
    there
}

/// Runs a program as it is, and with far memory, and asserts that it does the same.
fn agrees(buffer: &str, program: &[&str]) {
    let plain = Ended::of(Command::new(program[0]).args(&program[1..]));
    let with_far = far(&[&["--buffer", buffer, "--quiet", "--"], program].concat());
    assert_eq!((with_far.code, &with_far.out), (plain.code, &plain.out), "{program:?}: {}", with_far.err);
    assert_eq!(plain.code, Some(0), "{program:?}: {}", plain.err);
}
