//! The library for C as two packages: what programs need to run, and what compilers need.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::{pack, word, write};
use crate::library::{self, Place};
use crate::process;
use crate::step::Outcome;
use crate::workspace::Workspace;

/// The package with what programs need to run; its number is that of the library.
const RUNTIME: &str = "liboutboard0";
const FOR_COMPILERS: &str = "liboutboard-dev";

/// Packs both into `folder`.
pub(super) fn run(
    workspace: &Workspace,
    folder: &Path,
    (version, architecture): (&str, &str),
    is_trial: bool,
) -> Result<Outcome> {
    let roots = [RUNTIME, FOR_COMPILERS].map(|name| folder.join(format!("root-{name}")));
    for root in roots.iter().filter(|root| root.exists()) {
        fs::remove_dir_all(root)?;
    }
    let [runtime, compilers] = roots;
    let multiarch = process::output(word("cc", &["-print-multiarch"]))?;
    let libdir = Path::new("lib").join(multiarch.trim());
    let place = Place { destdir: compilers.clone(), prefix: PathBuf::from("/usr"), libdir: libdir.clone() };
    let archive = library::archive(workspace, is_trial)?;
    let installed = library::install(workspace, &archive, &place)?;
    let libraries = Path::new("usr").join(libdir);
    fs::create_dir_all(runtime.join(&libraries))?;
    for file in installed.iter().filter(|file| is_for_running(file)) {
        let below = file.strip_prefix(&compilers).context("it was put there")?;
        fs::rename(file, runtime.join(below)).with_context(|| format!("cannot move {}", file.display()))?;
    }
    for (root, name) in [(&runtime, RUNTIME), (&compilers, FOR_COMPILERS)] {
        write(&root.join("DEBIAN/control"), control(name, version, architecture).as_bytes(), 0o644)?;
        for license in ["LICENSE-APACHE", "LICENSE-MIT"] {
            let text = fs::read(workspace.root.join(license))?;
            write(&root.join("usr/share/doc").join(name).join(license), &text, 0o644)?;
        }
    }
    let shlibs = format!("liboutboard 0 {RUNTIME} (>= {version})\n");
    write(&runtime.join("DEBIAN/shlibs"), shlibs.as_bytes(), 0o644)?;
    write(&runtime.join("DEBIAN/triggers"), b"activate-noawait ldconfig\n", 0o644)?;
    for root in [&runtime, &compilers] {
        let packed = pack(root, folder, is_trial)?;
        if packed != Outcome::Passed {
            return Ok(packed);
        }
    }
    Ok(Outcome::Passed)
}

/// Whether a file is the shared library, or the name by which programs ask for it.
fn is_for_running(file: &Path) -> bool {
    file.file_name().is_some_and(|name| name.to_string_lossy().starts_with("liboutboard.so."))
}

fn control(name: &str, version: &str, architecture: &str) -> String {
    let (section, depends, about, more) = match name {
        RUNTIME => (
            "libs",
            "libc6 (>= 2.36), libgcc-s1".to_owned(),
            "memory of other machines, messages and remote functions for C and C++",
            "What programs need to run that were compiled with liboutboard-dev.",
        ),
        _ => (
            "libdevel",
            format!("{RUNTIME} (= {version})"),
            "memory of other machines, messages and remote functions for C and C++",
            "The header, the archive, the file for pkg-config and the manual pages.",
        ),
    };
    format!(
        "Package: {name}
Version: {version}
Architecture: {architecture}
Multi-Arch: same
Maintainer: The Outboard developers <outboard@localhost>
Section: {section}
Priority: optional
Depends: {depends}
Description: {about}
 {more}
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_get_the_library_and_compilers_its_short_name() {
        let names =
            ["liboutboard.so.0.1.0", "liboutboard.so.0", "liboutboard.so", "liboutboard.a", "outboard.h"];
        let running = names.map(|name| is_for_running(&Path::new("/usr/lib").join(name)));
        assert_eq!(running, [true, true, false, false, false]);
    }

    #[test]
    fn the_package_for_compilers_needs_the_library_of_its_version() {
        let control = control(FOR_COMPILERS, "0.1.0", "amd64");
        assert!(control.contains("\nDepends: liboutboard0 (= 0.1.0)\n"), "{control}");
        assert!(control.lines().all(|line| !line.is_empty()));
    }
}
