//! One child: what it sees, and which of it is in its memory.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::BorrowedFd;

use outboard_driver::paging::{
    Cause, Change, ChildFaults, ChildNews, ChildRange, Fault, FillError, KeptAt, NewChild, PagedRegion,
    Process, ProcessAddress, ProcessPages, SnapshotId, Span,
};

use super::copies::Copies;

/// How much is brought for a fault at most.
const WINDOW_MAX: usize = 256 << 10;
/// What a child may have here at least of what it has only read.
const ROOM_MIN: usize = 1 << 20;

/// A part of the child's addresses, and which part of an object it shows.
#[derive(Clone, Copy, Debug)]
struct Piece {
    span: Span,
    range: usize,
    offset: usize,
}

/// Why a fault is not answered yet.
enum Unanswered {
    /// It has to be tried again.
    Later,
    /// There is no child any more.
    Gone,
}

impl From<FillError> for Unanswered {
    fn from(error: FillError) -> Self {
        match error {
            FillError::Gone => Self::Gone,
            FillError::Later | FillError::Failed(_) => Self::Later,
        }
    }
}

/// One child that sees far memory.
pub(super) struct Child {
    id: SnapshotId,
    faults: ChildFaults,
    ranges: Vec<ChildRange>,
    pieces: Vec<Piece>,
    /// Pages that were brought and not written since, by address. They can be thrown away.
    clean: BTreeMap<usize, usize>,
    /// These in the order in which they came. An entry that does not agree with `clean` is void.
    order: VecDeque<(usize, usize)>,
    clean_bytes: usize,
    /// How much of it may be here.
    room: usize,
    /// How many requests to throw pages away have not been answered.
    asked: usize,
    /// The faults that could not be answered yet.
    waiting: VecDeque<Fault>,
    has_lost: bool,
    has_said: bool,
    /// It is to be left alone.
    is_over: bool,
    buffer: Vec<u8>,
}

impl Child {
    /// A child of a process with a buffer of so many bytes.
    pub(super) fn new(child: NewChild, buffer: usize) -> Self {
        let NewChild { id, socket, ranges } = child;
        let piece =
            |(range, ChildRange { span, .. }): (usize, &ChildRange)| Piece { span: *span, range, offset: 0 };
        Self {
            id,
            faults: ChildFaults::new(socket),
            pieces: ranges.iter().enumerate().map(piece).collect(),
            ranges,
            clean: BTreeMap::new(),
            order: VecDeque::new(),
            clean_bytes: 0,
            room: (buffer / 4).max(ROOM_MIN),
            asked: 0,
            waiting: VecDeque::new(),
            has_lost: false,
            has_said: false,
            is_over: false,
            buffer: Vec::new(),
        }
    }

    /// What it sees.
    pub(super) fn id(&self) -> SnapshotId {
        self.id
    }

    /// Whether it can see no more of far memory than it has.
    pub(super) fn has_lost(&self) -> bool {
        self.has_lost
    }

    /// It can see no more of far memory than it has. Returns whether it could until now.
    pub(super) fn lose(&mut self) -> bool {
        !std::mem::replace(&mut self.has_lost, true)
    }

    /// Whether faults wait for a server.
    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// What is readable when there is something to do. While pages are being thrown away its faults wait: a store to one of
    /// them, or another mapping in its place, is told of by a fault.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let faults = self.faults.faults().filter(|_| self.asked == 0);
        [self.faults.socket()].into_iter().chain(faults)
    }

    /// Does what there is to do. Returns false if it has ended.
    pub(super) fn turn(&mut self, pages: &ProcessPages, copies: &mut Copies) -> bool {
        loop {
            match self.faults.hear() {
                ChildNews::Nothing => break,
                ChildNews::Began => {}
                ChildNews::ThrewAway => self.asked = self.asked.saturating_sub(1),
                ChildNews::Ended => return false,
            }
        }
        if self.asked > 0 {
            return true;
        }
        let (mut faults, mut changes) = (Vec::new(), Vec::new());
        // When the child has ended its socket tells.
        let _ = self.faults.read(&mut faults, &mut changes);
        changes.iter().for_each(|change| self.change(change));
        let waiting = std::mem::take(&mut self.waiting);
        for fault in waiting.into_iter().chain(faults) {
            match self.answer(fault, pages, copies) {
                Ok(()) => {}
                Err(Unanswered::Later) => self.waiting.push_back(fault),
                Err(Unanswered::Gone) => return true,
            }
        }
        self.make_room();
        !self.is_over
    }

    fn answer(&mut self, fault: Fault, pages: &ProcessPages, copies: &mut Copies) -> Result<(), Unanswered> {
        let page = fault.address.page(pages.space().page());
        if fault.cause == Cause::Protected {
            self.forget(page);
            self.faults.allow(page);
        } else if let Some(piece) = self.pieces.iter().find(|piece| piece.span.contains(page.start)).copied()
        {
            self.bring(piece, page, fault.cause == Cause::Write, (pages, copies))?;
        }
        self.faults.wake(page);
        Ok(())
    }

    /// Brings what is around a page.
    fn bring(
        &mut self,
        piece: Piece,
        page: Span,
        is_written: bool,
        (pages, copies): (&ProcessPages, &mut Copies),
    ) -> Result<(), Unanswered> {
        let offset = piece.offset + page.start.since(piece.span.start);
        let (region, index) = self.chunk(piece.range, offset);
        let chunk = region.addresses_of(index).start.since(region.start());
        let window = window(chunk, region.chunk_bytes(), offset);
        let from = window.0.max(piece.offset);
        let to = window.1.min(piece.offset + piece.span.len);
        let at = piece.span.start.plus(from - piece.offset);
        let bytes = region.bytes_of(&(index..index + 1));
        // Behind its end an object is zero.
        let start = bytes.start + (from - chunk) as u64;
        let known = (bytes.end.max(start) - start).min((to - from) as u64) as usize;
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        buffer.resize(to - from, 0);
        let read = match pages.find_kept(self.id, &region, index) {
            _ if self.has_lost => None,
            KeptAt::Zeros => {
                self.buffer = buffer;
                self.faults.zero(Span { start: at, len: to - from })?;
                self.faults.wake(Span { start: at, len: to - from });
                return Ok(());
            }
            KeptAt::Child => None,
            KeptAt::Copy(of) => Some(copies.read_copy(of, &region, start, &mut buffer[..known])),
            KeptAt::Server => {
                let spec = region.spec();
                Some(copies.read(spec.at, &spec.grant, start, &mut buffer[..known]))
            }
        };
        let brought = match read {
            Some(Ok(())) => self.give(at, &buffer, page, is_written),
            Some(Err(_)) if !region.is_lost() => Err(Unanswered::Later),
            failed => {
                self.refuse(page, &region, failed.is_some(), pages);
                Ok(())
            }
        };
        self.buffer = buffer;
        brought
    }

    /// Copies bytes to absent pages of the child. The page that it writes is its own from now on.
    fn give(
        &mut self,
        at: ProcessAddress,
        bytes: &[u8],
        page: Span,
        is_written: bool,
    ) -> Result<(), Unanswered> {
        if is_written {
            let from = page.start.since(at);
            self.faults.fill(page.start, &bytes[from..from + page.len], false, |_| {})?;
        }
        let can_watch = self.faults.can_watch();
        let (clean, order, clean_bytes) = (&mut self.clean, &mut self.order, &mut self.clean_bytes);
        self.faults.fill(at, bytes, true, |Span { start, len }| {
            if can_watch {
                clean.insert(start.get(), len);
                order.push_back((start.get(), len));
                *clean_bytes += len;
            }
        })?;
        self.faults.wake(Span { start: at, len: bytes.len() });
        Ok(())
    }

    /// Makes a touch of what cannot be had raise a signal.
    fn refuse(&mut self, page: Span, region: &PagedRegion, is_lost: bool, pages: &ProcessPages) {
        if !std::mem::replace(&mut self.has_said, true) {
            let name = &region.spec().name;
            let why = match () {
                () if self.has_lost => "there was no room for copies of what this process has written since",
                () if is_lost => "its memory server is lost",
                () => "the child has thrown it away (madvise with MADV_DONTNEED does that)",
            };
            pages.space().say(&format!(
                "outboard: a forked child needs bytes of far memory “{name}” that cannot be had: {why}; touching them raises \
                 SIGBUS there\n"
            ));
        }
        // A kernel that cannot do that leaves it to the helper thread of the child, which ends that when it is left alone.
        self.is_over |= !self.faults.poison(page);
    }

    /// The chunk that a byte of an object is in.
    fn chunk(&self, range: usize, offset: usize) -> (std::sync::Arc<PagedRegion>, u32) {
        let parts = &self.ranges[range].parts;
        let part = parts[0].spec().stripes.part_of(offset as u64) as usize;
        let region = &parts[part];
        (std::sync::Arc::clone(region), region.spec().stripes.chunk(offset as u64, region.chunk_bytes()))
    }

    /// Has the child throw away what it has read longest ago, if that is more than there is room for.
    fn make_room(&mut self) {
        if self.clean_bytes <= self.room {
            return;
        }
        while self.clean_bytes > self.room / 8 * 7
            && let Some((start, len)) = self.order.pop_front()
        {
            if self.clean.get(&start) != Some(&len) {
                continue;
            }
            if !self.faults.throw_away(Span { start: ProcessAddress::new(start), len }) {
                // It has enough to do.
                self.order.push_front((start, len));
                return;
            }
            self.clean.remove(&start);
            self.clean_bytes -= len;
            self.asked += 1;
        }
    }

    /// These pages are the child's own from now on, or not mapped any more: they are not thrown away.
    fn forget(&mut self, span: Span) {
        let (from, to) = (span.start.get(), span.end().get());
        let meets = |(start, len): &(usize, usize)| start + len > from;
        let met: Vec<_> =
            self.clean.range(..to).rev().map(|(start, len)| (*start, *len)).take_while(meets).collect();
        for (start, len) in met {
            self.clean.remove(&start);
            self.clean_bytes -= len;
            let rests = [(start, from), (to, start + len)];
            for (start, end) in rests.into_iter().filter(|(start, end)| start < end) {
                self.clean.insert(start, end - start);
                self.order.push_back((start, end - start));
                self.clean_bytes += end - start;
            }
        }
    }

    /// The child has unmapped a part of its addresses, or moved it.
    fn change(&mut self, change: &Change) {
        let Change { span, moved_to } = change;
        self.forget(*span);
        let mut moved = Vec::new();
        let mut left = Vec::new();
        for piece in &self.pieces {
            for (cut, is_inside) in cut(*piece, *span) {
                match (is_inside, moved_to) {
                    (false, _) => left.push(cut),
                    (true, Some(to)) => {
                        let start = to.plus(cut.span.start.since(span.start));
                        moved.push(Piece { span: Span { start, ..cut.span }, ..cut });
                    }
                    (true, None) => {}
                }
            }
        }
        left.extend(moved);
        self.pieces = left;
    }
}

/// The parts of a piece before, in and behind a span, and whether each is in it.
fn cut(piece: Piece, span: Span) -> impl Iterator<Item = (Piece, bool)> {
    let (start, end) = (piece.span.start, piece.span.end());
    let (from, to) = (span.start.clamp(start, end), span.end().clamp(start, end));
    let part = move |from: ProcessAddress, to: ProcessAddress, is_inside| {
        let span = Span { start: from, len: to.since(from) };
        (Piece { span, offset: piece.offset + from.since(start), ..piece }, is_inside)
    };
    let parts = [part(start, from, false), part(from, to, true), part(to, end, false)];
    parts.into_iter().filter(|(piece, _)| piece.span.len > 0)
}

/// Where in an object the part of a chunk begins and ends that is brought for a byte of it.
fn window(chunk: usize, bytes: usize, offset: usize) -> (usize, usize) {
    let len = bytes.min(WINDOW_MAX);
    let from = chunk + (offset - chunk) / len * len;
    (from, from + len)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(start: usize, len: usize) -> Span {
        Span { start: ProcessAddress::new(start), len }
    }

    #[test]
    fn a_part_that_is_taken_away_leaves_what_is_around_it() {
        let piece = Piece { span: span(0x10000, 0x8000), range: 0, offset: 0x1000 };
        let parts = |taken| -> Vec<_> {
            cut(piece, taken)
                .map(|(part, inside)| (part.span.start.get(), part.span.len, part.offset, inside))
                .collect()
        };
        assert_eq!(
            parts(span(0x12000, 0x1000)),
            [
                (0x10000, 0x2000, 0x1000, false),
                (0x12000, 0x1000, 0x3000, true),
                (0x13000, 0x5000, 0x4000, false)
            ]
        );
        assert_eq!(parts(span(0x1000, 0x1000)), [(0x10000, 0x8000, 0x1000, false)]);
        assert_eq!(parts(span(0x1000, 0x100000)), [(0x10000, 0x8000, 0x1000, true)]);
        assert_eq!(
            parts(span(0x17000, 0x100000)),
            [(0x10000, 0x7000, 0x1000, false), (0x17000, 0x1000, 0x8000, true)]
        );
    }

    #[test]
    fn what_is_brought_lies_in_one_chunk() {
        assert_eq!(window(0x10000, 0x10000, 0x12345), (0x10000, 0x20000));
        let chunk = 2 << 20;
        assert_eq!(
            window(chunk, chunk, chunk + WINDOW_MAX + 5),
            (chunk + WINDOW_MAX, chunk + 2 * WINDOW_MAX)
        );
    }
}
