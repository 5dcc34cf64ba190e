//! `cargo xtask vm`: what needs another kernel than that of this machine, in a small virtual machine: the links' conformance suite
//! and a little of each service on verbs, and the limits of control groups of version 2.
//!
//! Verbs need an RDMA device, and soft-RoCE, which makes one of any network interface, needs a kernel that has it. Control groups
//! of version 2 have no memory controller where version 1 has it. So the tests run in a guest with Debian's kernel and nothing
//! else. Its processor is emulated: that says much about right and wrong and nothing about speed.

mod image;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use serde_json::Value;

use self::image::Base;
use crate::process;
use crate::step::Outcome;
use crate::tally::Tally;
use crate::test::BUILDS_OUTBOARD;
use crate::workspace::Workspace;

/// What has to be installed, and by which programs it is known.
const NEEDED: &[(&str, &str)] = &[
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("busybox", "busybox-static"),
    ("cpio", "cpio"),
    ("depmod", "kmod"),
    ("rdma", "iproute2"),
    ("xz", "xz-utils"),
    ("dash", "dash"),
    ("strip", "binutils"),
];
/// The files that are no programs, and their packages.
const NEEDED_FILES: &[(&str, &str)] = &[
    ("/etc/libibverbs.d/rxe.driver", "ibverbs-providers"),
    ("/usr/lib/x86_64-linux-gnu/libfabric.so.1", "libfabric1"),
    ("/usr/lib/x86_64-linux-gnu/librdmacm.so.1", "librdmacm1"),
];
/// Where programs are that not everybody has on the search path.
const FOLDERS: &[&str] = &["/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"];

/// The tests of links that need verbs: all of a link, and of one whose regions are lent those that lending concerns.
const LINKS: &[&str] = &[
    "ofi_verbs::",
    "ofi_verbs_lent::access",
    "ofi_verbs_lent::contention",
    "ofi_verbs_lent::death",
    "ofi_verbs_lent::long_reads",
    "ofi_verbs_alone::access",
    "ofi_verbs_alone::frames",
];
/// The tests of services: real daemons and programs over a fabric.
const SERVICES: &[&str] = &["paging", "routing", "calling", "writing"];
/// The tests of daemons in control groups.
const LIMITS: &str = "limits";
/// Version 2 of control groups, with all its controllers, where tests look for them.
const MOUNT_GROUPS: &str = "mount -t cgroup2 none /sys/fs/cgroup || exit 125\n";
/// The program that they start.
const PROGRAM: &str = "outboard";
/// The address of the guest's first device, for those tests.
const ADDRESS: &str = "OUTBOARD_TEST_VERBS=10.0.0.1";
/// How often the guest is started again if it dies before it comes to the tests.
const BOOTS: usize = 3;

/// Run in a small virtual machine what needs its kernel: links and services on verbs, limits of control groups of version 2
///
/// The guest's kernel is fetched from Debian once and kept below the target directory. Where something is not
/// installed it says what, and is skipped.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  cargo xtask vm                          all of it, in about two minutes
  cargo xtask vm access                   the links' tests of one subject
  cargo xtask vm paging                   one service: paging, routing, calling or writing
  cargo xtask vm limits                   daemons in control groups of version 2
  cargo xtask vm --seconds 900            on a slow machine")]
pub(crate) struct Args {
    /// Only the tests of this subject, such as access, death::with_a_goodbye or paging
    subject: Option<String>,
    /// How long the guest may take
    #[arg(long, value_name = "N", default_value_t = 600)]
    seconds: u32,
}

impl Args {
    /// As CI runs it: on a machine that has other work, the guest takes several times as long.
    pub(crate) fn whole() -> Self {
        Self { subject: None, seconds: 1500 }
    }
}

/// Boots the guest and runs the tests in it.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<(Outcome, Tally)> {
    if std::env::consts::ARCH != "x86_64" {
        return Ok((Outcome::Skipped("the guest is an x86-64 machine".to_owned()), Tally::default()));
    }
    let missing = missing();
    if !missing.is_empty() {
        let why = format!("sudo apt install {}", missing.join(" "));
        return Ok((Outcome::Skipped(why), Tally::default()));
    }
    let folder = workspace.target_dir.join("vm");
    fs::create_dir_all(&folder).with_context(|| format!("could not make {}", folder.display()))?;
    let commands = commands(args.subject.as_deref())?;
    let files = build(workspace, &commands)?;
    let base = Base::prepare(&folder)?;
    let initrd = base.with_programs(&folder, &files, &script(&commands))?;
    let mut last = (Outcome::Failed("the guest did not start".to_owned()), Tally::default());
    for _ in 0..BOOTS {
        let (outcome, tally) = process::run_tests(boot(&folder, &base, &initrd, args.seconds))?;
        match verdict(&fs::read_to_string(folder.join("verdict")).unwrap_or_default()) {
            Verdict::NeverBegun => println!("the guest died before it came to the tests: once more"),
            Verdict::Ended(0) if tally.passed > 0 => return Ok((outcome, tally)),
            Verdict::Ended(0) => return Ok((Outcome::Failed("no test has such a name".to_owned()), tally)),
            Verdict::Ended(code) => {
                return Ok((Outcome::Failed(format!("exit code {code} in the guest")), tally));
            }
            Verdict::CutOff => {
                let why = format!("the guest did not finish within {} s", args.seconds);
                return Ok((Outcome::Failed(why), tally));
            }
        }
        last.1 = tally;
    }
    Ok(last)
}

/// How it went, by what the guest wrote to its third serial line.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    NeverBegun,
    CutOff,
    Ended(i32),
}

fn verdict(text: &str) -> Verdict {
    let mut lines = text.lines().map(str::trim);
    match (lines.next(), lines.next().and_then(|line| line.parse().ok())) {
        (Some("begun"), Some(code)) => Verdict::Ended(code),
        (Some("begun"), None) => Verdict::CutOff,
        _ => Verdict::NeverBegun,
    }
}

/// The packages that are not installed.
fn missing() -> Vec<&'static str> {
    let has_program = |name: &str| FOLDERS.iter().any(|folder| Path::new(folder).join(name).is_file());
    let programs = NEEDED.iter().filter(|(program, _)| !has_program(program));
    let files = NEEDED_FILES.iter().filter(|(file, _)| !Path::new(file).exists());
    programs.chain(files).map(|(_, package)| *package).collect()
}

/// A program of tests, and which of them.
struct Tests {
    name: &'static str,
    filter: String,
}

/// What is run in the guest.
fn commands(subject: Option<&str>) -> Result<Vec<Tests>> {
    // It goes through a shell.
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_:".contains(letter);
    let is_plain = subject.is_none_or(|subject| subject.chars().all(is_plain));
    anyhow::ensure!(is_plain, "no test has such a name: {}", subject.unwrap_or_default());
    let links = |filter| Tests { name: "conformance", filter };
    let services = |filter| Tests { name: "fabric", filter };
    let limits = || Tests { name: "daemons", filter: format!("{LIMITS}:: --show-output") };
    Ok(match subject {
        Some(LIMITS) => vec![limits()],
        Some(service) if SERVICES.contains(&service) => vec![services(service.to_owned())],
        Some(subject) => {
            vec![links(["ofi_verbs::", "ofi_verbs_lent::"].map(|link| format!("{link}{subject}")).join(" "))]
        }
        None => vec![links(LINKS.join(" ")), services(SERVICES.join(" ")), limits()],
    })
}

/// Runs one after the other, also if one fails, and ends with the exit code of one that did.
fn script(commands: &[Tests]) -> String {
    let line = |Tests { name, filter }: &Tests| format!("/{name} {filter} --test-threads=1 || code=$?\n");
    let lines: String = commands.iter().map(line).collect();
    format!("#!/bin/sh\n{MOUNT_GROUPS}code=0\n{lines}exit $code\n")
}

/// Builds the programs of tests and the one that they start, and returns where each is, and where it has to be in the guest: all
/// in one folder, where tests find it.
fn build(workspace: &Workspace, commands: &[Tests]) -> Result<Vec<(PathBuf, PathBuf)>> {
    // Packages that are built by themselves have fewer features, and would be built once more.
    let mut args = vec!["test", "--workspace", "--no-run", "--message-format=json"];
    args.extend(["--test", BUILDS_OUTBOARD]);
    args.extend(commands.iter().flat_map(|tests| ["--test", tests.name]));
    let text = process::output(process::cargo(workspace, &args))?;
    let mut files = Vec::new();
    for message in text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        let Some(program) = message["executable"].as_str().map(PathBuf::from) else { continue };
        let name = message["target"]["name"].as_str().unwrap_or_default();
        let test = commands.iter().find(|tests| message["target"]["kind"][0] == "test" && tests.name == name);
        match test {
            Some(test) => files.push((program, Path::new("/").join(test.name))),
            None if name == PROGRAM => files.push((program, Path::new("/").join(PROGRAM))),
            None => {}
        }
    }
    for Tests { name, .. } in commands {
        let place = Path::new("/").join(name);
        anyhow::ensure!(
            files.iter().any(|(_, at)| *at == place),
            "cargo built no program of the tests {name}"
        );
    }
    Ok(files)
}

fn boot(folder: &Path, base: &Base, initrd: &Path, seconds: u32) -> Command {
    let verdict = folder.join("verdict");
    // Of an earlier run.
    let _ = fs::remove_file(&verdict);
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", &seconds.to_string(), "qemu-system-x86_64"]);
    command.args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-nic", "none"]);
    command.args(["-m", "1024", "-smp", "2"]);
    // Without the processor's help: machines that are guests themselves often promise it and cannot give it.
    command.args(["-accel", "tcg,thread=multi", "-cpu", "max"]);
    command.arg("-kernel").arg(&base.kernel).arg("-initrd").arg(initrd);
    let line =
        "console=ttyS0 quiet panic=-1 mitigations=off net.ifnames=0 random.trust_cpu=on no_timer_check";
    command.args(["-append", &format!("{line} {ADDRESS}")]);
    command.arg("-serial").arg(format!("file:{}", folder.join("console").display()));
    command.args(["-serial", "stdio", "-serial"]).arg(format!("file:{}", verdict.display()));
    command.stdin(Stdio::null());
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_is_of_the_links_or_a_service() {
        let names = |subject| commands(subject).unwrap().iter().map(|tests| tests.name).collect::<Vec<_>>();
        assert_eq!(names(None), ["conformance", "fabric", "daemons"]);
        assert_eq!(names(Some("limits")), ["daemons"]);
        assert_eq!((names(Some("paging")), names(Some("access"))), (vec!["fabric"], vec!["conformance"]));
        assert!(commands(Some("access; reboot")).is_err());
    }

    #[test]
    fn a_program_that_fails_does_not_keep_the_next_from_running() {
        let text = script(&commands(None).unwrap());
        assert!(
            text.contains("/conformance ofi_verbs:: ") && text.contains("|| code=$?\n/fabric paging "),
            "{text}"
        );
    }

    #[test]
    fn the_guest_says_how_it_went() {
        assert_eq!(verdict(""), Verdict::NeverBegun);
        assert_eq!(verdict("begun\r\n"), Verdict::CutOff);
        assert_eq!(verdict("begun\r\n101\r\n"), Verdict::Ended(101));
        assert_eq!(verdict("begun\n0\n"), Verdict::Ended(0));
        assert_eq!(verdict("\u{0}garbage"), Verdict::NeverBegun);
    }
}
