//! The program as a person or a script sees it.

use std::io::{Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::process::{Command, Output, Stdio};
use std::ptr::null_mut;

fn outboard(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_outboard")).args(arguments).output().expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("the program prints text")
}

#[track_caller]
fn assert_usage_error(arguments: &[&str], part: &str) {
    let output = outboard(arguments);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.starts_with("outboard: ") && message.contains(part), "{message}");
    assert!(output.stdout.is_empty());
}

#[test]
fn help_has_examples_for_every_command() {
    for arguments in [&["--help"][..], &["bench", "--help"], &["help", "bench"], &["characterize", "--help"]]
    {
        let output = outboard(arguments);
        assert!(output.status.success());
        assert!(text(&output.stdout).contains("Examples:"), "{arguments:?}");
    }
    assert!(text(&outboard(&["--version"]).stdout).starts_with("outboard "));
}

#[test]
fn benchmarks_that_are_not_beside_the_program_are_named() {
    let folder = std::env::temp_dir().join(format!("outboard-alone-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let alone = folder.join("outboard");
    std::fs::copy(env!("CARGO_BIN_EXE_outboard"), &alone).unwrap();
    let output = Command::new(&alone).args(["bench", "link", "--tiny"]).output().unwrap();
    // A program of that name that says what it was told, and fails with a code of its own.
    let script = "#!/bin/sh\necho \"$@\"\n[ $2 = --quick ] || { echo no >&2; exit 3; }\n";
    std::fs::write(folder.join("outboard-bench"), script).unwrap();
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.join("outboard-bench"), executable).unwrap();
    let told = Command::new(&alone).args(["bench", "link", "--quick"]).output().unwrap();
    let failed = Command::new(&alone).args(["bench", "link", "--tiny"]).output().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(output.status.code(), Some(1));
    let message = text(&output.stderr);
    assert!(message.contains("outboard-bench") && message.contains("cargo build"), "{message}");
    assert_eq!((told.status.code(), text(&told.stdout).trim()), (Some(0), "link --quick"));
    assert_eq!((failed.status.code(), text(&failed.stderr).as_str()), (Some(3), "no\n"));
}

#[test]
fn wrong_usage_says_what_is_wrong() {
    assert_usage_error(&["sail"], "unrecognized subcommand 'sail'");
    assert_usage_error(&["bench", "--fast", "link"], "--fast");
    assert_usage_error(&["bench", "lnk"], "link");
    let bare = outboard(&[]);
    assert_eq!(bare.status.code(), Some(2));
    assert!(text(&bare.stderr).contains("Usage:"), "{}", text(&bare.stderr));
    assert!(text(&bare.stderr).starts_with("Moves the work"), "the help is no error: {}", text(&bare.stderr));
    for (arguments, part) in [
        (&["kv", "create", "--keys", "0"][..], "at least 1 key"),
        (&["kv", "create", "--key-max", "0"], "at least 1 byte"),
        (&["btree", "create", "--keys", "0"], "at least 1 key"),
        (&["btree", "insert", "abc", "4"], "'abc' for '<KEY>': keys and values of a tree are whole numbers"),
        (&["keys", "init", "--days", "0"], "1..=36500"),
        (&["run", "-n", "2", "--stdin", "7", "--", "true"], "--stdin 7: there are the ranks 0 to 1"),
        (&["memory", "reserve", "x", "--size", "100X"], "100K is 100 KiB"),
    ] {
        assert_usage_error(arguments, part);
    }
}

/// A new terminal, and the side of it that programs have.
fn terminal() -> (OwnedFd, OwnedFd) {
    let (mut ours, mut theirs) = (-1, -1);
    // SAFETY: both numbers are ours to be written, and no name and no settings are asked for or given.
    let opened = unsafe { libc::openpty(&mut ours, &mut theirs, null_mut(), null_mut(), null_mut()) };
    assert_eq!(opened, 0, "{}", std::io::Error::last_os_error());
    // SAFETY: the kernel has just made both, and nothing else knows them.
    unsafe { (OwnedFd::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs)) }
}

/// The output to a terminal of a command that ends with this code.
fn on_a_terminal(arguments: &[&str], no_color: &str, code: i32) -> String {
    let (terminal, side) = terminal();
    let status = Command::new(env!("CARGO_BIN_EXE_outboard"))
        .args(arguments)
        .env("NO_COLOR", no_color)
        .stdout(side.try_clone().expect("a second descriptor"))
        .stderr(side)
        .status()
        .expect("the program starts");
    assert_eq!(status.code(), Some(code));
    let mut told = Vec::new();
    // Ends with an error when the other side is closed, as terminals do.
    let _ = std::fs::File::from(terminal).read_to_end(&mut told);
    text(&told)
}

#[test]
fn errors_are_in_colour_on_a_terminal_unless_that_is_not_wanted() {
    let failure = ["bpf", "check", "/nowhere/function.o"];
    let told = on_a_terminal(&failure, "", 1);
    assert!(told.starts_with("\x1b[1;31moutboard:\x1b[0m "), "{told:?}");
    let told = on_a_terminal(&failure, "1", 1);
    assert!(told.starts_with("outboard: "), "{told:?}");
}

#[test]
fn headings_of_tables_are_bold_on_a_terminal_unless_that_is_not_wanted() {
    let table = ["app", "histogram", "--table", "1ki", "--updates", "2k", "--config", "none"];
    let told = on_a_terminal(&table, "", 0);
    assert!(told.contains("\x1b[1m│ histogram "), "{told:?}");
    let told = on_a_terminal(&table, "1", 0);
    assert!(told.contains("│ histogram ") && !told.contains('\x1b'), "{told:?}");
}

/// The output of a command that reads this.
fn fed(arguments: &[&str], input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_outboard"));
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    child.stdin.take().expect("it is piped").write_all(input.as_bytes()).expect("it reads");
    child.wait_with_output().expect("the program ends")
}

#[test]
fn a_dash_is_standard_input_where_a_file_is_read() {
    let settings = "[memory]\ncapacity = \"3GiB\"\n";
    for (arguments, input, part) in [
        (&["graph", "info", "--json", "--from", "el", "-"][..], "0 1\n1 2\n", "\"vertices\":3"),
        (
            &["graph", "run", "bfs", "--graph", "-", "--from", "snap", "--json"],
            "0 1\n1 2\n",
            "\"vertices\":3",
        ),
        (&["memory", "--config", "-", "--print-config"], settings, "3GiB"),
        (&["bpf", "run", "-"], "b700000007000000\n9500000000000000\n", "0x7"),
    ] {
        let output = fed(arguments, input);
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        assert!(text(&output.stdout).contains(part), "{arguments:?}: {}", text(&output.stdout));
    }
}

#[test]
fn short_help_is_short() {
    let help = text(&outboard(&["graph", "run", "-h"]).stdout);
    assert!(help.lines().count() < 50 && help.contains("--help"), "{help}");
    for flag in ["--graph", "--memory", "--buffer", "--output", "--repeat"] {
        assert!(help.contains(flag), "{help}");
    }
}

/// A flag that an error of the library names is one that there is.
#[test]
fn errors_name_flags_that_there_are() {
    let help = text(&outboard(&["run", "--help"]).stdout);
    let error = outboard::OpenError::NoServer.to_string();
    let flags: Vec<&str> = error.split([' ', '`']).filter(|word| word.starts_with("--")).collect();
    assert!(!flags.is_empty(), "{error}");
    for flag in flags {
        assert!(help.contains(&format!("{flag} <")), "there is no {flag}: {error}");
    }
}

#[test]
fn counts_are_read_in_small_and_capital_letters() {
    for count in ["20k", "20K", "20000"] {
        let arguments =
            ["app", "histogram", "--table", "1ki", "--updates", count, "--config", "none", "--json"];
        let output = outboard(&arguments);
        assert!(output.status.success(), "{count}: {}", text(&output.stderr));
        assert!(text(&output.stdout).contains("\"work\":40000"), "{}", text(&output.stdout));
    }
    assert_usage_error(&["app", "histogram", "--updates", "20 apples"], "k, M, G, Ki, Mi or Gi");
}
