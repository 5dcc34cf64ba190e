//! The kernel's page map of this process's addresses.
//!
//! Linux 6.18 may move pages and deny it: when `move_pages` has to try a page again (a page under compaction, or one whose
//! entry changes meanwhile), it forgets that the second try succeeded, tries a third time, and answers that the destination
//! exists. The page map tells such a move from one that found its destination full.

use std::fs::File;
use std::os::unix::fs::FileExt;

use outboard_paging::application::{CHUNK_MAX, PAGE};

/// Bits of an entry: the page is in memory, or it is swapped out or on its way to another place in memory.
const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;
/// The size of an entry.
const ENTRY: usize = 8;

/// `/proc/self/pagemap`, opened early: later this process may have no descriptor left or be in a sandbox.
#[derive(Debug)]
pub(super) struct PageMap(Option<File>);

impl PageMap {
    pub(super) fn open() -> Self {
        Self(File::open("/proc/self/pagemap").ok())
    }

    /// How many bytes from the start of `from` have gone to `to`, whatever the kernel answered. The caller knows that `to`
    /// was empty and `from` full, and that no other thread moves pages there.
    pub(super) fn moved(&self, from: usize, to: usize, len: usize) -> usize {
        let page = rustix::param::page_size();
        let has_moved = |at: &usize| self.has(from + at) == Some(false) && self.has(to + at) == Some(true);
        (0..len).step_by(page).take_while(has_moved).count() * page
    }

    /// How many pages of a span there are. `None` if the map cannot be read.
    pub(super) fn count(&self, start: usize, len: usize) -> Option<usize> {
        let page = rustix::param::page_size();
        let mut entries = [0; ENTRY * CHUNK_MAX / PAGE];
        let entries = entries.get_mut(..len / page * ENTRY)?;
        self.0.as_ref()?.read_exact_at(entries, (start / page * ENTRY) as u64).ok()?;
        Some(entries.chunks_exact(ENTRY).filter(|entry| tells_of_page(entry)).count())
    }

    /// Whether there is a page at an address, in memory or swapped out.
    fn has(&self, address: usize) -> Option<bool> {
        Some(self.count(address, rustix::param::page_size())? == 1)
    }
}

/// Whether there is a page, by its entry.
fn tells_of_page(entry: &[u8]) -> bool {
    let mut word = [0; ENTRY];
    word.copy_from_slice(entry);
    u64::from_ne_bytes(word) & (PRESENT | SWAPPED) != 0
}

#[cfg(test)]
mod tests {
    use core::ffi::c_void;
    use core::ptr;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;
    use std::time::{Duration, Instant};

    use outboard_userfaultfd::Wake;
    use rustix::mm::Advice;

    use outboard_link::memory::Buffer;
    use outboard_paging::application::{AddressRange, Faults, Held, PageSpace, ProcessAddress, Span};

    use super::super::Mover;
    use super::super::space::{Space, SpaceConfig};
    use super::*;

    const PAGES: usize = 4;
    const BYTE: u8 = 0x5a;

    /// A chunk that is in its frame, and the place that it can be moved to.
    struct Chunk {
        space: Space,
        _kept: (Buffer, AddressRange),
        frame: usize,
        place: usize,
        len: usize,
    }

    impl Chunk {
        /// `None` if nothing can be moved here.
        fn new() -> Option<Self> {
            let Ok(space) = Space::open(SpaceConfig::default()) else {
                println!("skipped: userfaultfd is not allowed here");
                return None;
            };
            if space.mover() != Mover::Move {
                println!("skipped: this kernel has no UFFDIO_MOVE");
                return None;
            }
            let len = PAGES * rustix::param::page_size();
            let buffer = space.make_frames(len, 1).unwrap();
            let range = space.make_range(len).unwrap();
            buffer.window_mut().write(0, &vec![BYTE; len]);
            let (frame, place) = (buffer.start().addr().get(), range.span().start.get());
            Some(Self { space, _kept: (buffer, range), frame, place, len })
        }

        fn move_in(&self, len: usize) -> Result<(), rustix::io::Errno> {
            // SAFETY: the frame and the place of this chunk, which nothing else uses.
            unsafe { self.space.bring_in(self.frame, self.place, len, Wake::Now) }
        }

        fn move_out(&self, len: usize) -> Result<(), Held> {
            // SAFETY: as above.
            unsafe { self.space.take_out(self.place, self.frame, len) }
        }
    }

    #[test]
    fn only_pages_that_are_there_and_not_here_any_more_have_moved() {
        let Some(chunk) = Chunk::new() else { return };
        let map = PageMap::open();
        let page = rustix::param::page_size();
        let Chunk { frame, place, len, .. } = chunk;
        assert_eq!((map.count(frame, len), map.count(place, len)), (Some(PAGES), Some(0)));
        assert_eq!(map.moved(frame, place, len), 0);
        chunk.move_in(2 * page).unwrap();
        assert_eq!(map.moved(frame, place, len), 2 * page);
        assert_eq!(map.moved(frame + page, place + page, len - page), page);
        assert_eq!(map.moved(place, frame, len), 0);
        // Neither here nor there: it was thrown away, and nothing has moved.
        // SAFETY: what is left in the frame is not wanted.
        unsafe { rustix::mm::madvise(frame as *mut c_void, len, Advice::LinuxDontNeed).unwrap() };
        assert_eq!(map.moved(frame + 2 * page, place + 2 * page, page), 0);
        // A destination that was full is still refused.
        // SAFETY: the first page of the frame, which nothing else uses.
        unsafe { ptr::write_bytes(frame as *mut u8, 0, page) };
        assert!(chunk.move_in(page).is_err());
        assert!(chunk.move_out(page).is_err());
        assert_eq!(PageMap(None).moved(frame, place, len), 0);
    }

    /// The kernel answers to a move that it has made already as it does in its mistake.
    #[test]
    fn a_move_that_the_kernel_has_made_and_denies_counts() {
        let Some(chunk) = Chunk::new() else { return };
        let page = rustix::param::page_size();
        let Chunk { ref space, frame, place, len, .. } = chunk;
        // SAFETY: a byte of the range, which is there until this thread has ended.
        let waiting = thread::spawn(move || unsafe { ptr::read_volatile(place as *const u8) });
        let mut faults = Faults::default();
        while !space.read_faults(&mut faults) {
            thread::yield_now();
        }
        // SAFETY: the frame is full, and its place empty.
        unsafe { space.userfaultfd().relocate(frame, place, 2 * page, Wake::Later).unwrap() };
        let moved = chunk.move_in(len);
        let deadline = Instant::now() + Duration::from_secs(20);
        while moved.is_ok() && !waiting.is_finished() && Instant::now() < deadline {
            thread::yield_now();
        }
        let was_woken = waiting.is_finished();
        space.wake(Span { start: ProcessAddress::new(place), len });
        assert_eq!(waiting.join().unwrap(), BYTE);
        assert_eq!((moved, was_woken), (Ok(()), true));
        // SAFETY: the place is full, and its frame empty.
        unsafe { space.userfaultfd().relocate(place, frame, len, Wake::Later).unwrap() };
        chunk.move_out(len).unwrap();
        let map = PageMap::open();
        assert_eq!((map.count(frame, len), map.count(place, len)), (Some(PAGES), Some(0)));
    }

    /// Advice that clears a bit of the page's entry makes the kernel try a page again, as compaction does.
    #[test]
    fn a_chunk_moves_while_the_kernel_changes_its_entries() {
        const ROUNDS: usize = 100_000;
        let Some(chunk) = Chunk::new() else { return };
        let Chunk { frame, len, .. } = chunk;
        let is_over = AtomicBool::new(false);
        let moved = thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    // SAFETY: changes no contents and takes no page away.
                    let cooled = unsafe { rustix::mm::madvise(frame as *mut c_void, len, Advice::LinuxCold) };
                    assert_eq!(cooled, Ok(()));
                }
            });
            let moved = (0..ROUNDS).try_for_each(|_| {
                chunk.move_in(len).map_err(|errno| format!("in: {errno}"))?;
                loop {
                    match chunk.move_out(len) {
                        Ok(()) => return Ok(()),
                        Err(Held::Busy) => {}
                        Err(held) => return Err(format!("out: {held:?}")),
                    }
                }
            });
            is_over.store(true, Ordering::Relaxed);
            moved
        });
        assert_eq!(moved, Ok(()));
        // SAFETY: the chunk is in its frame, and nothing stores to it.
        let bytes = unsafe { core::slice::from_raw_parts(frame as *const u8, len) };
        assert!(bytes.iter().all(|byte| *byte == BYTE));
    }
}
