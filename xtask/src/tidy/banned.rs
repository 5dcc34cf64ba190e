//! Calls and attributes that have no place here.

use super::Finding;
use super::source::Source;
use super::tree::File;

/// Something banned.
struct Ban {
    /// Its name in `// tidy: allow(NAME) reason`, if there can be a reason for it.
    allow: Option<&'static str>,
    /// How it looks, outside comments and literals.
    patterns: &'static [&'static str],
    scope: Scope,
    advice: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// All Rust code.
    Everywhere,
    /// Code that other programs link: not programs, benchmarks or tests.
    Libraries,
    /// The code of these rooms, without their tests.
    Rooms(&'static [&'static str]),
}

/// The rooms of the services' protocols, which a simulator runs.
const SERVICES: &[&str] = &["crates/calling/", "crates/paging/", "crates/routing/", "crates/writing/"];

const BANS: &[Ban] = &[
    Ban {
        allow: Some("sleep"),
        patterns: &["thread::sleep", "nanosleep", "clock_nanosleep"],
        scope: Scope::Everywhere,
        advice: "wait for the state itself, with a deadline; where time must pass, add `// tidy: allow(sleep) \
                 reason`",
    },
    Ban {
        allow: None,
        patterns: &["todo!", "unimplemented!"],
        scope: Scope::Everywhere,
        advice: "write it, or return an error that says what is missing",
    },
    Ban {
        allow: None,
        patterns: &["#[ignore"],
        scope: Scope::Everywhere,
        advice: "a test that never runs proves nothing: repair it, or delete it",
    },
    Ban {
        allow: None,
        patterns: &["dead_code"],
        scope: Scope::Everywhere,
        advice: "delete the code that nothing uses",
    },
    Ban {
        allow: Some("print"),
        patterns: &["println!", "eprintln!", "print!", "eprint!"],
        scope: Scope::Libraries,
        advice: "a library does not write to its user's terminal: return it, count it or use `tracing`",
    },
    Ban {
        allow: None,
        patterns: &[
            "Instant",
            "SystemTime",
            "std::thread",
            "std::net",
            "std::fs",
            "std::process",
            "std::os",
            "std::env",
            "stdin",
            "stdout",
            "stderr",
            "rustix",
            "libc",
        ],
        scope: Scope::Rooms(SERVICES),
        advice: "the room of a service has no socket, clock, thread or system call: take `now` and a link as arguments, \
                 and leave the rest to `driver` or `agent`",
    },
    Ban {
        allow: None,
        patterns: &["Condvar", "mpsc"],
        scope: Scope::Rooms(SERVICES),
        advice: "the room of a service never waits, or a simulation in one thread would stand still: return, and go on \
                 when you are called again",
    },
    Ban {
        allow: None,
        patterns: &["Instant", "SystemTime", "std::thread", "std::net", "std::process"],
        scope: Scope::Rooms(&["crates/contract/"]),
        advice: "the contract says what links do and does none of it: move this into `crates/link`",
    },
];

/// Looks for everything banned.
pub(super) fn check(file: &File, source: &Source<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let test_parts = source.test_parts();
    for ban in BANS {
        let applies = match ban.scope {
            Scope::Everywhere => true,
            Scope::Libraries => is_library(file),
            Scope::Rooms(rooms) => rooms.iter().any(|room| file.path.starts_with(room)) && !file.is_test(),
        };
        if !applies {
            continue;
        }
        for (at, pattern) in ban.patterns.iter().flat_map(|pattern| occurrences(source, pattern)) {
            let in_test = test_parts.iter().any(|part| part.contains(&at));
            let line = source.line_of(at);
            if (ban.scope != Scope::Everywhere && in_test) || is_allowed(ban, source, line) {
                continue;
            }
            findings.push(Finding::error(&file.path, line, format!("`{pattern}`: {}", ban.advice)));
        }
    }
    findings
}

/// Where a pattern stands. A function that is imported is caught at its import.
fn occurrences<'a>(source: &Source<'_>, pattern: &'a str) -> Vec<(usize, &'a str)> {
    let mut found = source.find_word(pattern);
    if let Some((module, function)) = pattern.split_once("::") {
        let imported = |at: &usize| {
            let line = line_text(&source.code, source.line_of(*at));
            line.trim_start().starts_with("use ") && line.contains(module) && !line.contains(pattern)
        };
        found.extend(source.find_word(function).into_iter().filter(imported));
    }
    found.into_iter().map(|at| (at, pattern)).collect()
}

/// Whether the line, or one of its own above it, says why this is right here.
fn is_allowed(ban: &Ban, source: &Source<'_>, line: usize) -> bool {
    let Some(name) = ban.allow else { return false };
    let mark = format!("// tidy: allow({name}) ");
    let has_reason = |text: &str| text.split_once(&mark).is_some_and(|(_, reason)| !reason.trim().is_empty());
    let above = line.checked_sub(1).map_or("", |above| line_text(source.text, above));
    has_reason(line_text(source.text, line)) || (above.trim_start().starts_with("//") && has_reason(above))
}

fn line_text(text: &str, line: usize) -> &str {
    line.checked_sub(1).and_then(|index| text.lines().nth(index)).unwrap_or("")
}

fn is_library(file: &File) -> bool {
    let program =
        ["crates/cli/", "crates/e2e/", "xtask/", "bench/"].iter().any(|room| file.path.starts_with(room));
    let names = ["/src/main.rs", "/build.rs"];
    let folders = ["/src/bin/", "/examples/", "/benches/"];
    let entry = names.iter().any(|name| file.path.ends_with(name))
        || folders.iter().any(|folder| file.path.contains(folder));
    !program && !entry && !file.is_test()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [usize; 0] = [];

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(&File::of(path, text), &Source::new(text)).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn sleeping_needs_a_reason() {
        let path = "crates/link/src/a.rs";
        assert_eq!(lines(path, "fn f() {\n    std::thread::sleep(d);\n}\n"), [2]);
        assert_eq!(lines(path, "use std::thread::{self, sleep};\n"), [1]);
        assert_eq!(lines(path, "thread::sleep(d); // tidy: allow(sleep) the wire it shapes is slow\n"), NONE);
        assert_eq!(lines(path, "// tidy: allow(sleep) the wire is slow\nthread::sleep(d);\n"), NONE);
        assert_eq!(lines(path, "thread::sleep(d); // tidy: allow(sleep)\n"), [1]);
        assert_eq!(lines(path, "x; // tidy: allow(sleep) not this line\nthread::sleep(d);\n"), [2]);
        assert_eq!(lines("crates/link/tests/a.rs", "thread::sleep(d);\n"), [1]);
        assert_eq!(lines(path, "// thread::sleep\nring.sleep(); doorbell::sleep();\n"), NONE);
    }

    #[test]
    fn unfinished_and_unused_code_is_refused_without_exception() {
        let path = "crates/link/src/a.rs";
        assert_eq!(lines(path, "todo!()\nunimplemented!()\n"), [1, 2]);
        assert_eq!(lines(path, "todo!() // tidy: allow(todo) later\n"), [1]);
        assert_eq!(lines(path, "#[ignore = \"slow\"]\n#[allow(unused, dead_code)]\n"), [1, 2]);
        assert_eq!(lines(path, "#[cfg_attr(miri, ignore)]\nlet s = \"todo!\";\n"), NONE);
    }

    #[test]
    fn only_programs_benchmarks_and_tests_print() {
        let print = "fn f() {\n    println!(\"x\");\n}\n";
        assert_eq!(lines("crates/link/src/a.rs", print), [2]);
        let silent =
            ["crates/cli/src/a.rs", "bench/src/a.rs", "crates/sim/src/main.rs", "crates/link/src/tests.rs"];
        for path in silent {
            assert_eq!(lines(path, print), NONE, "{path}");
        }
        let in_test = "#[cfg(test)]\nmod tests {\n    fn f() { println!(); }\n}\nfn g() { eprintln!() }\n";
        assert_eq!(lines("crates/link/src/a.rs", in_test), [5]);
    }

    #[test]
    fn rooms_of_services_have_no_clock_thread_socket_or_system_call() {
        let path = "crates/routing/src/a.rs";
        let reached = "use std::time::{Duration, Instant};\nuse std::thread;\nuse std::{net, sync::Arc};\nrustix::io::read(f);\n";
        assert_eq!(lines(path, reached), [1, 2, 3, 4]);
        assert_eq!(lines("crates/contract/src/a.rs", reached), [1, 2, 3]);
        assert_eq!(lines("crates/driver/src/a.rs", reached), NONE);
        assert_eq!(lines("crates/routing/tests/a.rs", reached), NONE);
        let outside =
            "std::env::var(name);\nuse std::{env, io};\nio::stdin();\nlet error = io::Error::other(why);\n";
        assert_eq!(lines(path, outside), [1, 2, 3]);
        let waiting = "use std::sync::{Condvar, Mutex};\nuse std::sync::mpsc;\nArc::new(Mutex::new(1));\n";
        assert_eq!(lines(path, waiting), [1, 2]);
        assert_eq!(lines("crates/driver/src/a.rs", waiting), NONE);
        let harmless = "use std::time::Duration;\nlet thread = 1; // Instant\nfn f(now: Time) {}\n";
        assert_eq!(lines(path, harmless), NONE);
        let in_test = "#[cfg(test)]\nmod tests {\n    use std::thread;\n}\n";
        assert_eq!(lines(path, in_test), NONE);
    }
}
