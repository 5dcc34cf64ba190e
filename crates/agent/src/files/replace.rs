//! Files that are written: as a whole or not at all.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;

use outboard_link::memory::Segment;
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::{DataDirectory, FileError, PIECE, RESOLVE};

impl DataDirectory {
    /// Puts the first `len` bytes of `segment` in place of the file at `path`. A process that opens the file sees the old
    /// bytes or the new ones, whenever the machine stops; when this returns, the new ones are on the disk.
    pub(crate) fn replace(&self, path: &str, segment: &Segment, len: u64) -> Result<(), FileError> {
        let (folder, name) = path.rsplit_once('/').unwrap_or((".", path));
        if matches!(name, "" | "." | "..") {
            return Err(FileError::Outside(path.to_owned()));
        }
        let no = |source: Errno| unwritable(path, source);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::openat2(&self.folder, folder, flags, Mode::empty(), RESOLVE).map_err(no)?;
        let mode = mode_of(&folder, name, path)?;
        let draft = Draft::create(&folder, name).map_err(no)?;
        let os = |error: io::Error| no(Errno::from_io_error(&error).unwrap_or(Errno::IO));
        draft.fill(segment, len).map_err(os)?;
        rustix::fs::fchmod(&draft.file, mode).map_err(no)?;
        draft.file.sync_all().map_err(os)?;
        draft.put_in_place(name).map_err(no)?;
        rustix::fs::fsync(&folder).map_err(no)
    }
}

/// Who may use the file that is there, if it is one that we may write. To replace it needs only its folder, but
/// the user who made it read-only wants it to stay as it is.
fn mode_of(folder: &OwnedFd, name: &str, path: &str) -> Result<Mode, FileError> {
    let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = match rustix::fs::openat2(folder, name, flags, Mode::empty(), RESOLVE) {
        Ok(file) => file,
        Err(Errno::NOENT) => return Ok(Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH),
        Err(source) => return Err(unwritable(path, source)),
    };
    let stat = rustix::fs::fstat(&file).map_err(|source| unwritable(path, source))?;
    match rustix::fs::FileType::from_raw_mode(stat.st_mode) {
        rustix::fs::FileType::RegularFile => Ok(Mode::from_raw_mode(stat.st_mode)),
        _ => Err(FileError::NotAFile(path.to_owned())),
    }
}

fn unwritable(path: &str, source: Errno) -> FileError {
    let path = path.to_owned();
    match source {
        Errno::XDEV | Errno::LOOP => FileError::Outside(path),
        Errno::NOENT | Errno::NOTDIR => FileError::Missing(path),
        Errno::ISDIR | Errno::NXIO => FileError::NotAFile(path),
        Errno::ACCESS | Errno::PERM | Errno::ROFS => FileError::ReadOnly { path, source },
        source => FileError::Unwritable { path, source },
    }
}

/// A file in the making, beside the one whose place it will take. One that did not get there is removed.
struct Draft<'a> {
    folder: &'a OwnedFd,
    name: String,
    file: File,
    is_in_place: bool,
}

impl<'a> Draft<'a> {
    fn create(folder: &'a OwnedFd, name: &str) -> Result<Self, Errno> {
        // Only one of a process writes a file at a time, so whatever else is there was left by one that was killed.
        let name = format!(".{name}.outboard-{}", std::process::id());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let create = || rustix::fs::openat2(folder, &name, flags, Mode::RUSR | Mode::WUSR, RESOLVE);
        let file = match create() {
            Err(Errno::EXIST) => {
                rustix::fs::unlinkat(folder, &name, AtFlags::empty())?;
                create()?
            }
            other => other?,
        };
        Ok(Self { folder, name, file: File::from(file), is_in_place: false })
    }

    fn fill(&self, segment: &Segment, len: u64) -> io::Result<()> {
        let mut piece = vec![0; PIECE.min(len as usize)];
        let mut done = 0;
        while done < len {
            let most = piece.len().min((len - done) as usize);
            segment.window(done as usize, most).read(0, &mut piece[..most]);
            (&self.file).write_all(&piece[..most])?;
            done += most as u64;
        }
        Ok(())
    }

    fn put_in_place(mut self, name: &str) -> Result<(), Errno> {
        rustix::fs::renameat(self.folder, &self.name, self.folder, name)?;
        self.is_in_place = true;
        Ok(())
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        if !self.is_in_place {
            // If it cannot be removed either, the next one to write this file tries again.
            let _ = rustix::fs::unlinkat(self.folder, &self.name, AtFlags::empty());
        }
    }
}
