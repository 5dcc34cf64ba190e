//! What a configuration is made from.

use std::collections::BTreeMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::key::VARIABLE_PREFIX;
use crate::launcher::{self, Said};

/// The variable that names the file.
pub(crate) const CONFIG_VARIABLE: &str = "OUTBOARD_CONFIG";
/// Variables that mean something and are no settings, all of them. One that ends with `*` stands for all that begin so.
pub(crate) const OTHERS: [&str; 8] = [
    CONFIG_VARIABLE,
    // A folder for what ranks report of their messages.
    "OUTBOARD_REPORT",
    // By which a daemon tells the process that has started it that it is ready.
    "OUTBOARD_READY_FD",
    // What `outboard far` tells the library that it loads into a program.
    "OUTBOARD_PRELOAD",
    // What a test or a fuzzer repeats.
    "OUTBOARD_SEED",
    "OUTBOARD_ROUNDS",
    "OUTBOARD_FUZZ_*",
    "OUTBOARD_TEST_*",
];
/// The flag that names the file.
pub(crate) const CONFIG_FLAG: &str = "--config";
/// The file for all users.
const SYSTEM_FILE: &str = "/etc/outboard.toml";

/// What a configuration is made from: files, variables and flags.
#[derive(Clone, Default)]
pub struct Inputs {
    pub(crate) config: Option<PathBuf>,
    pub(crate) places: Vec<PathBuf>,
    pub(crate) variables: BTreeMap<OsString, OsString>,
    pub(crate) flags: BTreeMap<String, Flag>,
    pub(crate) launcher: Vec<Said>,
}

/// What was given on the command line for one key.
#[derive(Clone)]
pub(crate) struct Flag {
    pub(crate) name: String,
    pub(crate) values: Vec<String>,
}

impl Inputs {
    /// Nothing: everything has its default.
    pub fn empty() -> Self {
        Self::default()
    }

    /// The environment of this process, what its launcher says, and the files where a configuration is looked for.
    pub fn from_process() -> Self {
        let ours = |name: &OsStr| name.as_encoded_bytes().starts_with(VARIABLE_PREFIX.as_bytes());
        Self {
            places: places(|name| env::var_os(name)),
            variables: env::vars_os().filter(|(name, _)| ours(name)).collect(),
            launcher: launcher::from_process(&|name| env::var(name).ok().filter(|value| !value.is_empty())),
            ..Self::default()
        }
    }

    /// With the file that `--config` names; `none` means that no file is read.
    pub fn config(mut self, path: impl Into<PathBuf>) -> Self {
        self.config = Some(path.into());
        self
    }

    /// With one more variable.
    pub fn variable(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.variables.insert(name.into(), value.into());
        self
    }

    /// With a value that `flag` (as the user knows it, with dashes) gave for `key`. A list grows with every
    /// call; of a single value the last counts.
    pub fn flag(mut self, key: &str, flag: &str, value: impl Into<String>) -> Self {
        let given = self
            .flags
            .entry(key.to_owned())
            .or_insert_with(|| Flag { name: String::new(), values: Vec::new() });
        given.name = flag.to_owned();
        given.values.push(value.into());
        self
    }

    /// A variable that is set to something.
    pub(crate) fn get(&self, name: &str) -> Option<&OsStr> {
        self.variables.get(OsStr::new(name)).map(OsString::as_os_str).filter(|value| !value.is_empty())
    }
}

/// Where the configuration file is looked for when the user names none.
fn places(variable: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let folder = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let user = folder("XDG_CONFIG_HOME").or_else(|| folder("HOME").map(|home| home.join(".config")));
    let user = user.map(|folder| folder.join(Path::new("outboard/config.toml")));
    [Some("outboard.toml".into()), user, Some(SYSTEM_FILE.into())].into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places_with(variables: &[(&str, &str)]) -> Vec<String> {
        let find =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into());
        places(find).iter().map(|path| path.display().to_string()).collect()
    }

    #[test]
    fn files_are_looked_for_from_near_to_far() {
        assert_eq!(places_with(&[]), ["outboard.toml", "/etc/outboard.toml"]);
        assert_eq!(
            places_with(&[("HOME", "/h")]),
            ["outboard.toml", "/h/.config/outboard/config.toml", "/etc/outboard.toml"]
        );
        assert_eq!(places_with(&[("HOME", "/h"), ("XDG_CONFIG_HOME", "/x")])[1], "/x/outboard/config.toml");
        assert_eq!(
            places_with(&[("HOME", "/h"), ("XDG_CONFIG_HOME", "")])[1],
            "/h/.config/outboard/config.toml"
        );
    }
}
