//! Files that only their owner may read.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use crate::KeysError;

/// What is longer is no certificate and no key.
const LEN_MAX: u64 = 1 << 20;

/// Writes new files into a folder, and none if one of them is there already.
pub(crate) fn write_new(folder: &Path, files: &[(&str, String)]) -> Result<(), KeysError> {
    for (name, _) in files {
        let path = folder.join(name);
        if path.symlink_metadata().is_ok() {
            return Err(KeysError::Exists { path });
        }
    }
    let failed =
        |source| KeysError::File { action: "cannot make the folder", path: folder.to_owned(), source };
    // Others may pass through the folders above, so that the keys can be opened to a group later; the umask decides.
    if let Some(above) = folder.parent() {
        DirBuilder::new().recursive(true).mode(0o755).create(above).map_err(failed)?;
    }
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
    for (name, text) in files {
        let path = folder.join(name);
        let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        let written = opened.and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        });
        written.map_err(|source| match source.kind() {
            ErrorKind::AlreadyExists => KeysError::Exists { path },
            _ => KeysError::File { action: "cannot write", path, source },
        })?;
    }
    Ok(())
}

/// The text of a file that cannot be long.
pub(crate) fn read(path: &Path) -> Result<String, KeysError> {
    let failed = |source| KeysError::File { action: "cannot read", path: path.to_owned(), source };
    let facts = fs::metadata(path).map_err(failed)?;
    if !facts.is_file() || facts.len() > LEN_MAX {
        return Err(KeysError::Unfit { path: path.to_owned(), why: "no file, or far too long".to_owned() });
    }
    fs::read_to_string(path).map_err(failed)
}
