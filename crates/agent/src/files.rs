//! Files below a server's data directory, and nothing outside it.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::Path;

use outboard_link::memory::Segment;
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use thiserror::Error;

/// The folder whose files clients may ask for.
pub(crate) struct DataDirectory {
    folder: OwnedFd,
}

/// Why a file was not opened.
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
}

impl DataDirectory {
    /// Opens the folder; later changes of what its path leads to do not matter.
    pub(crate) fn open(path: &Path) -> Result<Self, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self { folder: rustix::fs::open(path, flags, Mode::empty())? })
    }

    /// Opens the file at `path` below the folder, and says how many bytes it has. The kernel itself keeps the
    /// path below the folder, so no trick with names or links leads out of it.
    pub(crate) fn file(&self, path: &str) -> Result<(File, u64), FileError> {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        // Opening a pipe must not wait for its other end.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let opened = rustix::fs::openat2(&self.folder, path, flags, Mode::empty(), resolve);
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

/// How much is read at once.
const PIECE: usize = 1 << 20;

/// Reads `len` bytes of a file into a segment that has room for them.
pub(crate) fn fill(segment: &Segment, mut file: File, len: u64) -> std::io::Result<()> {
    let mut piece = vec![0; PIECE.min(len as usize)];
    let mut done = 0;
    while done < len {
        let most = piece.len().min((len - done) as usize);
        file.read_exact(&mut piece[..most])?;
        segment.window_mut(done as usize, most).write(0, &piece[..most]);
        done += most as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new() -> Self {
            let unique = outboard_link::Identity::new(outboard_wire::Role::Tool, "").incarnation;
            let path = std::env::temp_dir().join(format!("outboard-data-{unique}"));
            std::fs::create_dir_all(path.join("inner")).unwrap();
            Self(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn nothing_leads_out_of_the_folder() {
        let folder = Folder::new();
        std::fs::write(folder.0.join("inner/good"), "graph").unwrap();
        std::fs::write(folder.0.join("empty"), "").unwrap();
        symlink("/etc/passwd", folder.0.join("link")).unwrap();
        symlink("/etc", folder.0.join("linked")).unwrap();
        let data = DataDirectory::open(&folder.0).unwrap();
        assert_eq!(data.file("inner/good").unwrap().1, 5);
        for path in ["../x", "inner/../../x", "/etc/passwd", "link", "linked/passwd"] {
            assert!(matches!(data.file(path), Err(FileError::Outside(_))), "{path}");
        }
        assert!(matches!(data.file("nothing"), Err(FileError::Missing(_))));
        assert!(matches!(data.file("inner"), Err(FileError::NotAFile(_))));
        assert!(matches!(data.file("empty"), Err(FileError::Empty(_))));
        assert!(data.file("").is_err() && data.file("a\0b").is_err());
    }

    #[test]
    fn a_file_fills_a_segment() {
        let folder = Folder::new();
        let bytes: Vec<u8> = (0..3_000_000u32).map(|i| (i % 251) as u8).collect();
        std::fs::write(folder.0.join("big"), &bytes).unwrap();
        let (file, len) = DataDirectory::open(&folder.0).unwrap().file("big").unwrap();
        let segment = Segment::create(c"test", 4 << 20).unwrap();
        fill(&segment, file, len).unwrap();
        assert_eq!(segment.window(0, bytes.len()).to_vec(), bytes);
    }
}
