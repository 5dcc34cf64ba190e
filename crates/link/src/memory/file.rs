//! Segments that are files, which outlive their processes; and parts of segments that are given back.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{OFlags, SeekFrom};
use rustix::io::Errno;

use super::SegmentAccess;
use super::file_backing::FileBacking;
use super::segment::{AdoptError, NEEDED_SEALS, Segment, map};
use crate::Violation;

/// The zeros that are written where memory cannot be given back.
const ZEROS: [u8; 512] = [0; 512];

impl Segment {
    fn backed_by(mut self, file: FileBacking) -> Self {
        self.file = Some(file);
        self
    }

    /// Maps the first `len` bytes of a file of this process's own, to read and write: they are there for the next process that
    /// does so. Unless all of it `has_room` on its file system, room is taken as parts are written, so that a full one is an
    /// error and no fault.
    ///
    /// A file cannot be sealed: a process that is given its descriptor could cut it off under us, so links give it to none but
    /// those who could end this process as well.
    pub fn of_file(descriptor: OwnedFd, len: usize, has_room: bool) -> Result<Self, Errno> {
        let start = map(descriptor.as_fd(), len, SegmentAccess::ReadWrite)?;
        let file = FileBacking::new(len, has_room);
        Ok(Self::new(descriptor, start, len, SegmentAccess::ReadWrite).backed_by(file))
    }

    /// Whether a descriptor is of memory that no process can shrink or grow.
    pub fn is_sealed(descriptor: &OwnedFd) -> bool {
        rustix::fs::fcntl_get_seals(descriptor).is_ok_and(|seals| seals.contains(NEEDED_SEALS))
    }

    /// Maps a file of a process that is trusted not to cut it off, to write if its descriptor allows that.
    pub fn adopt_file(descriptor: OwnedFd, len: usize) -> Result<(Self, SegmentAccess), AdoptError> {
        let state = rustix::fs::fstat(&descriptor)?;
        let is_file = rustix::fs::FileType::from_raw_mode(state.st_mode) == rustix::fs::FileType::RegularFile;
        if !is_file || state.st_size < len as i64 || len == 0 {
            return Err(Violation::Segment("not a file of the announced size").into());
        }
        let may_write = rustix::fs::fcntl_getfl(&descriptor)? & OFlags::ACCMODE == OFlags::RDWR;
        let access = if may_write { SegmentAccess::ReadWrite } else { SegmentAccess::Read };
        let start = map(descriptor.as_fd(), len, access)?;
        let file = FileBacking::new(len, true);
        Ok((Self::new(descriptor, start, len, access).backed_by(file), access))
    }

    /// Whether it is a file, which outlives its processes and cannot be sealed.
    #[inline]
    pub fn is_file(&self) -> bool {
        self.file.is_some()
    }

    /// Whether it is a file whose parts are given room as they are written: a process that writes to it past
    /// [`may_be_written`](Self::may_be_written) faults when the file system is full.
    pub fn is_sparse_file(&self) -> bool {
        self.file.as_ref().is_some_and(FileBacking::is_sparse)
    }

    /// Takes room on the file system for bytes that are about to be written. Returns false if there is none.
    #[inline]
    pub(super) fn take_file_room(&self, offset: usize, len: usize) -> Option<bool> {
        self.file.as_ref().map(|file| file.take_room(self.descriptor.as_fd(), offset, len))
    }

    /// Has what was written to a file so far brought to its disk.
    pub fn settle(&self) -> Result<(), Errno> {
        if self.is_file() { rustix::fs::fdatasync(&self.descriptor) } else { Ok(()) }
    }

    /// Has some bytes of a file brought to its disk.
    pub fn settle_part(&self, offset: usize, len: usize) -> Result<(), Errno> {
        if !self.is_file() || len == 0 {
            return Ok(());
        }
        let page = rustix::param::page_size();
        let start = offset / page * page;
        let end = (offset + len).min(self.len());
        // SAFETY: the part lies in the mapping, which lasts as long as `self`; nothing of it changes.
        unsafe {
            let at = self.start().as_ptr().add(start).cast();
            rustix::mm::msync(at, end - start, rustix::mm::MsyncFlags::SYNC)
        }
    }

    /// The next part that has bytes, from `offset` on: where it begins and ends. What lies between such parts is zero. If there is
    /// none, it is empty and at the end.
    pub fn next_written(&self, offset: u64) -> Result<(u64, u64), Errno> {
        let len = self.len() as u64;
        let start = match rustix::fs::seek(&self.descriptor, SeekFrom::Data(offset)) {
            Ok(start) if start < len => start,
            Ok(_) | Err(Errno::NXIO) => return Ok((len, len)),
            Err(error) => return Err(error),
        };
        let end = rustix::fs::seek(&self.descriptor, SeekFrom::Hole(start))?;
        Ok((start, end.min(len)))
    }

    /// All parts that have bytes, each with where it begins and ends.
    pub fn written_parts(&self) -> Result<Vec<(u64, u64)>, Errno> {
        let (mut parts, mut at) = (Vec::new(), 0);
        loop {
            match self.next_written(at)? {
                (start, end) if start < end => {
                    parts.push((start, end));
                    at = end;
                }
                _ => return Ok(parts),
            }
        }
    }

    /// Makes a part of it zero, and gives back the memory of its pages. Those who have it mapped see zeros there. A file keeps
    /// the room that was promised, and gives back what was taken as it was written.
    ///
    /// # Panics
    /// If it is not inside the segment.
    pub fn discard(&self, offset: usize, len: usize) {
        let Some(file) = &self.file else { return self.give_back(offset, len) };
        let whole = file.whole_parts(offset, len);
        self.fill_with_zeros(offset, whole.start - offset);
        if !whole.is_empty() {
            self.give_back(whole.start, whole.len());
            file.has_no_room(&whole);
        }
        self.fill_with_zeros(whole.end, offset + len - whole.end);
    }

    fn give_back(&self, offset: usize, len: usize) {
        // Where its pages are larger than the part, zeros do as well.
        if self.advise((offset, len), libc::MADV_REMOVE).is_err() {
            self.fill_with_zeros(offset, len);
        }
    }

    fn fill_with_zeros(&self, offset: usize, len: usize) {
        let mut window = self.window_mut(offset, len);
        for from in (0..len).step_by(ZEROS.len()) {
            window.write(from, &ZEROS[..ZEROS.len().min(len - from)]);
        }
    }
}
