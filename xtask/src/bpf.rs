//! `cargo xtask bpf`: compiles the repository's eBPF functions and compares them with the committed objects.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use crate::process;
use crate::step::Outcome;
use crate::workspace::Workspace;

/// Other versions make other code of the same source.
const CLANG_VERSION: &str = "19.1.7";
const CLANG_NAMES: &[&str] = &["clang-19", "clang"];

/// Where sources and objects lie: each source, and the processors it is compiled for. `functions.c` for `v1` is
/// `functions-v1.o`.
const FOLDERS: &[(&str, Sources)] = &[
    (
        "crates/ebpf/tests/objects",
        &[
            ("functions", &["v1", "v2", "v3", "v4"]),
            ("helpers", &["v3"]),
            ("lookup", &["v3"]),
            ("loop", &["v3"]),
            ("modern", &["v4"]),
        ],
    ),
    ("apps/kv/functions", &[("kv", &["v3"])]),
    ("apps/btree/functions", &[("btree", &["v3"])]),
    ("bench/functions", &[("mix", &["v3"])]),
];

/// Names of sources, each with processors.
type Sources = &'static [(&'static str, &'static [&'static str])];

/// Compile the repository's eBPF functions and compare them with the committed objects
///
/// Needs clang 19.1.7; without it, it says so and is skipped.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  cargo xtask bpf                         do the objects match their sources?
  cargo xtask bpf --write                 make them anew, after a source was changed")]
pub(crate) struct Args {
    /// Replace the objects that do not match
    #[arg(long)]
    write: bool,
}

impl Args {
    /// As CI runs it.
    pub(crate) fn compare() -> Self {
        Self { write: false }
    }
}

/// Compiles everything and compares, or replaces.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<Outcome> {
    for (folder, sources) in FOLDERS {
        let strays = strays(&workspace.root.join(folder), sources)?;
        if !strays.is_empty() {
            let strays = strays.join(", ");
            return Ok(Outcome::Failed(format!("{strays} in {folder}: not in FOLDERS of xtask/src/bpf.rs")));
        }
    }
    let Some(clang) = pinned_clang() else {
        let reason = format!("no clang {CLANG_VERSION} as {}", CLANG_NAMES.join(" or "));
        return Ok(Outcome::Skipped(reason));
    };
    let made_in = workspace.target_dir.join("bpf");
    fs::create_dir_all(&made_in).with_context(|| format!("could not make {}", made_in.display()))?;
    let mut different = Vec::new();
    for (folder, sources) in FOLDERS {
        let home = workspace.root.join(folder);
        for (source, cpu) in all(sources) {
            let object = object_name(source, cpu);
            let made = made_in.join(&object);
            let outcome = process::run(compile(&clang, &home, source, cpu, &made))?;
            if outcome != Outcome::Passed {
                return Ok(outcome);
            }
            let bytes = fs::read(&made).with_context(|| format!("could not read {}", made.display()))?;
            // One that is not there does not match either.
            if fs::read(home.join(&object)).ok().as_ref() == Some(&bytes) {
                continue;
            }
            if args.write {
                fs::write(home.join(&object), &bytes).with_context(|| format!("could not write {object}"))?;
                println!("{folder}/{object}: written");
            } else {
                different.push(format!("{folder}/{object}"));
            }
        }
    }
    Ok(if different.is_empty() {
        Outcome::Passed
    } else {
        let names = different.join(", ");
        Outcome::Failed(format!("{names}: not what the sources give; `cargo xtask bpf --write`"))
    })
}

fn all(sources: Sources) -> impl Iterator<Item = (&'static str, &'static str)> {
    sources.iter().flat_map(|(source, cpus)| cpus.iter().map(|cpu| (*source, *cpu)))
}

fn object_name(source: &str, cpu: &str) -> String {
    format!("{source}-{cpu}.o")
}

/// Sources and objects that no build would compare.
fn strays(folder: &Path, sources: Sources) -> Result<Vec<String>> {
    let mut strays = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("could not list {}", folder.display()))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let known = all(sources)
            .any(|(source, cpu)| name == format!("{source}.c") || name == object_name(source, cpu));
        if !known && (name.ends_with(".c") || name.ends_with(".o")) {
            strays.push(name);
        }
    }
    strays.sort();
    Ok(strays)
}

/// From the sources' own folder, because an object has the path that its source was given by.
fn compile(clang: &str, folder: &Path, source: &str, cpu: &str, made: &Path) -> Command {
    let mut command = Command::new(clang);
    command.args(["-target", "bpf", &format!("-mcpu={cpu}"), "-O2", "-fno-ident", "-Wall", "-Werror", "-c"]);
    command.arg(format!("{source}.c")).arg("-o").arg(made);
    command.current_dir(folder).stdin(Stdio::null());
    command
}

fn pinned_clang() -> Option<String> {
    let is_pinned = |name: &&&str| {
        let output = Command::new(name).arg("--version").stdin(Stdio::null()).output();
        output.is_ok_and(|output| has_version(&String::from_utf8_lossy(&output.stdout)))
    };
    CLANG_NAMES.iter().find(is_pinned).map(|name| (*name).to_owned())
}

/// Whether `clang --version` printed the pinned one, in any distribution's words.
fn has_version(printed: &str) -> bool {
    let mut words = printed.split_whitespace().skip_while(|word| *word != "version").skip(1);
    words.next() == Some(CLANG_VERSION)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_pinned_version_is_good_enough() {
        assert!(has_version("Debian clang version 19.1.7 (3+b1)\nTarget: x86_64-pc-linux-gnu"));
        assert!(has_version("clang version 19.1.7\n"));
        for other in ["clang version 19.1.70", "Debian clang version 14.0.6", "gcc 19.1.7", ""] {
            assert!(!has_version(other), "{other}");
        }
    }

    #[test]
    fn every_source_and_object_is_compared() {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        for (folder, sources) in FOLDERS {
            let folder = workspace.join(folder);
            assert_eq!(strays(&folder, sources).unwrap(), [""; 0]);
            for (source, cpu) in all(sources) {
                assert!(folder.join(format!("{source}.c")).is_file(), "{source}");
                assert!(folder.join(object_name(source, cpu)).is_file(), "{source} for {cpu}");
            }
        }
    }
}
