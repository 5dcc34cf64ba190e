//! What is done to the addresses of far memory behind its back, and how that is noticed.
//!
//! Pages that were thrown away are found to be missing when they are touched or are to leave, and are never taken for
//! zeros. Ranges that were unmapped or moved are told by the kernel, and the process ends: their addresses may belong to
//! somebody else, whose pages would be moved to the memory server.

use std::sync::atomic::Ordering;

use outboard_paging::pager::ChunkKey;
use outboard_userfaultfd::{Change, Messages};
use rustix::io::Errno;

use super::losses::end_process;
use super::pages::Cell;
use super::region::PagedRegion;
use super::service::say;
use super::{OnLoss, Pages};

/// Whether pages of a chunk that is in its region are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// They are.
    Here,
    /// They were thrown away, and with them the rest of the chunk, which can be fetched again.
    Vanished,
    /// They were thrown away, and what was written there is lost.
    ThrownAway,
}

impl Pages {
    /// Looks whether pages of a chunk that is in its region are there. The caller has the lock of its shard.
    pub(super) fn look_at(
        &self,
        cell: &mut Cell,
        (region, index): (&PagedRegion, u32),
        (start, len): (usize, usize),
    ) -> Found {
        let can_be_fetched = !region.spec.writable && !region.is_lost();
        if can_be_fetched && !self.space.is_in_memory(start, len) {
            self.vanish(cell, region, index);
            return Found::Vanished;
        }
        if can_be_fetched || !self.space.has_hole(start, len) {
            return Found::Here;
        }
        self.tell_of_hole(region, start);
        Found::ThrownAway
    }

    /// A thread waits at a page of a chunk that should be in its region. Returns whether the chunk has to be fetched.
    pub(super) fn is_gone(&self, cell: &mut Cell, (region, index): (&PagedRegion, u32), page: usize) -> bool {
        let page_bytes = rustix::param::page_size();
        let found = self.look_at(cell, (region, index), (page, page_bytes));
        if found == Found::Here && !self.space.can_poison() && !self.space.is_in_memory(page, page_bytes) {
            // Whoever waits there would come again and again.
            self.tell_of_hole(region, page);
            self.cannot_signal();
        }
        if found == Found::ThrownAway && self.config.on_loss == OnLoss::Exit {
            let name = &region.spec.name;
            end_process(&format!("bytes of far memory “{name}” are needed that were thrown away"));
        }
        found == Found::Vanished
    }

    /// A chunk that is the same at the server is not whole any more: the rest goes too, and is fetched when it is needed.
    pub(super) fn vanish(&self, cell: &mut Cell, region: &PagedRegion, index: u32) {
        self.space.discard(region.place(index), region.chunk_bytes());
        cell.shard.vanished(ChunkKey { region: region.number, index });
    }

    fn tell_of_hole(&self, region: &PagedRegion, at: usize) {
        if !region.has_hole.swap(true, Ordering::AcqRel) {
            let name = &region.spec.name;
            let then = match self.config.on_loss {
                OnLoss::Signal => "touching it raises SIGBUS",
                OnLoss::Exit => "whoever needs it ends",
            };
            say(&format!(
                "outboard: bytes of far memory “{name}” were thrown away near {at:#x} (madvise with MADV_DONTNEED or \
                 MADV_FREE does that; use Advice::DontNeed); what was written there is lost, and {then}\n"
            ));
        }
    }

    /// A thread waits at an address that is no region's. Nothing is mapped there any more, or somebody has enlarged the mapping
    /// of a region.
    pub(super) fn fault_elsewhere(&self, page: usize) {
        let page_bytes = rustix::param::page_size();
        // Whoever moves a range goes on when that was read, and may come here before the process has been ended for it.
        if self.hearing.load(Ordering::Acquire) == 0 {
            self.space.poison(page, page_bytes);
        }
        self.space.wake(page, page_bytes);
    }

    /// Takes what the kernel has to tell. Returns false if there is nothing.
    pub(super) fn hear(&self, messages: &mut Messages) -> bool {
        self.hearing.fetch_add(1, Ordering::AcqRel);
        let has_something = self.space.read(messages);
        if has_something && let Some(change) = messages.changes().next() {
            self.end_over(&change);
        }
        self.hearing.fetch_sub(1, Ordering::AcqRel);
        has_something
    }

    /// Ends the process, for its far memory is no longer where it was.
    fn end_over(&self, change: &Change) -> ! {
        let (range, how) = match change {
            Change::Unmapped { range } => (
                range,
                "unmapped, or something else was mapped in their place (munmap, mmap, mremap)".to_owned(),
            ),
            Change::Moved { range, to } => (range, format!("moved to {to:#x} (mremap)")),
        };
        let region = self.find(range.start).map(|(region, _)| format!("far memory “{}”", region.spec.name));
        let what = region.unwrap_or_else(|| "the buffer of far memory".to_owned());
        let (bytes, start) = (range.len(), range.start);
        say(&format!(
            "outboard: {bytes} bytes of {what} at {start:#x} were {how}, and what was written there may be lost: drop the \
             object instead; the process ends\n"
        ));
        std::process::abort();
    }

    /// Ends the process: a page can be neither had nor given back, and whoever waits for it would wait for ever.
    pub(super) fn give_up(
        &self,
        (region, index): (&PagedRegion, u32),
        (where_to, frame): (&str, usize),
        errno: Errno,
    ) -> ! {
        // The kernel may have more to say, and refuses everything until somebody has heard it.
        let mut messages = Messages::default();
        while self.hear(&mut messages) {}
        let (name, place) = (&region.spec.name, region.place(index));
        let why = match errno {
            Errno::EXIST => &format!(
                "it would replace other pages ({}); if this program maps nothing at its addresses, report this as a mistake \
                 of Outboard",
                self.space.survey(place, frame, region.chunk_bytes())
            ),
            Errno::NOENT => {
                "a part of it was thrown away, and with it what was written there (madvise with MADV_DONTNEED or MADV_FREE \
                 does that; use Advice::DontNeed)"
            }
            _ => {
                "its addresses must not be given to mprotect, mlock, madvise or other calls that change mappings"
            }
        };
        say(&format!(
            "outboard: cannot move a chunk of far memory “{name}” {where_to} its place at {place:#x}: {errno}: {why}; the \
             process ends\n"
        ));
        std::process::abort();
    }
}
