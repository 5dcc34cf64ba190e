//! Help, usage errors, completions and manual pages.

use outboard_e2e::{Folder, run_outboard};

const COMMANDS: &[&[&str]] = &[
    &["agent"],
    &["bench"],
    &["completions"],
    &["demo"],
    &["doctor"],
    &["man"],
    &["memory"],
    &["memory", "free"],
    &["memory", "list"],
    &["memory", "reserve"],
    &["run"],
    &["status"],
    &["up"],
];

#[test]
fn every_command_explains_itself_with_examples() {
    for command in COMMANDS {
        let help = run_outboard(&[command, &["--help"][..]].concat()).succeeded();
        assert!(help.contains("Examples:\n  outboard "), "{command:?}: {help}");
    }
    let overview = run_outboard(&["--help"]).succeeded();
    for command in COMMANDS {
        assert!(overview.contains(&format!("\n  {} ", command[0])), "{command:?} is not in {overview}");
    }
    assert!(!overview.contains("app-rank") && !overview.contains("bench-peer"), "{overview}");
}

#[test]
fn an_unknown_flag_is_wrong_usage_everywhere() {
    for command in COMMANDS {
        let needed: &[&str] = match *command {
            ["memory", "free"] => &["name"],
            ["memory", "reserve"] => &["a", "--size", "1"],
            _ => &[],
        };
        run_outboard(&[command, &["--no-such-flag"][..], needed].concat()).failed(2, &["--no-such-flag"]);
    }
}

#[test]
fn values_that_make_no_sense_are_wrong_usage_and_named() {
    run_outboard(&["agent", "--workers", "0"]).failed(2, &["--workers", "at least one"]);
    run_outboard(&["agent", "--wire", "fast"]).failed(2, &["--wire", "fast"]);
    run_outboard(&["memory", "--listen", "localhost"]).failed(2, &["--listen", "unix:@name"]);
    run_outboard(&["memory", "reserve", "", "--size", "1"]).failed(2, &["[NAME]", "empty"]);
    run_outboard(&["memory", "reserve", &"n".repeat(999), "--size", "1"]).failed(2, &["[NAME]", "at most"]);
    run_outboard(&["memory", "reserve", "a", "--size", "much"]).failed(2, &["--size", "4GiB"]);
    run_outboard(&["run", "--agent", "cores", "true"]).failed(2, &["--agent", "same-cores"]);
    run_outboard(&["run", "-n", "0", "true"]).failed(2, &["--ranks"]);
    run_outboard(&["status", "somewhere"]).failed(2, &["somewhere", "tcp:ip:port"]);
}

#[test]
fn shells_and_manuals_know_the_commands_for_people() {
    for shell in ["bash", "zsh", "fish"] {
        let script = run_outboard(&["completions", shell]).succeeded();
        assert!(script.contains("memory-servers") && !script.contains("app-rank"), "{shell}");
    }
    assert!(run_outboard(&["man"]).succeeded().contains(".TH outboard"));
    let folder = Folder::new();
    let pages = folder.path().join("man1");
    run_outboard(&["man", pages.to_str().unwrap()]).succeeded();
    for page in ["outboard.1", "outboard-run.1", "outboard-memory-reserve.1"] {
        assert!(pages.join(page).is_file(), "{page}");
    }
    assert!(!pages.join("outboard-app-rank.1").exists());
}

/// A terminal has some fifty lines. Whoever wants all settings asks for `--help`, where they stand in groups.
#[test]
fn short_help_fits_a_terminal_and_long_help_has_groups() {
    for command in COMMANDS {
        let short = run_outboard(&[command, &["-h"][..]].concat()).succeeded();
        assert!(short.lines().count() <= 48, "{command:?} has {} lines:\n{short}", short.lines().count());
    }
    let long = run_outboard(&["up", "--help"]).succeeded();
    for heading in [
        "Settings of the memory server [memory]:",
        "Settings of the agent [agent]:",
        "Settings of links [link]:",
    ] {
        assert!(long.contains(heading), "{heading} is not in {long}");
    }
    let short = run_outboard(&["agent", "-h"]).succeeded();
    assert!(short.contains("--memory-servers") && !short.contains("--parcels"), "{short}");
}

#[test]
fn a_file_that_is_no_socket_is_not_said_to_be_in_use() {
    let folder = Folder::new();
    let file = format!("unix:{}", folder.write("letter.txt", "dear all"));
    run_outboard(&["memory", "--listen", &file]).failed(1, &["letter.txt exists and is no socket"]);
    run_outboard(&["memory", "--listen", "unix:/nonexist/dir/sock"])
        .failed(1, &["the folder of unix:/nonexist/dir/sock does not exist"]);
}
