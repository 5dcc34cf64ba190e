//! All calls for memory at random, by eight threads, compared with a model, while the memory server is stopped and goes on.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use outboard_e2e::{Daemon, Ended, Folder, PATIENCE, Place, Process, outboard, socket};

use crate::{has, skipped};

/// Compiles the program.
fn program(folder: &Folder) -> PathBuf {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/preload/torture.c");
    let program = folder.path().join("torture");
    let made = Ended::of(Command::new("gcc").args(["-O1", "-pthread", source, "-o"]).arg(&program));
    assert_eq!(made.code, Some(0), "{}", made.err);
    program
}

/// How many steps each thread does.
fn steps(usual: u64) -> String {
    let asked = std::env::var("OUTBOARD_ROUNDS").ok().and_then(|text| text.parse::<u64>().ok());
    asked.map_or(usual, |rounds| usual * rounds.max(1)).to_string()
}

#[test]
fn the_model_is_right() {
    if !has("gcc") {
        return;
    }
    let folder = Folder::new();
    let out = Ended::of(Command::new(program(&folder)).args(["3", &steps(2000), "8"])).succeeded();
    assert!(out.contains("nothing differs"), "{out}");
}

#[test]
fn far_memory_does_what_memory_does() {
    if skipped() || !has("gcc") {
        return;
    }
    let folder = Folder::new();
    let program = program(&folder).display().to_string();
    let place = Place::new();
    let server = Daemon::memory(&place, &socket(), &[]);
    let address = server.local().to_string();
    for (seed, level) in [("1", "auto"), ("2", "mmap")] {
        let steps = steps(150);
        let mut command =
            outboard(&["far", "--quiet", "--buffer", "8MiB", "--level", level, "--far-servers", &address]);
        command.args(["--", &program, seed, &steps, "8"]);
        let mut run = Process::start(command);
        // Two seconds at a time; what is not here comes from mapped memory, and what is discarded waits.
        for _ in 0..2 {
            run.idle(Duration::from_millis(500));
            server.process.stop();
            run.idle(Duration::from_millis(300));
            server.process.go_on();
        }
        let line = run.line("nothing differs", PATIENCE);
        assert!(line.is_some(), "seed {seed}, {level}: {:?}", run.said());
    }
}
