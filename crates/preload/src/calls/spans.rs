//! The mappings of the program that are in far memory.
//!
//! A chunk is free as long as none of its pages is mapped. Pages that are unmapped are made zero and are not to be touched before
//! their chunk may be taken again; until then they *leave*.

use core::ops::Range;
use std::collections::BTreeMap;

use outboard::PageProtection;

use super::Errno;
use crate::far::{CHUNK, Far};
use crate::lock::Lock;
use crate::ranges::Ranges;
use crate::room::{Content, Room};

struct Spans {
    /// Addresses of pages that are mapped.
    mapped: Ranges,
    leaving: Ranges,
    room: Room,
    /// Chunks behind a mapping into which it may grow, by the first of them: up to which.
    spare: BTreeMap<u32, u32>,
}

static SPANS: Lock<Spans> = Lock::new(Spans {
    mapped: Ranges::empty(),
    leaving: Ranges::empty(),
    room: Room::empty(),
    spare: BTreeMap::new(),
});

impl Spans {
    /// Whether pages of a range are in use.
    fn is_used(&self, range: &Range<usize>) -> bool {
        self.mapped.touches(range) || self.leaving.touches(range)
    }

    /// A range with what is beside it in its first and last chunk, as far as that is not in use.
    fn with_rest(&self, range: &Range<usize>) -> Range<usize> {
        let (first, last) = (range.start / CHUNK * CHUNK, range.end.next_multiple_of(CHUNK));
        let start = if self.is_used(&(first..range.start)) { range.start } else { first };
        let end = if self.is_used(&(range.end..last)) { range.end } else { last };
        start..end
    }

    /// Gives the chunks back that a range has touched, as far as nothing of them is in use.
    fn give_unused(&mut self, far: &Far, range: &Range<usize>) {
        let mut chunks = far.chunk(range.start)..far.chunk(range.end - 1) + 1;
        let addresses = far.addresses(&chunks);
        if self.is_used(&(addresses.start..addresses.start + CHUNK)) {
            chunks.start += 1;
        }
        if chunks.start < chunks.end && self.is_used(&(addresses.end - CHUNK..addresses.end)) {
            chunks.end -= 1;
        }
        if chunks.is_empty() {
            return;
        }
        if let Some(end) = self.spare.remove(&chunks.end) {
            self.room.give(chunks.end..end, Content::Zero);
        }
        self.room.give(chunks, Content::Zero);
    }
}

/// Begins to take mappings from these chunks, which may not be touched yet.
pub(crate) fn begin(chunks: Range<u32>) {
    SPANS.lock().room.give(chunks, Content::Zero);
}

/// Holds what is known of mappings.
pub(crate) fn hold() {
    SPANS.hold();
}

/// Lets it go.
pub(crate) fn release() {
    SPANS.release();
}

/// Maps so many bytes of pages, with addresses behind them for `spare` more if there are any. Nothing if there is no room.
pub(super) fn map(far: &Far, len: usize, spare: usize, protection: PageProtection) -> Option<usize> {
    let chunks_of = |bytes: usize| u32::try_from(bytes.div_ceil(CHUNK)).ok();
    let (count, all) = (chunks_of(len)?, chunks_of(len.checked_add(spare)?)?);
    let range = {
        let mut spans = SPANS.lock();
        let longer = spans.room.take(all, Content::Zero);
        let is_longer = longer.is_some();
        let taken = longer.or_else(|| spans.room.take(count, Content::Zero))?;
        if is_longer && all > count {
            spans.spare.insert(taken.start + count, taken.start + all);
        }
        let start = far.addresses(&(taken.start..taken.start)).start;
        spans.mapped.insert(start..start + len);
        start..start + len
    };
    if far.protect(&range, protection).is_err() {
        unmap(far, &range);
        return None;
    }
    Some(range.start)
}

/// Unmaps pages, as far as they are mapped.
pub(super) fn unmap(far: &Far, range: &Range<usize>) {
    for part in leave(range) {
        let whole = SPANS.lock().with_rest(&part);
        // SAFETY: the program uses what it unmaps no more, and no thread uses what is beside it.
        let discarded = unsafe { far.discard(&whole) };
        let closed = far.protect(&part, PageProtection::None);
        if discarded.is_ok() && closed.is_ok() {
            let mut spans = SPANS.lock();
            spans.leaving.remove(&part);
            spans.give_unused(far, &part);
        }
        // What could not be discarded is not zero: it stays out of use.
    }
}

/// Takes pages out of those that are mapped. They leave from now on.
fn leave(range: &Range<usize>) -> Vec<Range<usize>> {
    let mut spans = SPANS.lock();
    let parts = spans.mapped.remove(range);
    parts.iter().for_each(|part| spans.leaving.insert(part.clone()));
    parts
}

/// Maps pages at their place, over what is mapped there.
pub(super) fn map_at(far: &Far, range: &Range<usize>, protection: PageProtection) -> Result<(), Errno> {
    {
        let mut spans = SPANS.lock();
        spans.mapped.remove(range);
        spans.leaving.insert(range.clone());
        let chunks = far.chunk(range.start)..far.chunk(range.end - 1) + 1;
        // Into what was kept free there no mapping grows any more.
        let kept: Vec<(u32, u32)> =
            spans.spare.range(..chunks.end).map(|(start, end)| (*start, *end)).collect();
        for (start, end) in kept.into_iter().filter(|(_, end)| *end > chunks.start) {
            spans.spare.remove(&start);
            spans.room.give(start..end, Content::Zero);
        }
        spans.room.take_free(chunks);
    }
    let cleared = clear(far, range).and_then(|()| far.protect(range, protection).map_err(|_| libc::ENOMEM));
    let mut spans = SPANS.lock();
    spans.leaving.remove(range);
    spans.mapped.insert(range.clone());
    cleared
}

/// Makes the bytes of pages zero.
pub(super) fn clear(far: &Far, range: &Range<usize>) -> Result<(), Errno> {
    // SAFETY: the program says that it needs what is there no longer.
    if unsafe { far.discard(range) }.is_ok() {
        return Ok(());
    }
    // The memory server is away. What is here, and what comes, can be filled with zeros all the same.
    let page_at = |start: usize| start..start + crate::far::PAGE;
    for page in range.clone().step_by(crate::far::PAGE).map(page_at) {
        let protection = far.protection_at(page.start);
        far.protect(&page, PageProtection::ReadWrite).map_err(|_| libc::ENOMEM)?;
        // SAFETY: a page of the mapping, which may be written now; the rest as above.
        unsafe { core::ptr::write_bytes(page.start as *mut u8, 0, page.len()) };
        far.protect(&page, protection).map_err(|_| libc::ENOMEM)?;
    }
    Ok(())
}

/// Whether all pages of a range are mapped.
pub(super) fn covers(range: &Range<usize>) -> bool {
    SPANS.lock().mapped.covers(range)
}

/// Whether any page of a range is mapped.
pub(super) fn touches(range: &Range<usize>) -> bool {
    SPANS.lock().mapped.touches(range)
}

/// The parts of a range that are mapped.
pub(super) fn mapped(range: &Range<usize>) -> Vec<Range<usize>> {
    SPANS.lock().mapped.parts(range)
}

/// Makes a mapping longer in its place. Returns whether there was room.
pub(super) fn extend(far: &Far, old: &Range<usize>, end: usize) -> bool {
    let more = old.end..end;
    let taken = {
        let mut spans = SPANS.lock();
        let next = old.end.next_multiple_of(CHUNK);
        // The rest of its last chunk is its own, unless the program has put something there.
        if spans.is_used(&(old.end..next.min(end))) {
            return false;
        }
        let wanted = far.chunk(next)..far.chunk(next.max(end) + CHUNK - 1);
        let spare = spans.spare.get(&wanted.start).copied().unwrap_or(wanted.start);
        let beyond = spare.max(wanted.start)..wanted.end.max(spare);
        let has_room = beyond.is_empty() || spans.room.take_at(beyond, true);
        if has_room && !wanted.is_empty() {
            spans.spare.remove(&wanted.start);
            if spare > wanted.end {
                spans.spare.insert(wanted.end, spare);
            }
        }
        if has_room {
            spans.mapped.insert(more.clone());
        }
        has_room
    };
    if taken && far.protect(&more, far.protection_at(old.start)).is_err() {
        unmap(far, &more);
        return false;
    }
    taken
}
