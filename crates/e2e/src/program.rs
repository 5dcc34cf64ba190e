//! The programs that tests start, found where cargo puts them.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::SystemTime;

use crate::process::Ended;

/// Where the program `outboard` is.
///
/// # Panics
///
/// If it has not been built, or is older than its source: what the tests say of it would be of another program.
#[must_use]
pub fn program() -> &'static str {
    static PROGRAM: OnceLock<String> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let path = beside_tests("outboard");
        if let Err(why) = is_usable(&path) {
            let release = if path.parent().is_some_and(|folder| folder.ends_with("release")) {
                " --release"
            } else {
                ""
            };
            panic!(
                "{why}: `cargo build{release} -p outboard-cli -p outboard-bench` builds it, and so do `cargo xtask test` and \
                 `cargo test --workspace`"
            );
        }
        path.to_str().expect("cargo builds in a folder whose name is text").to_owned()
    })
}

/// Where cargo puts a program of this name: in the folder above that of the programs of tests. A test that was copied to another
/// folder finds its programs in the same one.
#[must_use]
pub fn beside_tests(name: &str) -> PathBuf {
    let own = std::env::current_exe().expect("a process knows itself");
    let folder = own.parent().expect("a program lies in a folder");
    let folder = if folder.ends_with("deps") { folder.parent().unwrap_or(folder) } else { folder };
    folder.join(name)
}

/// Whether a program is there and no older than the files that it was made of, which cargo lists beside it.
fn is_usable(program: &Path) -> Result<(), String> {
    let changed = |path: &Path| path.metadata().and_then(|metadata| metadata.modified());
    let shown = program.display();
    let built = changed(program).map_err(|_| format!("{shown} has not been built"))?;
    // A copy is without a list.
    let list = std::fs::read_to_string(program.with_extension("d")).unwrap_or_default();
    let is_newer = |path: &PathBuf| changed(path).is_ok_and(|changed: SystemTime| changed > built);
    match sources(&list).find(is_newer) {
        Some(source) => Err(format!("{shown} is older than {}", source.display())),
        None => Ok(()),
    }
}

/// The files that a rule for make names after its colon.
fn sources(rule: &str) -> impl Iterator<Item = PathBuf> {
    /// Stands for a space within a name, which make writes with a backslash.
    const WITHIN: char = '\u{0}';
    let (_, names) = rule.lines().next().and_then(|line| line.split_once(": ")).unwrap_or_default();
    let names = names.replace("\\ ", &WITHIN.to_string());
    let names: Vec<PathBuf> = names.split_whitespace().map(|name| name.replace(WITHIN, " ").into()).collect();
    names.into_iter()
}

/// The program `outboard`, without the settings of the person who runs the test and without standard input.
#[must_use]
pub fn outboard(arguments: &[&str]) -> Command {
    let mut command = Command::new(program());
    without_settings(&mut command);
    command.args(arguments).env("OUTBOARD_CONFIG", "none").stdin(Stdio::null());
    command
}

/// Runs it to its end.
///
/// # Panics
///
/// If it does not start.
#[must_use]
#[track_caller]
pub fn run_outboard(arguments: &[&str]) -> Ended {
    Ended::of(&mut outboard(arguments))
}

/// Takes the settings of the person who runs the test from a command.
pub fn without_settings(command: &mut Command) {
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("OUTBOARD_")) {
        command.env_remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sources_of_a_program_are_read_from_the_rule_beside_it() {
        let rule = "/t/debug/outboard: /w/src/main.rs /w/a\\ folder/lib.rs\n\n/w/src/main.rs:\n";
        let found: Vec<_> = sources(rule).collect();
        assert_eq!(found, [PathBuf::from("/w/src/main.rs"), PathBuf::from("/w/a folder/lib.rs")]);
        assert_eq!(sources("").count(), 0);
    }

    #[test]
    fn a_program_that_is_not_there_or_older_than_its_source_is_refused_by_name() {
        let folder = crate::Folder::new();
        let [program, source] = ["program", "source.rs"].map(|name| folder.path().join(name));
        assert!(is_usable(&program).unwrap_err().contains("has not been built"));
        folder.write("program", "");
        assert_eq!(is_usable(&program), Ok(()), "a copy is without a list");
        folder.write("source.rs", "");
        folder.write("program.d", &format!("{}: {}\n", program.display(), source.display()));
        let later = SystemTime::now() + std::time::Duration::from_secs(60);
        let at = |path: &Path| std::fs::File::options().write(true).open(path).expect("it was just written");
        at(&source).set_modified(later).expect("it is ours");
        assert!(is_usable(&program).unwrap_err().contains("is older than"), "a source was changed");
        at(&program).set_modified(later).expect("it is ours");
        assert_eq!(is_usable(&program), Ok(()));
    }
}
