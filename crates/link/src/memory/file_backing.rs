//! Which parts of a file have room on its file system.

use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::FallocateFlags;

/// The unit in which a sparse file is given room.
const UNIT: usize = 64 << 10;

/// The room behind a segment that is a file. A store to a part without room would be a fault that ends the process when the file
/// system is full: so room is taken before.
pub(super) struct FileBacking {
    len: usize,
    /// Of a file that takes room as it is written: a bit for each unit that is known to have some.
    backed: Option<Box<[AtomicU64]>>,
}

impl FileBacking {
    pub(super) fn new(len: usize, has_room: bool) -> Self {
        let words =
            || std::iter::repeat_with(AtomicU64::default).take(len.div_ceil(UNIT).div_ceil(64)).collect();
        Self { len, backed: (!has_room).then(words) }
    }

    pub(super) fn is_sparse(&self) -> bool {
        self.backed.is_some()
    }

    /// Takes room for bytes that are about to be written. Returns false if there is none.
    #[inline]
    pub(super) fn take_room(&self, file: BorrowedFd<'_>, offset: usize, len: usize) -> bool {
        let Some(backed) = &self.backed else { return true };
        let units = offset / UNIT..(offset + len).min(self.len).div_ceil(UNIT);
        units.into_iter().all(|unit| {
            let (word, bit) = (&backed[unit / 64], 1 << (unit % 64));
            word.load(Ordering::Acquire) & bit != 0 || self.take_unit(file, unit, (word, bit))
        })
    }

    #[cold]
    fn take_unit(&self, file: BorrowedFd<'_>, unit: usize, (word, bit): (&AtomicU64, u64)) -> bool {
        let (start, end) = (unit * UNIT, ((unit + 1) * UNIT).min(self.len));
        let flags = FallocateFlags::KEEP_SIZE;
        let taken = rustix::fs::fallocate(file, flags, start as u64, (end - start) as u64).is_ok();
        if taken {
            word.fetch_or(bit, Ordering::AcqRel);
        }
        taken
    }

    /// The part of a span whose room can be given back as a whole; where none can, an empty one at its end.
    pub(super) fn whole_parts(&self, offset: usize, len: usize) -> Range<usize> {
        let end = offset + len;
        let last = if end >= self.len { self.len } else { end / UNIT * UNIT };
        let first = offset.next_multiple_of(UNIT);
        if self.is_sparse() && first < last { first..last } else { end..end }
    }

    /// The room of whole parts was given back.
    pub(super) fn has_no_room(&self, parts: &Range<usize>) {
        let Some(backed) = &self.backed else { return };
        for unit in parts.start / UNIT..parts.end.div_ceil(UNIT) {
            backed[unit / 64].fetch_and(!(1 << (unit % 64)), Ordering::AcqRel);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;

    use crate::memory::Segment;

    use super::*;

    fn file() -> OwnedFd {
        use rustix::fs::{Mode, OFlags};
        let folder = std::env::temp_dir();
        // A file without a name, or one whose name goes at once.
        rustix::fs::open(&folder, OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR)
            .unwrap_or_else(|_| {
                let path = folder.join(format!("outboard-backing-{}", std::process::id()));
                let flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC;
                let made = rustix::fs::open(&path, flags, Mode::RUSR | Mode::WUSR).unwrap();
                std::fs::remove_file(path).unwrap();
                made
            })
    }

    #[test]
    fn a_sparse_file_takes_room_as_it_is_written_and_gives_whole_units_back() {
        let (file, len) = (file(), 4 * UNIT + 4096);
        rustix::fs::ftruncate(&file, len as u64).unwrap();
        let segment = Segment::of_file(file.try_clone().unwrap(), len, false).unwrap();
        assert_eq!(segment.present().unwrap(), 0);
        assert!(segment.may_be_written(UNIT - 1, 2) && segment.may_be_written(4 * UNIT, 4096));
        assert!(segment.present().unwrap() >= (2 * UNIT + 4096) as u64);
        segment.window_mut(0, len).write(UNIT - 1, &[1, 2]);
        segment.window_mut(0, len).write(4 * UNIT, &[3]);
        let parts = segment.written_parts().unwrap();
        assert!(parts.iter().any(|(start, end)| (*start..*end).contains(&(UNIT as u64))), "{parts:?}");
        // Of the first unit only a part.
        segment.discard(UNIT - 1, len - UNIT + 1);
        assert_eq!(segment.window(0, len).to_vec(), vec![0; len]);
        assert!(segment.present().unwrap() <= UNIT as u64);
        assert!(segment.may_be_written(UNIT, 1));
        segment.settle_part(5, 3).and_then(|()| segment.settle()).unwrap();
        // The next process finds what was written.
        segment.window_mut(0, len).write(77, b"kept");
        drop(segment);
        let again = Segment::of_file(file, len, false).unwrap();
        assert_eq!(&again.window(0, len).array::<4>(77), b"kept");
    }

    #[test]
    fn a_file_with_room_keeps_it() {
        let (file, len) = (file(), 2 * UNIT);
        rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, len as u64).unwrap();
        let segment = Segment::of_file(file, len, true).unwrap();
        segment.window_mut(0, len).write(0, &[7; 100]);
        segment.discard(0, len);
        assert_eq!(segment.window(0, len).to_vec(), vec![0; len]);
        assert!(segment.is_file() && !segment.is_sparse_file() && segment.present().unwrap() >= len as u64);
    }
}
