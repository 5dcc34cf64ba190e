//! `cargo xtask header`: makes `outboard.h` of the library for C, and compares it with the committed one.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::step::Outcome;
use crate::workspace::Workspace;

/// Where the header is.
pub(crate) const HEADER: &str = "crates/c/include/outboard.h";
const SOURCES: &str = "crates/c/src";
/// The files with functions of C, in the order in which the header has them.
const FILES: &[&str] = &[
    "status",
    "arguments",
    "daemons",
    "job",
    "far",
    "mapping",
    "bytes",
    "memory",
    "region",
    "messenger",
    "caller",
    "function",
    "writer",
];

/// Make the header of the library for C, and compare it with the committed one
///
/// `include/outboard.h` of crates/c follows from the functions there and their comments.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  cargo xtask header                      is the header what the source gives?
  cargo xtask header --write              make it anew, after a function was changed")]
pub(crate) struct Args {
    /// Replace the header if it does not match
    #[arg(long)]
    write: bool,
}

impl Args {
    /// As CI runs it.
    pub(crate) fn compare() -> Self {
        Self { write: false }
    }
}

/// Makes the header and compares, or replaces.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<Outcome> {
    let made = made(&workspace.root)?;
    let place = workspace.root.join(HEADER);
    // One that is not there does not match either.
    if fs::read_to_string(&place).is_ok_and(|committed| committed == made) {
        return Ok(Outcome::Passed);
    }
    if args.write {
        fs::write(&place, made).with_context(|| format!("could not write {}", place.display()))?;
        println!("{HEADER}: written");
        return Ok(Outcome::Passed);
    }
    Ok(Outcome::Failed(format!("{HEADER} is not what its source gives: `cargo xtask header --write`")))
}

/// What stands before everything.
const HEAD: &str = "\
/* Outboard for C and C++: memory of other machines, messages, functions beside the data, remote writes.
 *
 * Made by `cargo xtask header`; do not edit.
 *
 * What holds for all functions:
 *
 * - Each returns a status, OUTBOARD_OK where it has done what it says. outboard_last_error() has the reason of any other as a text.
 * - What a function gives is put where a pointer says; a handle is NULL there if it fails.
 * - A pointer is to as much as the header says, for as long as the call takes. NULL, texts that are no UTF-8 and numbers out of their
 *   range are refused. Texts end with a zero.
 * - A handle that was closed, or is of another kind, is refused with OUTBOARD_CLOSED; it is never followed.
 * - Options begin with their size and are all zero otherwise unless set: memset() or = {0}, then size = sizeof. NULL for defaults.
 * - Every call ends within a deadline. No exception and no panic leaves a function.
 * - Handles may be used by any thread. Where it says \"one at a time\", a call while another is under way with the same handle ends at
 *   once with OUTBOARD_BUSY, and has done nothing.
 * - After fork() the child opens everything anew; handles of its parent are refused there with OUTBOARD_CLOSED.
 */";

/// The header as its source gives it.
fn made(root: &Path) -> Result<String> {
    let config = cbindgen::Config {
        language: cbindgen::Language::C,
        header: Some(HEAD.to_owned()),
        include_guard: Some("OUTBOARD_H".to_owned()),
        cpp_compat: true,
        no_includes: true,
        sys_includes: vec!["stddef.h".to_owned(), "stdint.h".to_owned()],
        usize_is_size_t: true,
        documentation_style: cbindgen::DocumentationStyle::C99,
        line_length: 100,
        tab_width: 4,
        ..cbindgen::Config::default()
    };
    let mut builder = cbindgen::Builder::new().with_config(config);
    for name in FILES {
        builder = builder.with_src(root.join(SOURCES).join(format!("{name}.rs")));
    }
    let mut text = Vec::new();
    builder.generate().context("cbindgen cannot read crates/c")?.write(&mut text);
    let text = String::from_utf8(text)?;
    Ok(text.lines().map(|line| line.trim_end().to_owned() + "\n").collect())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_file_with_functions_of_c_is_in_the_header() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let with_functions = |name: &String| {
            let text = fs::read_to_string(root.join(SOURCES).join(format!("{name}.rs"))).unwrap();
            text.contains("no_mangle") || text.contains("pub const OUTBOARD_")
        };
        let files = fs::read_dir(root.join(SOURCES)).unwrap().map(|entry| {
            let path = entry.unwrap().path();
            path.file_stem().unwrap().to_str().unwrap().to_owned()
        });
        let found: BTreeSet<String> = files.filter(with_functions).collect();
        assert_eq!(found, FILES.iter().map(|name| (*name).to_owned()).collect());
    }
}
