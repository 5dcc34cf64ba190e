//! A child plays its part and runs no test.

#![allow(clippy::print_stdout, reason = "a child shows what it is told to")]

use std::process::Output;

use outboard_child::{again, again_by, instead_of_tests};

/// What the child does.
const PART: &str = "PART";

instead_of_tests!(play);

fn play() {
    let mut words = std::env::args().skip(1);
    match std::env::var(PART).as_deref() {
        Ok("say") => println!("{}", words.next().unwrap_or_default()),
        Ok("fail") => panic!("as it was told"),
        part => std::process::exit(if part.is_ok() { 7 } else { 8 }),
    }
}

fn text(output: &Output) -> (Option<i32>, String) {
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn a_child_says_only_what_its_part_says() {
    let output = again().arg("hello").env(PART, "say").output().expect("it starts");
    assert_eq!(text(&output), (Some(0), "hello\n".to_owned()));
}

#[test]
fn a_part_ends_the_child_with_its_code_or_by_a_panic() {
    assert_eq!(again().env(PART, "other").status().expect("it starts").code(), Some(7));
    let output = again().env(PART, "fail").output().expect("it starts");
    assert_eq!(text(&output), (Some(101), String::new()));
    assert!(String::from_utf8_lossy(&output.stderr).contains("as it was told"));
}

#[test]
fn another_program_starts_a_child_too() {
    let mut shell = std::process::Command::new("env");
    shell.arg(format!("{PART}=say"));
    let output = again_by(shell).arg("there").output().expect("it starts");
    assert_eq!(text(&output), (Some(0), "there\n".to_owned()));
}
