//! Finds the program to start, before anything is started.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, accessat};
use thiserror::Error;

/// Why there is nothing to start.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ProgramNotFound {
    /// A name that no folder of the search path holds.
    #[error("program `{}` was not found in PATH{}", program.display(), hint(*in_current_folder, program))]
    NotInPath {
        /// As the user wrote it.
        program: PathBuf,
        /// Whether the current folder has a file of this name, which is not looked at without `./`.
        in_current_folder: bool,
    },
    /// A path with nothing there.
    #[error("program `{}` does not exist", program.display())]
    Missing {
        /// As the user wrote it.
        program: PathBuf,
    },
    /// A folder, a socket, a device.
    #[error("`{}` is not a file that could be run", found.display())]
    NotAFile {
        /// What is there.
        found: PathBuf,
    },
    /// A file that this user may not execute.
    #[error("`{}` is not executable; `chmod +x` makes it so, if it is a program", found.display())]
    NotExecutable {
        /// The file.
        found: PathBuf,
    },
}

fn hint(in_current_folder: bool, program: &Path) -> String {
    if in_current_folder {
        format!("; to run the one in this folder write `./{}`", program.display())
    } else {
        String::new()
    }
}

/// The file that `program` means: itself if it has a slash, otherwise the first of its name in `PATH`.
pub fn find_program(program: &OsStr) -> Result<PathBuf, ProgramNotFound> {
    find_in(program, std::env::var_os("PATH"))
}

fn find_in(program: &OsStr, path: Option<OsString>) -> Result<PathBuf, ProgramNotFound> {
    let named = PathBuf::from(program);
    if program.as_bytes().contains(&b'/') {
        return check(named).map_err(|error| error.unwrap_or_else(|| missing(program)));
    }
    let folders = path.unwrap_or_else(|| OsString::from("/bin:/usr/bin"));
    let mut refused = None;
    for folder in std::env::split_paths(&folders).filter(|_| !program.is_empty()) {
        match check(folder.join(program)) {
            Ok(found) => return Ok(found),
            Err(error) => refused = refused.or(error),
        }
    }
    let in_current_folder = !program.is_empty() && named.is_file();
    Err(refused.unwrap_or(ProgramNotFound::NotInPath { program: named, in_current_folder }))
}

fn missing(program: &OsStr) -> ProgramNotFound {
    ProgramNotFound::Missing { program: PathBuf::from(program) }
}

/// No error means that nothing is there.
fn check(found: PathBuf) -> Result<PathBuf, Option<ProgramNotFound>> {
    match std::fs::metadata(&found) {
        Err(_) => Err(None),
        Ok(data) if !data.is_file() => Err(Some(ProgramNotFound::NotAFile { found })),
        Ok(_) if accessat(CWD, &found, Access::EXEC_OK, AtFlags::EACCESS).is_err() => {
            Err(Some(ProgramNotFound::NotExecutable { found }))
        }
        Ok(_) => Ok(found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(program: &str) -> Result<PathBuf, ProgramNotFound> {
        find_in(OsStr::new(program), Some("/nowhere:/bin:/usr/bin".into()))
    }

    #[test]
    fn names_are_searched_and_paths_are_taken() {
        assert_eq!(find("sh"), Ok(PathBuf::from("/bin/sh")));
        assert_eq!(find("/bin/sh"), Ok(PathBuf::from("/bin/sh")));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let message = |program: &str| find(program).unwrap_err().to_string();
        assert_eq!(message("no-such-program"), "program `no-such-program` was not found in PATH");
        assert_eq!(message("./no-such-program"), "program `./no-such-program` does not exist");
        assert_eq!(message("/bin/"), "`/bin/` is not a file that could be run");
        assert!(message("/etc/passwd").starts_with("`/etc/passwd` is not executable"));
        assert!(message("Cargo.toml").ends_with("to run the one in this folder write `./Cargo.toml`"));
        assert_eq!(message(""), "program `` was not found in PATH");
    }
}
