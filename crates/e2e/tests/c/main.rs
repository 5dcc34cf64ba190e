//! The library for C and C++: its examples compiled by every compiler that is there and run at real daemons, its functions given what
//! they must refuse, and what it exports.
// Also outside test functions a test fails by panicking, and says why it is skipped.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod built;
mod page;

use std::collections::BTreeSet;
use std::process::Command;

use built::{Compiler, Library};
use outboard_e2e::{Daemon, Ended, Place, Process, socket};

/// The examples that one process runs, and what each prints.
const ALONE: [(&str, &str); 5] = [
    ("far_array.c", "the sum is 8585740288, after "),
    ("far_array.cpp", "the sum is 8585740288"),
    ("memory.c", "“far away”, 100 events, the highest is 100"),
    ("calls.c", "100 calls at once, counted to 5057"),
    ("writes.c", "the last write was told: yes, and is 17"),
];

/// Those that ranks run, and what some rank of two prints.
const RANKS: [(&str, &str); 2] =
    [("messages.c", "has counted 50000 updates"), ("services.cpp", "2 ranks have found 234")];

/// A memory server and an agent, which programs find by their environment.
struct Daemons {
    place: Place,
    memory: Daemon,
    agent: Daemon,
}

impl Daemons {
    fn start() -> Self {
        let place = Place::new();
        let (at, agent_at) = (socket(), socket());
        let memory = Daemon::memory(&place, &at, &[]);
        let agent = Daemon::agent(&place, &agent_at, &at, &[]);
        Self { place, memory, agent }
    }

    /// The same command, at these daemons.
    fn at<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        outboard_e2e::without_settings(command);
        command
            .env("OUTBOARD_CONFIG", "none")
            .env("OUTBOARD_JOB_MEMORY", self.memory.local().to_string())
            .env("OUTBOARD_JOB_AGENT", self.agent.local().to_string())
    }

    /// Runs a program to its end.
    #[track_caller]
    fn run(&self, program: &str, arguments: &[&str]) -> Ended {
        Ended::of(self.at(Command::new("timeout").arg("120").arg(program).args(arguments)))
    }

    fn run_ranks(&self, program: &str) -> Ended {
        Ended::of(self.at(&mut self.place.outboard(&["run", "-n", "2", "--", program])))
    }
}

#[test]
fn examples_in_c_and_cpp_are_compiled_without_a_warning_and_do_what_they_say() {
    let (library, daemons) = (Library::get(), Daemons::start());
    for compiler in Compiler::all() {
        for (source, wanted) in ALONE.iter().filter(|(source, _)| compiler.reads(source)) {
            let program = library.example(&compiler, source);
            let said = daemons.run(&program, &[]);
            assert!(said.err.is_empty(), "{source} by {}: {said:?}", compiler.name);
            assert!(said.succeeded().starts_with(wanted), "{source} by {}", compiler.name);
        }
        for (source, wanted) in RANKS.iter().filter(|(source, _)| compiler.reads(source)) {
            let program = library.example(&compiler, source);
            let said = daemons.run_ranks(&program).succeeded();
            assert!(said.contains(wanted), "{source} by {}: {said}", compiler.name);
        }
    }
}

#[test]
fn every_function_refuses_what_is_wrong_by_a_status_and_a_text() {
    let (library, daemons) = (Library::get(), Daemons::start());
    let compiler = Compiler::all().remove(0);
    let program = library.test_program(&compiler, "wrong.c");
    let said = daemons.run(&program, &[]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let text = built::text_of("tests/c/wrong.c");
    for function in library.functions() {
        assert!(text.contains(&format!("{function}(")), "wrong.c does not try {function}");
    }
}

#[test]
fn a_memory_server_that_is_killed_is_a_status_of_every_call() {
    let (library, daemons) = (Library::get(), Daemons::start());
    let program = library.test_program(&Compiler::all().remove(0), "lost.c");
    let mut command = Command::new(program);
    daemons.at(&mut command).env("OUTBOARD_JOB_AGENT", "none");
    let mut program = Process::start_told(command);
    program.await_line("ready");
    daemons.memory.process.kill();
    program.tell("");
    for call in ["update", "write", "array", "region"] {
        let line = program.await_line([call, ": "]);
        assert!(line.contains("a daemon or rank is gone: "), "{line}");
    }
    program.await_line("ended");
    let (status, said) = program.exit();
    assert_eq!(status.code(), Some(0), "{said:?}");
}

#[test]
fn a_program_is_linked_with_the_archive_too() {
    let (library, daemons) = (Library::get(), Daemons::start());
    let program = library.statically(&Compiler::all().remove(0), "memory.c");
    let needed = Ended::of(Command::new("readelf").args(["-d", &program])).succeeded();
    assert!(needed.contains("libc.so") && !needed.contains("liboutboard"), "{needed}");
    assert!(daemons.run(&program, &[]).succeeded().starts_with("“far away”"));
}

#[test]
fn the_library_exports_what_the_header_declares_with_a_version_and_nothing_else() {
    let library = Library::get();
    let symbols =
        Ended::of(Command::new("nm").args(["-D", "--defined-only"]).arg(library.shared())).succeeded();
    let names = symbols.lines().filter_map(|line| line.split_whitespace().nth(2));
    let exported: BTreeSet<String> =
        names.filter(|name| *name != "OUTBOARD_0.1").map(str::to_owned).collect();
    let wanted = library.functions().into_iter().map(|name| format!("{name}@@OUTBOARD_0.1")).collect();
    assert_eq!(exported, wanted);
    let about = Ended::of(Command::new("readelf").arg("-d").arg(library.shared())).succeeded();
    assert!(about.contains("soname: [liboutboard.so.0]"), "{about}");
}

#[test]
fn valgrind_finds_nothing() {
    let (library, daemons) = (Library::get(), Daemons::start());
    if Command::new("valgrind").arg("--version").output().is_err() {
        return println!("skipped: valgrind is missing; apt-get install valgrind");
    }
    let compiler = Compiler::all().remove(0);
    let programs = ["memory.c", "calls.c", "writes.c"].map(|source| library.example(&compiler, source));
    // Valgrind knows no userfaultfd, so that this one goes without far memory.
    let wrong = library.test_program(&compiler, "wrong.c");
    for program in programs.iter().chain([&wrong]) {
        let mut valgrind = Command::new("timeout");
        valgrind.args(["240", "valgrind", "--quiet", "--error-exitcode=99", "--leak-check=full"]);
        valgrind.args(["--errors-for-leak-kinds=definite", program]).env("WITHOUT_FAR", "");
        let said = Ended::of(daemons.at(&mut valgrind));
        assert_eq!(said.code, Some(0), "{program}: {said:?}");
    }
}
