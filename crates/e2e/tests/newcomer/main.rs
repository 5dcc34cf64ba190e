//! A newcomer goes through the pages: every program and every command of the README and of `docs`, and every example of every
//! `--help` page, in a fresh folder, as root and as another user, and compares what comes out with what the pages show.
// Also outside test functions a test fails by panicking, and says why it is skipped.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod helps;
mod home;
mod pages;
mod process;
mod programs;
mod shown;
mod tables;
mod visit;

use std::collections::HashMap;
use std::env;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use home::Machine;

/// What [`inside`] says when everything has worked.
const ARRIVED: &str = "went through all pages";
/// Tells [`inside`] where everything is, and that it runs as a user of its own on a machine of its own.
const MACHINE: &str = "NEWCOMER_MACHINE";

#[test]
fn everything_on_the_pages_works_as_root() {
    as_user(0);
}

#[test]
fn everything_on_the_pages_works_as_another_user() {
    as_user(65534);
}

/// Makes what looks like a machine of its own: networks, processes and names of hosts of which nobody else knows. A process
/// that is left over ends with it.
const MAKE_MACHINE: &str = r#"
    mount --bind "$1/hosts" /etc/hosts && ip link set lo up || exit 9
    for address in 1 2 3 7 8 9; do ip address add 192.0.2.$address/32 dev lo || exit 9; done
    user=$2; shift 2
    setpriv --reuid=$user --regid=$user --clear-groups "$@"
"#;

/// Runs [`inside`] as this user, on a machine on which nobody else has the user's usual sockets.
fn as_user(user: u32) {
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: only root can become another user, and make a machine of its own");
    }
    let machine = Machine::new(user);
    let make = |program: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--net", "--pid", "--fork", "--kill-child", "--mount", "--mount-proc"]);
        command
            .args(["sh", "-c", MAKE_MACHINE, "sh"])
            .arg(machine.path())
            .arg(user.to_string())
            .args(program);
        command
    };
    if !make(&["true"]).output().is_ok_and(|output| output.status.success()) {
        return println!(
            "skipped: unshare, ip and setpriv cannot make a machine for user {user}; apt-get install util-linux iproute2"
        );
    }
    let test = machine.path().join("bin/test");
    let mut command = make(&[test.to_str().unwrap()]);
    for (name, _) in env::vars_os().filter(|(name, _)| is_personal(&name.to_string_lossy())) {
        command.env_remove(name);
    }
    command
        .env(outboard_child::VARIABLE, "")
        .env(MACHINE, machine.path())
        .current_dir("/")
        .stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut has_arrived = false;
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        has_arrived |= line == ARRIVED;
        println!("{line}");
    }
    assert!(child.wait().unwrap().success() && has_arrived, "not everything works as user {user}");
}

/// Whether a variable is a setting of the person who runs the test.
fn is_personal(name: &str) -> bool {
    ["OUTBOARD_", "XDG_", "SLURM_", "OMPI_", "NO_COLOR"].iter().any(|prefix| name.starts_with(prefix))
}

outboard_child::instead_of_tests!(play);

/// What children do: one is a program of the pages, which another starts that goes through them.
fn play() {
    match env::var_os(programs::PROGRAM) {
        Some(program) => programs::one_of_them(&program),
        None => inside(Path::new(&env::var_os(MACHINE).expect("a child is told where everything is"))),
    }
}

/// What runs as the user on that machine.
fn inside(machine: &Path) {
    programs::say_what_to_start_without_a_server();
    let mut known = HashMap::new();
    let mut failures = visit::pages(machine, &mut known);
    failures.extend(visit::helps(machine, &mut known));
    assert!(failures.is_empty(), "{} of them:\n\n{}", failures.len(), failures.join("\n\n"));
    println!("{ARRIVED}");
}
