//! Files below a server's data directory, and nothing outside it.

mod replace;

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::Path;

use outboard_link::memory::Segment;
use outboard_wire::control::ControlFailure;
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use thiserror::Error;

/// The folder whose files clients may ask for.
pub(crate) struct DataDirectory {
    folder: OwnedFd,
}

/// Why a file was not read or written.
#[derive(Debug, Error)]
pub(crate) enum FileError {
    #[error("this server has no data directory; start it with --data-dir FOLDER")]
    NoDirectory,
    #[error("“{0}” leads out of the data directory: no absolute paths, no .. and no links")]
    Outside(String),
    #[error("there is no file “{0}” below the data directory")]
    Missing(String),
    #[error("“{0}” is not a regular file")]
    NotAFile(String),
    #[error("“{0}” is empty")]
    Empty(String),
    #[error("“{path}” cannot be read: {source}")]
    Unreadable { path: String, source: Errno },
    #[error("“{path}” cannot be written, because it or its folder is read-only: {source}")]
    ReadOnly { path: String, source: Errno },
    #[error("“{path}” could not be written, and is as it was: {source}")]
    Unwritable { path: String, source: Errno },
}

impl FileError {
    /// The kind of this error, for programs.
    pub(crate) fn failure(&self) -> ControlFailure {
        match self {
            Self::ReadOnly { .. } | Self::Unwritable { .. } => ControlFailure::NotWritten,
            _ => ControlFailure::NoSuchFile,
        }
    }
}

/// How every path is followed: the kernel itself keeps it below the folder, so no trick with names or links leads
/// out of it.
const RESOLVE: ResolveFlags =
    ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);

impl DataDirectory {
    /// Opens the folder; later changes of what its path leads to do not matter.
    pub(crate) fn open(path: &Path) -> Result<Self, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self { folder: rustix::fs::open(path, flags, Mode::empty())? })
    }

    /// Opens the file at `path` below the folder, and says how many bytes it has.
    pub(crate) fn file(&self, path: &str) -> Result<(File, u64), FileError> {
        // Opening a pipe must not wait for its other end.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let opened = rustix::fs::openat2(&self.folder, path, flags, Mode::empty(), RESOLVE);
        let file = File::from(opened.map_err(|error| match error {
            Errno::XDEV | Errno::LOOP => FileError::Outside(path.to_owned()),
            Errno::NOENT | Errno::NOTDIR => FileError::Missing(path.to_owned()),
            source => FileError::Unreadable { path: path.to_owned(), source },
        })?);
        let meta = file.metadata().map_err(|error| {
            let source = Errno::from_io_error(&error).unwrap_or(Errno::IO);
            FileError::Unreadable { path: path.to_owned(), source }
        })?;
        match meta.len() {
            _ if !meta.is_file() => Err(FileError::NotAFile(path.to_owned())),
            0 => Err(FileError::Empty(path.to_owned())),
            len => Ok((file, len)),
        }
    }
}

/// A path below the folder in its plainest spelling, by which files are told apart.
pub(crate) fn plain_path(path: &str) -> Result<String, FileError> {
    if path.starts_with('/') {
        return Err(FileError::Outside(path.to_owned()));
    }
    let parts: Vec<&str> = path.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    if parts.contains(&"..") {
        return Err(FileError::Outside(path.to_owned()));
    }
    if parts.is_empty() { Err(FileError::NotAFile(path.to_owned())) } else { Ok(parts.join("/")) }
}

/// How much is read at once.
const PIECE: usize = 1 << 20;

/// Reads the next `len` bytes of a file into a segment that has room for them from `start`.
pub(crate) fn fill(segment: &Segment, file: &mut File, start: u64, len: u64) -> std::io::Result<()> {
    let mut piece = vec![0; PIECE.min(len as usize)];
    let mut done = 0;
    while done < len {
        let most = piece.len().min((len - done) as usize);
        file.read_exact(&mut piece[..most])?;
        segment.window_mut((start + done) as usize, most).write(0, &piece[..most]);
        done += most as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
