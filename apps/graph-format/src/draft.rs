//! Files that appear under their name only when they are complete.

use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::ImageWriteError;

/// What becomes of something that has the name already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Existing {
    /// It stays, and writing fails.
    #[default]
    Keep,
    /// It goes, once its successor is complete.
    Replace,
}

/// A file or folder beside its future place; removed if it never gets there.
pub(crate) struct Draft {
    temporary: PathBuf,
    target: PathBuf,
    existing: Existing,
}

impl Draft {
    /// A draft of what will be at the target.
    pub(crate) fn of(target: &Path, existing: Existing) -> Result<Self, ImageWriteError> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let Some(name) = target.file_name() else {
            let source = io::Error::new(io::ErrorKind::InvalidInput, "this is no name of a file");
            return Err(ImageWriteError::Io { path: target.to_owned(), source });
        };
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let suffix = format!(".{}-{number}.partial", std::process::id());
        let hidden = [".".as_ref(), name, suffix.as_ref()].into_iter().collect::<std::ffi::OsString>();
        let draft = Self { temporary: target.with_file_name(hidden), target: target.to_owned(), existing };
        folder_of(target).metadata().map_err(|source| draft.failed(source))?;
        draft.check_target()?;
        Ok(draft)
    }

    fn check_target(&self) -> Result<(), ImageWriteError> {
        match self.target.symlink_metadata() {
            Ok(_) if self.existing == Existing::Keep => {
                Err(ImageWriteError::Exists { path: self.target.clone() })
            }
            Err(source) if source.kind() != io::ErrorKind::NotFound => Err(self.failed(source)),
            _ => Ok(()),
        }
    }

    /// Only a plain file or a link makes room for a file: the name of a device must not be taken from it.
    pub(crate) fn check_file(&self) -> Result<(), ImageWriteError> {
        match self.target.symlink_metadata() {
            Ok(metadata) if !metadata.is_file() && !metadata.is_symlink() => {
                Err(ImageWriteError::NotAFile { path: self.target.clone() })
            }
            _ => Ok(()),
        }
    }

    /// What is removed to make room for a folder must be a folder with no other files than these.
    pub(crate) fn check_replaceable(&self, known_files: &[&str]) -> Result<(), ImageWriteError> {
        match self.target.symlink_metadata().is_err() || has_only(&self.target, known_files) {
            true => Ok(()),
            false => Err(ImageWriteError::NotAnImage { path: self.target.clone() }),
        }
    }

    /// Errors name the place that the user knows.
    fn failed(&self, source: io::Error) -> ImageWriteError {
        ImageWriteError::Io { path: self.target.clone(), source }
    }

    /// Where to write meanwhile.
    pub(crate) fn path(&self) -> &Path {
        &self.temporary
    }

    /// Writes the whole file, and puts it in its place.
    pub(crate) fn write_file(
        self,
        write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
    ) -> Result<(), ImageWriteError> {
        self.check_file()?;
        write_synced(self.path(), write).map_err(|source| self.failed(source))?;
        self.check_target()?;
        fs::rename(&self.temporary, &self.target).map_err(|source| self.failed(source))?;
        sync_folder_of(&self.target).map_err(|source| self.failed(source))
    }

    /// Puts a complete folder in its place.
    pub(crate) fn place_folder(self, known_files: &[&str]) -> Result<(), ImageWriteError> {
        self.check_target()?;
        sync(&self.temporary).map_err(|source| self.failed(source))?;
        if self.target.symlink_metadata().is_err() {
            fs::rename(&self.temporary, &self.target).map_err(|source| self.failed(source))?;
            return sync_folder_of(&self.target).map_err(|source| self.failed(source));
        }
        self.check_replaceable(known_files)?;
        let mut old = self.temporary.clone().into_os_string();
        old.push(".replaced");
        let replace = || {
            fs::rename(&self.target, &old)?;
            if let Err(error) = fs::rename(&self.temporary, &self.target) {
                fs::rename(&old, &self.target)?;
                return Err(error);
            }
            sync_folder_of(&self.target)?;
            fs::remove_dir_all(&old)
        };
        replace().map_err(|source| self.failed(source))
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // Nothing is left of a draft that has its place; of another, whatever can be removed is.
        let _ = match self.temporary.is_dir() {
            true => fs::remove_dir_all(&self.temporary),
            false => fs::remove_file(&self.temporary),
        };
    }
}

/// Writes a file to the disk itself, so that no crash can leave a part of it under the final name.
pub(crate) fn write_synced(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> io::Result<()> {
    let mut file = BufWriter::with_capacity(1 << 20, File::create_new(path)?);
    write(&mut file)?;
    file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
}

fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

fn sync_folder_of(path: &Path) -> io::Result<()> {
    sync(folder_of(path))
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Whether this is a folder of which every file is known.
fn has_only(folder: &Path, known_files: &[&str]) -> bool {
    let is_folder = folder.symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
    is_folder
        && fs::read_dir(folder).is_ok_and(|mut files| {
            files.all(|file| file.is_ok_and(|file| known_files.iter().any(|name| file.file_name() == *name)))
        })
}
