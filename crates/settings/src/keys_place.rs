//! Where a node's keys are.

use std::env;
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use outboard_link::tcp::{CERTIFICATE_FILE, KEY_FILE};

use crate::literal::NONE;
use crate::value::Value;
use crate::{Literal, ValueError};

/// Where the folder with a node's keys is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeysPlace {
    /// Where they are looked for, if they are there.
    Auto,
    /// There are none.
    None,
    /// There, and it is an error if they are not.
    At(PathBuf),
}

/// The keys for all users.
const SYSTEM_FOLDER: &str = "/etc/outboard/keys";
const AUTO: &str = "auto";

impl KeysPlace {
    /// The folders in which keys are looked for: the user's own, and that for all users.
    pub fn places() -> Vec<PathBuf> {
        let of_user = env::var_os("XDG_CONFIG_HOME")
            .map(PathBuf::from)
            .filter(|folder| folder.is_absolute())
            .or_else(|| env::var_os("HOME").map(|home| PathBuf::from(home).join(".config")));
        let of_user = of_user.map(|folder| folder.join("outboard/keys"));
        of_user.into_iter().chain([PathBuf::from(SYSTEM_FOLDER)]).collect()
    }

    /// The first folder with keys that this user may read. If there is none, the first with keys that this user may not
    /// read: who needs them is told so, rather than that there are none.
    pub fn find() -> Option<PathBuf> {
        let first = |wanted: bool| Self::places().into_iter().find(|folder| can_read(folder) == Some(wanted));
        first(true).or_else(|| first(false))
    }
}

/// Whether this user may read the keys in a folder. Nothing if there are none.
pub(crate) fn can_read(folder: &Path) -> Option<bool> {
    match File::open(folder.join(CERTIFICATE_FILE)) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => None,
        certificate => Some(certificate.is_ok() && File::open(folder.join(KEY_FILE)).is_ok()),
    }
}

impl Value for KeysPlace {
    const KIND: &'static str = "folder";
    const EXAMPLE: &'static str = "a path such as \"/etc/outboard/keys\", auto or none";

    fn read(literal: &Literal) -> Result<Self, ValueError> {
        match Self::text(literal)? {
            "" => Err(Self::unfit("", "it is empty")),
            AUTO => Ok(Self::Auto),
            NONE => Ok(Self::None),
            path => Ok(Self::At(path.into())),
        }
    }

    fn show(&self) -> Literal {
        match self {
            Self::Auto => Literal::text(AUTO),
            Self::None => Literal::text(NONE),
            Self::At(folder) => Literal::text(folder.display()),
        }
    }
}
