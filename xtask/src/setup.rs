//! What the checks need and a plain machine lacks: adds what it may add, and says by name what will be skipped for want of
//! the rest.

use std::process::{Command, Stdio};

use anyhow::Result;

use crate::process;
use crate::step::Outcome;
use crate::workspace::Workspace;

/// Packages of Debian, and what is not checked without them.
const PACKAGES: &[(&[&str], &str)] = &[
    (&["clang-19"], "eBPF objects are not compared with their sources"),
    (&["g++"], "fuzzing is not guided by coverage"),
    (
        &["gcc", "libc6-dev", "python3-numpy", "redis-server", "sqlite3", "xz-utils", "zstd"],
        "programs that were not changed are not all tried with far memory",
    ),
    (&["openmpi-bin"], "ranks are not started by mpirun"),
    (&["libfabric1", "libfabric-dev"], "links over libfabric are not tried"),
    (&["valgrind"], "programs in C are not run under valgrind"),
    (&["python3-venv"], "the Python package is not tried"),
    (&["iproute2"], "nothing is tried on several nodes"),
    (
        &[
            "qemu-system-x86",
            "busybox-static",
            "cpio",
            "kmod",
            "ibverbs-providers",
            "librdmacm1",
            "xz-utils",
            "binutils",
        ],
        "links over verbs are not tried",
    ),
];

/// Components of the toolchain that a minimal one lacks, and the commands of cargo that they bring.
const COMPONENTS: &[(&str, &str)] = &[("rustfmt", "fmt"), ("clippy", "clippy")];

/// Adds what is missing, as far as it may. Fails only where a check cannot be skipped.
pub(crate) fn run(workspace: &Workspace) -> Result<Outcome> {
    for (component, command) in COMPONENTS {
        if !is_there(process::cargo(workspace, &[command, "--version"])) {
            let mut add = Command::new("rustup");
            add.args(["component", "add", component]);
            if process::run(add).is_ok_and(|added| added == Outcome::Passed) {
                continue;
            }
            return Ok(Outcome::Failed(format!("{component} is missing: rustup component add {component}")));
        }
    }
    let missing: Vec<&str> = PACKAGES
        .iter()
        .flat_map(|(packages, _)| *packages)
        .copied()
        .filter(|package| !is_installed(package))
        .collect();
    if missing.is_empty() {
        return Ok(Outcome::Passed);
    }
    if is_root() {
        install(&missing);
    }
    for (packages, skipped) in PACKAGES {
        let missing: Vec<&str> = packages.iter().copied().filter(|package| !is_installed(package)).collect();
        if !missing.is_empty() {
            println!("{skipped}; for that: sudo apt-get install {}", missing.join(" "));
        }
    }
    Ok(Outcome::Passed)
}

/// Whether the program runs and is content.
fn is_there(mut command: Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

fn is_installed(package: &str) -> bool {
    let mut query = Command::new("dpkg-query");
    query.args(["--show", "--showformat=${db:Status-Abbrev}", package]).stderr(Stdio::null());
    query.output().is_ok_and(|output| output.stdout.starts_with(b"ii"))
}

fn is_root() -> bool {
    process::output(Command::new("id")).is_ok_and(|id| id.starts_with("uid=0("))
}

/// Installs packages. What cannot be installed is skipped later, so a failure is only told.
fn install(packages: &[&str]) {
    for arguments in [&["update", "--quiet"][..], &["install", "--quiet", "--yes", "--no-install-recommends"]]
    {
        let mut command = Command::new("apt-get");
        command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null());
        if arguments[0] == "install" {
            command.args(packages);
        }
        match process::run(command) {
            Ok(Outcome::Passed) => {}
            Ok(outcome) => return println!("{}", outcome.reason()),
            Err(error) => return println!("{error:#}"),
        }
    }
}
