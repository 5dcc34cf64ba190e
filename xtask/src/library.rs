//! `cargo xtask library`: installs the library for C and C++.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::step::Outcome;
use crate::test::BUILDS_OUTBOARD;
use crate::workspace::Workspace;
use crate::{header, man, process};

/// The name by which programs ask for the library at run time. Its number grows when programs have to be compiled anew.
const SONAME: &str = "liboutboard.so.0";
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// A test for which cargo builds the archive.
const BUILDS_ARCHIVE: &str = "c";

/// Build and install the library for C and C++: outboard.h, liboutboard.so and .a, outboard.pc, manual pages
///
/// Needs cc, as a linker.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  cargo xtask library --prefix ~/.local   for this user
  cargo xtask library --prefix /usr --libdir lib64 --destdir ./packed
  cc count.c $(PKG_CONFIG_PATH=~/.local/lib/pkgconfig pkg-config --cflags --libs outboard)")]
pub(crate) struct Args {
    /// Below which folder it is used
    #[arg(long, value_name = "DIR", default_value = "/usr/local")]
    prefix: PathBuf,
    /// Where libraries are, below the prefix
    #[arg(long, value_name = "DIR", default_value = "lib")]
    libdir: PathBuf,
    /// Where to put everything, in place of the root folder
    #[arg(long, value_name = "DIR")]
    destdir: Option<PathBuf>,
}

/// Where the parts of the library go.
pub(crate) struct Place {
    /// In place of the root folder.
    pub(crate) destdir: PathBuf,
    pub(crate) prefix: PathBuf,
    /// Below the prefix.
    pub(crate) libdir: PathBuf,
}

/// Builds and installs.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<Outcome> {
    let prefix = std::path::absolute(&args.prefix)?;
    let place = Place {
        destdir: args.destdir.clone().unwrap_or_else(|| PathBuf::from("/")),
        prefix,
        libdir: args.libdir.clone(),
    };
    let archive = archive(workspace, false)?;
    for file in install(workspace, &archive, &place)? {
        println!("{}", file.display());
    }
    Ok(Outcome::Passed)
}

/// The archive that the shared library is made of: of a release, or the one that tests have made.
pub(crate) fn archive(workspace: &Workspace, is_trial: bool) -> Result<PathBuf> {
    // Together with the program, as `cargo build --release` builds it, so that nothing is built once more.
    let release = ["build", "--release", "-p", "outboard-cli", "-p", "outboard-c", "--message-format=json"];
    let trial = [
        "test",
        "--no-run",
        "--workspace",
        "--test",
        BUILDS_OUTBOARD,
        "--test",
        BUILDS_ARCHIVE,
        "--message-format=json",
    ];
    let build: &[&str] = if is_trial { &trial } else { &release };
    let messages = process::output(process::cargo(workspace, build))?;
    archive_in(&messages).context("cargo built no liboutboard_c.a")
}

fn archive_in(messages: &str) -> Option<PathBuf> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let files = |message: Value| message["filenames"].as_array().cloned().unwrap_or_default();
    let mut names = messages.flat_map(files).filter_map(|name| name.as_str().map(PathBuf::from));
    let is_it = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("liboutboard_c") && name.ends_with(".a")
    };
    names.rfind(is_it)
}

/// Installs everything and returns where each file is.
pub(crate) fn install(workspace: &Workspace, archive: &Path, place: &Place) -> Result<Vec<PathBuf>> {
    let prefix = place.destdir.join(place.prefix.strip_prefix("/").unwrap_or(&place.prefix));
    let libraries = prefix.join(&place.libdir);
    let mut files = Vec::new();
    let header = fs::read_to_string(workspace.root.join(header::HEADER))?;
    files.push(write(&prefix.join("include/outboard.h"), &header)?);
    files.push(write(&libraries.join("pkgconfig/outboard.pc"), &pkg_config(place))?);
    let whole = libraries.join(format!("liboutboard.so.{VERSION}"));
    let mut link = Command::new("sh");
    link.arg(workspace.root.join("crates/c/link.sh")).arg(archive).arg(&whole);
    process::output(link)?;
    fs::set_permissions(&whole, Permissions::from_mode(0o644))?;
    let copy = libraries.join("liboutboard.a");
    fs::copy(archive, &copy).with_context(|| format!("cannot write {}", copy.display()))?;
    fs::set_permissions(&copy, Permissions::from_mode(0o644))?;
    if process::find_program(&["strip"]).is_some() {
        for file in [&whole, &copy] {
            let mut strip = Command::new("strip");
            strip.arg("--strip-debug").arg(file);
            process::output(strip)?;
        }
    }
    files.extend([whole, copy]);
    for (name, target) in
        [(SONAME, format!("liboutboard.so.{VERSION}")), ("liboutboard.so", SONAME.to_owned())]
    {
        let link = libraries.join(name);
        // One of an earlier time may be there.
        let _ = fs::remove_file(&link);
        symlink(target, &link).with_context(|| format!("cannot make {}", link.display()))?;
        files.push(link);
    }
    for (name, text) in man::pages(&workspace.root, &header, VERSION)? {
        files.push(write(&prefix.join("share/man/man3").join(name), &text)?);
    }
    Ok(files)
}

fn write(path: &Path, text: &str) -> Result<PathBuf> {
    let folder = path.parent().context("a file lies in a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    fs::set_permissions(path, Permissions::from_mode(0o644))?;
    Ok(path.to_owned())
}

fn pkg_config(place: &Place) -> String {
    format!(
        "prefix={}
libdir=${{prefix}}/{}
includedir=${{prefix}}/include

Name: outboard
Description: memory of other machines, messages, functions beside the data, remote writes
Version: {VERSION}
Cflags: -I${{includedir}}
Libs: -L${{libdir}} -loutboard
Libs.private: -lgcc_s -lpthread -ldl -lm
",
        place.prefix.display(),
        place.libdir.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_archive_is_found_among_what_cargo_has_built() {
        let messages = [
            r#"{"filenames":["/t/deps/liboutboard_c-1a.rlib","/t/deps/liboutboard_c-1a.a"]}"#,
            r#"{"filenames":["/t/liboutboard.rlib"]}"#,
            "no message",
        ];
        assert_eq!(archive_in(&messages.join("\n")), Some(PathBuf::from("/t/deps/liboutboard_c-1a.a")));
        assert_eq!(archive_in(messages[1]), None);
    }

    #[test]
    fn the_number_in_the_name_is_that_of_the_linker() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let script = fs::read_to_string(root.join("crates/c/link.sh")).unwrap();
        assert!(script.contains(&format!("-soname,{SONAME} ")), "{script}");
        assert!(format!("liboutboard.so.{VERSION}").starts_with(&format!("{SONAME}.")), "{VERSION}");
    }
}
