//! What is done to the addresses of far memory behind its back, and how that is noticed.
//!
//! Pages that were thrown away are found to be missing when they are touched or are to leave, and are never taken for
//! zeros. Ranges that were unmapped or moved are told by the kernel, and the process ends: their addresses may belong to
//! somebody else, whose pages would be moved to the memory server.

use std::io;
use std::sync::atomic::Ordering;

use super::OnLoss;
use super::pages::{Cell, Pages};
use super::region::PagedRegion;
use super::space::{Change, Faults, FrameSpan, PageSpace, Place, Span};

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

impl<S: PageSpace> Pages<S> {
    /// Looks whether pages of a chunk that is in its region are there. The caller has the lock of its shard.
    pub(super) fn look_at(&self, cell: &mut Cell, (region, index): (&PagedRegion, u32), span: Span) -> Found {
        let Some(place) = region.place(index, cell).map(|place| place.part(span)) else { return Found::Here };
        let can_be_fetched = !region.spec.writable && !region.is_lost();
        if can_be_fetched && !self.space.is_present(place) {
            self.vanish(cell, region, index);
            return Found::Vanished;
        }
        if can_be_fetched || !self.space.has_hole(place) {
            return Found::Here;
        }
        self.tell_of_hole(region, span.start);
        Found::ThrownAway
    }

    /// A thread waits at a page of a chunk that should be in its region. Returns whether the chunk has to be fetched.
    pub(super) fn is_gone(&self, cell: &mut Cell, (region, index): (&PagedRegion, u32), page: Span) -> bool {
        let found = self.look_at(cell, (region, index), page);
        let place = region.place(index, cell).filter(|_| found == Found::Here && !self.space.can_poison());
        if place.is_some_and(|place| !self.space.is_present(place.part(page))) {
            // Whoever waits there would come again and again.
            self.tell_of_hole(region, page.start);
            self.cannot_signal();
        }
        if found == Found::ThrownAway && self.config.on_loss == OnLoss::Exit {
            let name = &region.spec.name;
            self.space.end(&format!("bytes of far memory “{name}” are needed that were thrown away"));
        }
        found == Found::Vanished
    }

    /// A chunk that is the same at the server is not whole any more: the rest goes too, and is fetched when it is needed.
    pub(super) fn vanish(&self, cell: &mut Cell, region: &PagedRegion, index: u32) {
        if let Some(place) = region.place(index, cell) {
            self.space.discard(place);
            cell.shard.vanished(region.key(index));
        }
    }

    fn tell_of_hole(&self, region: &PagedRegion, at: usize) {
        if !region.has_hole.swap(true, Ordering::AcqRel) {
            let name = &region.spec.name;
            let then = match self.config.on_loss {
                OnLoss::Signal => "touching it raises SIGBUS",
                OnLoss::Exit => "whoever needs it ends",
            };
            self.space.say(&format!(
                "outboard: bytes of far memory “{name}” were thrown away near {at:#x} (madvise with MADV_DONTNEED or \
                 MADV_FREE does that; use Advice::DontNeed); what was written there is lost, and {then}\n"
            ));
        }
    }

    /// Ends the process, for its far memory is no longer where it was.
    pub(super) fn end_over(&self, Change { range, moved_to }: &Change) -> ! {
        let how = match moved_to {
            None => "unmapped, or something else was mapped in their place (munmap, mmap, mremap)".to_owned(),
            Some(to) => format!("moved to {to:#x} (mremap)"),
        };
        let region = self.find(range.start).map(|(region, _)| format!("far memory “{}”", region.spec.name));
        let what = region.unwrap_or_else(|| "the buffer of far memory".to_owned());
        let (bytes, start) = (range.len(), range.start);
        self.space.abort(&format!(
            "{bytes} bytes of {what} at {start:#x} were {how}, and what was written there may be lost: drop the object \
             instead; the process ends"
        ));
    }

    /// Ends the process: a page can be neither had nor given back, and whoever waits for it would wait for ever.
    pub(super) fn give_up(
        &self,
        (region, _): (&PagedRegion, u32),
        (where_to, frame): (&str, FrameSpan<'_>),
        place: Place<'_>,
        error: &io::Error,
    ) -> ! {
        // The kernel may have more to say, and refuses everything until somebody has heard it.
        let mut faults = Faults::default();
        while self.hear(&mut faults) {}
        let (name, at) = (&region.spec.name, place.start());
        let why = match error.kind() {
            io::ErrorKind::AlreadyExists => &format!(
                "it would replace other pages ({}); if this program maps nothing at its addresses, report this as a mistake \
                 of Outboard",
                self.space.survey(place, frame)
            ),
            io::ErrorKind::NotFound => {
                "a part of it was thrown away, and with it what was written there (madvise with MADV_DONTNEED or MADV_FREE \
                 does that; use Advice::DontNeed)"
            }
            _ => {
                "its addresses must not be given to mprotect, mlock, madvise or other calls that change mappings"
            }
        };
        self.space.abort(&format!(
            "cannot move a chunk of far memory “{name}” {where_to} its place at {at:#x}: {error}: {why}; the process ends"
        ));
    }
}
