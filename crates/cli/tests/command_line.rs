//! What a person or a script sees of the program.

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
    assert!(!text(&outboard(&["--help"]).stdout).contains("bench-peer"));
    assert!(text(&outboard(&["--version"]).stdout).starts_with("outboard "));
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

#[test]
fn a_failure_is_told_with_its_cause() {
    let output = Command::new(env!("CARGO_BIN_EXE_outboard"))
        .args(["bench-peer", "link.shm.frames_64B"])
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let message = text(&output.stderr);
    assert!(
        message.starts_with("outboard: ") && message.contains("started by `outboard bench`"),
        "{message}"
    );
}

/// A new terminal, and the side of it that programs have.
fn terminal() -> (OwnedFd, OwnedFd) {
    let (mut ours, mut theirs) = (-1, -1);
    // SAFETY: both numbers are ours to be written, and no name and no settings are asked for or given.
    let opened = unsafe { libc::openpty(&mut ours, &mut theirs, null_mut(), null_mut(), null_mut()) };
    assert_eq!(opened, 0, "{}", std::io::Error::last_os_error());
    // SAFETY: the kernel has just made both, and nobody else knows them.
    unsafe { (OwnedFd::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs)) }
}

/// What a command that ends with this code writes to a terminal.
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

/// What a command prints that reads this.
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

/// The names that scripts rely on, with which way is better.
const FIGURES: &[(&str, &str)] = &[
    ("link.shm.frames_64B.rate", "higher"),
    ("link.shm.roundtrip_64KiB.p50", "lower"),
    ("link.shm.read_64KiB.p50", "lower"),
    ("link.tcp.stream_64KiB.bandwidth", "higher"),
    ("link.tcp.roundtrip_64KiB.p50", "lower"),
];

#[test]
fn bench_link_prints_one_object_with_the_agreed_figures() {
    let output = outboard(&["bench", "link", "--tiny", "--json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(output.stderr.is_empty(), "no progress bar without a terminal");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["bench"], "link");
    assert!(json["environment"]["cores"].as_u64().unwrap() > 0);
    let figures = json["figures"].as_array().unwrap();
    for (name, better) in FIGURES {
        let figure = figures.iter().find(|figure| figure["name"] == *name).unwrap();
        for field in ["value", "ratio"] {
            assert!(figure[field].as_f64().unwrap() > 0.0, "{figure}");
        }
        assert!(figure["versus"].as_str().unwrap().contains(better), "{figure}");
        assert!(figure["unit"].is_string());
        let known = ["best", "median", "name", "ratio", "unit", "value", "versus"];
        assert!(figure.as_object().unwrap().keys().all(|key| known.contains(&key.as_str())), "{figure}");
    }
}

#[test]
fn bench_paging_gives_every_figure_beside_its_yardstick() {
    let output = outboard(&["bench", "paging", "--tiny", "--json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let figures = json["figures"].as_array().unwrap();
    for name in [
        "paging.fault_64KiB.shm.readonly.p50",
        "paging.fault_64KiB.shm.writable_read.p50",
        "paging.fault_64KiB.shm.write.p50",
        "paging.fault_64KiB.tcp.readonly.p50",
        "paging.fault_4KiB.shm.readonly.p50",
        "paging.scan.tcp.bandwidth",
        "paging.faults.4threads.rate",
    ] {
        let figure = figures.iter().find(|figure| figure["name"] == name).expect(name);
        for field in ["value", "ratio"] {
            assert!(figure[field].as_f64().is_some_and(|number| number > 0.0), "{figure}");
        }
    }
}

#[test]
fn bench_link_prints_a_table_for_people() {
    let output = outboard(&["bench", "link", "--tiny"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let table = text(&output.stdout);
    for (name, _) in FIGURES {
        assert!(table.contains(name), "{table}");
    }
}

#[test]
fn bench_cluster_compares_a_link_with_itself_without_encryption() {
    let output = outboard(&["bench", "cluster", "--tiny", "--json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let figure = &json["figures"][0];
    assert_eq!(figure["name"], "cluster.tls.overhead");
    assert!(figure["ratio"].as_f64().unwrap() > 0.0, "{figure}");
    // Either it is measured, or it is said why not.
    let (figures, notes) = (json["figures"].to_string(), json["environment"]["notes"].to_string());
    for name in ["link.ofi_tcp.stream_64KiB", "link.ofi_shm.read_64KiB"] {
        assert!(figures.contains(name) != notes.contains(name), "{name}: {json}");
    }
}

/// A flag that an error of the library names is one that there is.
#[test]
fn errors_name_flags_that_there_are() {
    let help = text(&outboard(&["run", "--help"]).stdout);
    for error in [outboard::CallerError::NoServer.to_string(), outboard::WriterError::NoServer.to_string()] {
        let flags: Vec<&str> = error.split([' ', '`']).filter(|word| word.starts_with("--")).collect();
        assert!(!flags.is_empty(), "{error}");
        for flag in flags {
            assert!(help.contains(&format!("{flag} <")), "there is no {flag}: {error}");
        }
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
