//! `cargo xtask deb`: the program, its manual pages and its service units as a Debian package, and the library for C as two more.

mod library;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::process;
use crate::step::Outcome;
use crate::test::BUILDS_OUTBOARD;
use crate::workspace::Workspace;

/// Make Debian packages: of the program, its manual pages, completions and service units, and of the library for C
///
/// Needs dpkg-deb, which every Debian machine has. The packages lie in target/debian: outboard, liboutboard0, and liboutboard-dev
/// for compilers.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  cargo xtask deb                               for this machine
  cargo xtask deb --debug                       only whether it can be packed, in target/debian-trial
  cargo xtask deb && apt-get install ./target/debian/outboard_*.deb")]
pub(crate) struct Args {
    /// Pack a build with debug assertions, which tests have made already, to see whether it can be packed
    #[arg(long)]
    debug: bool,
}

impl Args {
    /// For a release.
    pub(crate) fn release() -> Self {
        Self { debug: false }
    }

    /// As CI tries it.
    pub(crate) fn trial() -> Self {
        Self { debug: true }
    }
}

/// What becomes of files of the folder packaging: where they go, and whether they are programs.
const FILES: [(&str, &str, u32); 7] = [
    ("systemd/outboard-memory.service", "usr/lib/systemd/system/outboard-memory.service", 0o644),
    ("systemd/outboard-agent.service", "usr/lib/systemd/system/outboard-agent.service", 0o644),
    ("udev/60-outboard.rules", "usr/lib/udev/rules.d/60-outboard.rules", 0o644),
    ("daemons.toml", "etc/outboard/daemons.toml", 0o644),
    ("debian/postinst.sh", "DEBIAN/postinst", 0o755),
    ("debian/prerm.sh", "DEBIAN/prerm", 0o755),
    ("debian/postrm.sh", "DEBIAN/postrm", 0o755),
];

/// The library that `outboard far` loads into programs.
const LIBRARY: &str = "liboutboard_preload.so";

/// Builds and packs.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<Outcome> {
    if process::find_program(&["dpkg-deb"]).is_none() {
        return Ok(Outcome::Skipped("dpkg-deb is missing: this is no Debian machine".to_owned()));
    }
    let program = if args.debug {
        process::program_of_tests(workspace, BUILDS_OUTBOARD, "outboard")?
    } else {
        let build =
            ["build", "--release", "-p", "outboard-cli", "-p", "outboard-preload", "--message-format=json"];
        process::program_in(&process::output(process::cargo(workspace, &build))?, "outboard")?
    };
    // A trial is not to be taken for the package.
    let folder = workspace.target_dir.join(if args.debug { "debian-trial" } else { "debian" });
    let root = folder.join("root");
    if root.exists() {
        fs::remove_dir_all(&root)?;
    }
    let architecture = process::output(word("dpkg", &["--print-architecture"]))?;
    let version = version(&program)?;
    let control = control(&version, architecture.trim());
    write(&root.join("DEBIAN/control"), control.as_bytes(), 0o644)?;
    write(&root.join("DEBIAN/conffiles"), b"/etc/outboard/daemons.toml\n", 0o644)?;
    for (from, to, mode) in FILES {
        let from = workspace.root.join("packaging").join(from);
        let bytes = fs::read(&from).with_context(|| format!("cannot read {}", from.display()))?;
        write(&root.join(to), &bytes, mode)?;
    }
    install_program(&program, &root)?;
    for license in ["LICENSE-APACHE", "LICENSE-MIT", "CHANGELOG.md"] {
        write(
            &root.join("usr/share/doc/outboard").join(license),
            &fs::read(workspace.root.join(license))?,
            0o644,
        )?;
    }
    match pack(&root, &folder, args.debug)? {
        Outcome::Passed => library::run(workspace, &folder, (&version, architecture.trim()), args.debug),
        failed => Ok(failed),
    }
}

/// Makes a package of what lies below `root`.
fn pack(root: &Path, folder: &Path, is_trial: bool) -> Result<Outcome> {
    let mut pack = Command::new("dpkg-deb");
    pack.arg("--root-owner-group");
    if is_trial {
        // Much of it, which is not kept.
        pack.arg("-Znone");
    }
    pack.arg("--build").arg(root).arg(folder);
    process::run(pack)
}

/// The program without what only debuggers read, and what it says of itself.
fn install_program(program: &Path, root: &Path) -> Result<()> {
    let installed = root.join("usr/bin/outboard");
    write(&installed, &fs::read(program)?, 0o755)?;
    if process::find_program(&["strip"]).is_some() {
        process::output(word("strip", &["--strip-debug", &installed.display().to_string()]))?;
    }
    // A trial is made of what tests have built, and its library may be missing.
    let library = program.with_file_name(LIBRARY);
    if library.exists() {
        write(&root.join("usr/lib/outboard").join(LIBRARY), &fs::read(&library)?, 0o644)?;
    }
    let program = installed.display().to_string();
    let pages = root.join("usr/share/man/man1");
    process::output(word(&program, &["man", &pages.display().to_string()]))?;
    let shells = [
        ("bash", "usr/share/bash-completion/completions/outboard"),
        ("zsh", "usr/share/zsh/vendor-completions/_outboard"),
        ("fish", "usr/share/fish/vendor_completions.d/outboard.fish"),
    ];
    for (shell, place) in shells {
        let script = process::output(word(&program, &["completions", shell]))?;
        write(&root.join(place), script.as_bytes(), 0o644)?;
    }
    Ok(())
}

fn word(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments);
    command
}

/// The version as the program says it.
fn version(program: &Path) -> Result<String> {
    let said = process::output(word(&program.display().to_string(), &["--version"]))?;
    said.split_whitespace().nth(1).map(str::to_owned).context("the program does not say its version")
}

fn control(version: &str, architecture: &str) -> String {
    format!(
        "Package: outboard
Version: {version}
Architecture: {architecture}
Maintainer: The Outboard developers <outboard@localhost>
Section: net
Priority: optional
Depends: libc6 (>= 2.36), libgcc-s1, adduser
Recommends: libfabric1
Description: moves the work of communication off the processor that computes
 Far memory behind plain pointers, aggregated messages, functions that run where
 their data are, and remote writes that choose their path: over shared memory,
 TCP and libfabric, with agents on other cores or on a SmartNIC.
"
    )
}

fn write(path: &Path, bytes: &[u8], mode: u32) -> Result<()> {
    let folder = path.parent().context("a file lies in a folder")?;
    fs::create_dir_all(folder)?;
    fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(fs::set_permissions(path, Permissions::from_mode(mode))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_that_is_packed_is_there() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging");
        for (from, _, _) in FILES {
            assert!(folder.join(from).is_file(), "{from}");
        }
    }

    #[test]
    fn control_files_have_a_line_for_each_field() {
        let control = control("0.1.0", "amd64");
        assert!(control.starts_with("Package: outboard\nVersion: 0.1.0\nArchitecture: amd64\n"));
        assert!(control.ends_with(".\n") && control.lines().all(|line| !line.is_empty()));
    }
}
