//! The mistakes that are made with the addresses of far memory behind its back, and how they are noticed.
//!
//! Pages that were thrown away are found to be missing when they are touched or are to leave, and are never taken for
//! zeros. Ranges that were unmapped or moved are told by the kernel, and the process ends: their addresses may belong to
//! another mapping, whose pages would be moved to the memory server.

use std::io;
use std::sync::atomic::Ordering;

use super::OnLoss;
use super::chunks::ChunkKey;
use super::pages::{Cell, Pages};
use super::region::PagedRegion;
use super::space::{Change, Faults, FrameSpan, PageSpace, Place, ProcessAddress, Span};

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
    pub(super) fn look_at(
        &self,
        cell: &mut Cell,
        (region, key): (&PagedRegion, ChunkKey),
        span: Span,
    ) -> Found {
        let Some(place) = region.place(key, cell).map(|place| place.part(span)) else { return Found::Here };
        let can_be_fetched = !region.spec.writable && !region.is_lost();
        if can_be_fetched && !self.space.is_present(place) {
            self.vanish(cell, region, key);
            return Found::Vanished;
        }
        if can_be_fetched || !self.space.has_hole(place) {
            return Found::Here;
        }
        self.tell_of_hole(region, span.start);
        Found::ThrownAway
    }

    /// A thread waits at a page of a chunk that should be in its region. Returns what has become of it.
    pub(super) fn miss(&self, cell: &mut Cell, (region, key): (&PagedRegion, ChunkKey), page: Span) -> Found {
        let found = self.look_at(cell, (region, key), page);
        let place = region.place(key, cell).filter(|_| found == Found::Here && !self.space.can_poison());
        if place.is_some_and(|place| !self.space.is_present(place.part(page))) {
            // A thread that waits there would come again and again.
            self.tell_of_hole(region, page.start);
            self.cannot_signal();
        }
        if found == Found::ThrownAway && self.config.on_loss == OnLoss::Exit {
            let name = &region.spec.name;
            self.space.end(&format!("bytes of far memory “{name}” are needed that were thrown away"));
        }
        found
    }

    /// A chunk that is the same at the server is not whole any more: the rest goes too, and is fetched when it is needed.
    pub(super) fn vanish(&self, cell: &mut Cell, region: &PagedRegion, key: ChunkKey) {
        if let Some(place) = region.place(key, cell) {
            self.space.discard(place);
            cell.shard.vanished(key);
        }
    }

    fn tell_of_hole(&self, region: &PagedRegion, at: ProcessAddress) {
        if !region.has_hole.swap(true, Ordering::AcqRel) {
            let name = &region.spec.name;
            let then = match self.config.on_loss {
                OnLoss::Signal => "touching it raises SIGBUS",
                OnLoss::Exit => "the process ends when it needs that",
            };
            self.space.say(&format!(
                "outboard: bytes of far memory “{name}” were thrown away near {at} (madvise with MADV_DONTNEED or \
                 MADV_FREE does that; use Advice::DontNeed); what was written there is lost, and {then}\n"
            ));
        }
    }

    /// Ends the process, for its far memory is no longer where it was.
    pub(super) fn end_over(&self, Change { span, moved_to }: &Change) -> ! {
        let how = match moved_to {
            None => "unmapped, or something else was mapped in their place (munmap, mmap, mremap)".to_owned(),
            Some(to) => format!("moved to {to} (mremap)"),
        };
        let region = self.find(span.start).map(|(region, _)| format!("far memory “{}”", region.spec.name));
        let what = region.unwrap_or_else(|| "the buffer of far memory".to_owned());
        let Span { start, len: bytes } = span;
        self.space.abort(&format!(
            "{bytes} bytes of {what} at {start} were {how}, and what was written there may be lost: drop the object \
             instead; the process ends"
        ));
    }

    /// Ends the process: a page can be neither had nor given back, and a thread that waits for it would wait for ever.
    pub(super) fn give_up(
        &self,
        region: &PagedRegion,
        (where_to, frame): (&str, FrameSpan<'_>),
        place: Place<'_>,
        error: &io::Error,
    ) -> ! {
        // The kernel may have more to say, and refuses everything until a fault thread has heard it.
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
            _ => "its addresses must not be given to calls that change mappings, other than mprotect",
        };
        self.space.abort(&format!(
            "cannot move a chunk of far memory “{name}” {where_to} its place at {at}: {error}: {why}; the process ends"
        ));
    }
}
