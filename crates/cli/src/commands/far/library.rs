//! Where the library lies that is loaded into the program: beside this one.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

const NAME: &str = "liboutboard_preload.so";

/// The library.
pub(super) struct Library {
    path: PathBuf,
}

impl Library {
    /// Finds it beside this program, or where packages put it.
    pub(super) fn find() -> Result<Self> {
        let own =
            std::env::current_exe().context("cannot find this program, beside which the library lies")?;
        let folder = own.parent().context("this program lies in no folder")?;
        let places =
            [folder.join(NAME), folder.join("../lib/outboard").join(NAME), folder.join("deps").join(NAME)];
        match places.iter().find(|place| place.is_file()) {
            // The dynamic linker takes spaces and colons for the ends of names.
            Some(path) if path.to_string_lossy().contains([' ', ':']) => bail!(
                "{} cannot be loaded into a program: its name has a space or a colon in it; move this program and the library to \
                 another folder",
                path.display()
            ),
            Some(path) => Ok(Self { path: path.canonicalize().unwrap_or_else(|_| path.clone()) }),
            None => bail!(
                "{NAME} is not in {}, beside this program: “cargo build --release” builds both, and the package has both",
                folder.display()
            ),
        }
    }

    /// The libraries that are loaded first: this one, and those that are loaded first anyway.
    pub(super) fn before_others(&self) -> OsString {
        let mut all = self.path.clone().into_os_string();
        if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
            all.push(":");
            all.push(others);
        }
        all
    }
}
