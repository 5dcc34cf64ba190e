//! The file that the picture goes to.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use outboard_measure::characterize::{Characterization, chart};
use rustix::fs::{Access, access};

/// A place where a picture can be put, as far as can be told before there is one.
pub(super) struct Picture {
    path: PathBuf,
    folder: PathBuf,
}

impl Picture {
    /// Checks the place: to learn of a typing error after the measurement would be too late.
    pub(super) fn at(path: &Path) -> Result<Self> {
        ensure!(!path.is_dir(), "--svg {}: this is a folder; give the name of a file", path.display());
        ensure!(path.file_name().is_some(), "--svg {}: this is no name of a file", path.display());
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        access(folder, Access::WRITE_OK).with_context(|| {
            format!("--svg {}: no file can be made in {}", path.display(), folder.display())
        })?;
        Ok(Self { path: path.to_owned(), folder: folder.to_owned() })
    }

    /// Draws it. The file is never half of a picture.
    pub(super) fn draw(&self, found: &Characterization) -> Result<()> {
        let draft = self.folder.join(format!(".outboard-chart-{}", std::process::id()));
        let written = fs::write(&draft, chart(found)).and_then(|()| fs::rename(&draft, &self.path));
        if written.is_err() {
            // If it cannot be removed either, the error below says why.
            let _ = fs::remove_file(&draft);
        }
        written.with_context(|| format!("cannot write the picture to {}", self.path.display()))
    }
}
