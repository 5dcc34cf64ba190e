//! The memory of the application: pages that are there or not, threads that wait at them, and frames.
//!
//! As with pages that are moved, bytes are in one place at a time. What is left behind is rubbish, so that a machine that looks
//! there all the same finds something else than what was stored.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fastrand::Rng;
use outboard_link::memory::Buffer;
use outboard_paging::application::{
    AddressRange, Cause, Fault, Faults, FrameSpan, Held, PAGE, PageSpace, Place, Process, ProcessAddress,
    ServerLoss, Span,
};
use outboard_wire::Time;

use super::layout::WORD;

const RUBBISH: u8 = 0xee;

/// The outcome for a thread that touches a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Touched {
    /// The value that was there.
    Word(u64),
    /// It waits.
    Waits,
    /// It is told that what was there is lost.
    Lost,
    /// It is told that it may not store there.
    Forbidden,
}

/// A page of a region that is there.
struct Page {
    bytes: Vec<u8>,
    is_protected: bool,
}

/// Everything that is in memory.
#[derive(Default)]
pub(super) struct State {
    next_range: usize,
    /// By address.
    pages: BTreeMap<ProcessAddress, Page>,
    poisoned: BTreeSet<ProcessAddress>,
    forbidden: BTreeSet<ProcessAddress>,
    /// Which place the bytes of a frame were moved to, by the frame's address in the simulator.
    lent: BTreeMap<ProcessAddress, ProcessAddress>,
    /// Threads that wait and were not seen yet.
    pub(super) faults: VecDeque<Fault>,
    /// Whether a thread that answers its own faults has left something to fault threads.
    pub(super) is_called: bool,
    /// Where threads may go on.
    pub(super) woken: Vec<Span>,
    /// A forbidden thing that was done.
    pub(super) objections: Vec<String>,
    pub(super) losses: usize,
    random: Rng,
    busy_one_in: u32,
}

fn pages_of(span: Span) -> impl Iterator<Item = ProcessAddress> {
    (0..span.len).step_by(PAGE).map(move |at| span.start.plus(at))
}

impl State {
    /// Loads a word, and stores one there if there is one.
    pub(super) fn touch(&mut self, address: ProcessAddress, store: Option<u64>) -> Touched {
        let at = address.page(PAGE).start;
        if self.poisoned.contains(&at) {
            return Touched::Lost;
        }
        if store.is_some() && self.forbidden.contains(&at) {
            return Touched::Forbidden;
        }
        let cause = match (self.pages.get_mut(&at), store) {
            (None, None) => Cause::Read,
            (None, Some(_)) => Cause::Write,
            (Some(page), Some(_)) if page.is_protected => Cause::Protected,
            (Some(page), store) => {
                let word = &mut page.bytes[address.since(at)..][..WORD];
                let found = u64::from_le_bytes(std::array::from_fn(|byte| word[byte]));
                if let Some(value) = store {
                    word.copy_from_slice(&value.to_le_bytes());
                }
                return Touched::Word(found);
            }
        };
        self.faults.push_back(Fault { address, cause });
        Touched::Waits
    }

    /// Loads a word of the first page of a span that is absent.
    pub(super) fn touch_absent(&mut self, span: Span) {
        if let Some(at) = pages_of(span).find(|at| !self.pages.contains_key(at)) {
            self.touch(at, None);
        }
    }

    /// All pages that are in their regions, with their bytes.
    pub(super) fn all(&self) -> BTreeMap<ProcessAddress, Vec<u8>> {
        self.pages.iter().map(|(at, page)| (*at, page.bytes.clone())).collect()
    }

    /// Whether all pages of a span are there. None of them, if not all.
    pub(super) fn holds(&mut self, span: Span) -> bool {
        let count = pages_of(span).filter(|at| self.pages.contains_key(at)).count();
        if count != 0 && count != span.len / PAGE {
            self.objections.push(format!("chunks move as a whole, but {count} pages of one are there"));
        }
        count > 0
    }

    /// How many chunks are in their places, by the frames that they were moved from.
    pub(super) fn lent(&self) -> usize {
        self.lent.len()
    }

    /// To which place the bytes of a frame were moved.
    pub(super) fn lent_to(&self, frame: FrameSpan<'_>) -> Option<ProcessAddress> {
        self.lent.get(&frame.start()).copied()
    }

    /// A range is about to be unmapped: what is there is of no use any more.
    pub(super) fn leave(&mut self, span: Span) {
        self.lent.retain(|_, place| !span.contains(*place));
    }

    fn unmap(&mut self, span: Span) {
        self.leave(span);
        self.pages.retain(|at, _| !span.contains(*at));
        self.poisoned.retain(|at| !span.contains(*at));
        self.forbidden.retain(|at| !span.contains(*at));
    }
}

/// The memory of the application. Clones are the same memory.
#[derive(Clone)]
pub(super) struct SimSpace(Arc<Mutex<State>>);

impl SimSpace {
    pub(super) fn new(random: Rng, busy_one_in: u32) -> Self {
        let state = State { next_range: 1 << 30, random, busy_one_in, ..State::default() };
        Self(Arc::new(Mutex::new(state)))
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Addresses that are free again when it is dropped.
struct Mapped {
    space: SimSpace,
    span: Span,
}

impl Drop for Mapped {
    fn drop(&mut self) {
        self.space.state().unmap(self.span);
    }
}

fn fill(frame: FrameSpan<'_>, bytes: &[u8]) {
    frame.buffer().window_mut().part(frame.at(), bytes.len()).write(0, bytes);
}

impl Process for SimSpace {
    type Uninterrupted = ();

    fn uninterrupted(&self) {}

    fn time(&self, turn: Time) -> Time {
        turn
    }

    fn announce(&self) {}

    fn call(&self) {
        self.state().is_called = true;
    }

    fn lost(&self, _: ServerLoss) {
        self.state().losses += 1;
    }

    fn say(&self, _: &str) {}

    fn end(&self, why: &str) -> ! {
        panic!("the application ends: {why}");
    }

    fn abort(&self, why: &str) -> ! {
        panic!("the application aborts: {why}");
    }
}

impl PageSpace for SimSpace {
    fn page_bytes(&self) -> usize {
        PAGE
    }

    fn stops_stores(&self) -> bool {
        true
    }

    fn can_poison(&self) -> bool {
        true
    }

    fn make_frames(&self, frame_bytes: usize, count: usize) -> io::Result<Buffer> {
        Ok(Buffer::allocate(frame_bytes * count)?)
    }

    fn make_range(&self, len: usize) -> io::Result<AddressRange> {
        let mut state = self.state();
        let span = Span { start: ProcessAddress::new(state.next_range), len };
        // No two ranges touch, and none is used again.
        state.next_range += len + PAGE;
        Ok(AddressRange::new(span, Box::new(Mapped { space: self.clone(), span })))
    }

    fn read_faults(&self, faults: &mut Faults) -> bool {
        let mut state = self.state();
        let count = state.random.usize(1..=4).min(state.faults.len());
        faults.list.clear();
        faults.list.extend(state.faults.drain(..count));
        faults.is_full = !state.faults.is_empty();
        count > 0
    }

    fn move_in(&self, frame: FrameSpan<'_>, place: Place<'_>, is_writable: bool) -> io::Result<()> {
        let mut state = self.state();
        let is_taken = |at: &ProcessAddress| state.pages.contains_key(at) || state.poisoned.contains(at);
        if let Some(at) = pages_of(place.span()).find(is_taken) {
            state.objections.push(format!("a chunk is moved to where one is already: {at}"));
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if state.lent.insert(frame.start(), place.start()).is_some() {
            state.objections.push("a frame is moved whose bytes are elsewhere".to_owned());
        }
        let bytes = frame.bytes().to_vec();
        for (at, bytes) in pages_of(place.span()).zip(bytes.chunks(PAGE)) {
            state.pages.insert(at, Page { bytes: bytes.to_vec(), is_protected: !is_writable });
        }
        fill(frame, &vec![RUBBISH; bytes.len()]);
        state.woken.push(place.span());
        Ok(())
    }

    fn move_out(&self, place: Place<'_>, frame: FrameSpan<'_>, _is_writable: bool) -> Result<(), Held> {
        let mut state = self.state();
        let busy_one_in = state.busy_one_in;
        if busy_one_in > 0 && state.random.u32(..busy_one_in) == 0 {
            return Err(Held::Busy);
        }
        if state.lent.remove(&frame.start()) != Some(place.start()) {
            state.objections.push("a chunk is moved into the frame of another".to_owned());
        }
        for (number, at) in pages_of(place.span()).enumerate() {
            let Some(page) = state.pages.remove(&at) else {
                return Err(Held::Torn(io::ErrorKind::NotFound.into()));
            };
            fill(frame.part(number * PAGE, PAGE), &page.bytes);
        }
        Ok(())
    }

    fn protect(&self, place: Place<'_>) {
        let mut state = self.state();
        for at in pages_of(place.span()) {
            state.pages.entry(at).and_modify(|page| page.is_protected = true);
        }
    }

    fn forbid(&self, page: Place<'_>) {
        let mut state = self.state();
        state.forbidden.insert(page.start());
        state.woken.push(page.span());
    }

    fn wake(&self, span: Span) {
        self.state().woken.push(span);
    }

    fn poison(&self, span: Span) -> bool {
        let mut state = self.state();
        for at in pages_of(span) {
            if !state.pages.contains_key(&at) {
                state.poisoned.insert(at);
            }
        }
        state.woken.push(span);
        true
    }

    fn has_hole(&self, place: Place<'_>) -> bool {
        let state = self.state();
        pages_of(place.span()).any(|at| !state.pages.contains_key(&at))
    }

    fn is_present(&self, place: Place<'_>) -> bool {
        !self.has_hole(place)
    }

    fn discard_frame(&self, frame: FrameSpan<'_>) {
        if self.state().lent.contains_key(&frame.start()) {
            self.state().objections.push("a frame is given back whose chunk is in use".to_owned());
        }
        fill(frame, &vec![0; frame.len()]);
    }

    fn discard(&self, place: Place<'_>) {
        let mut state = self.state();
        pages_of(place.span()).for_each(|at| _ = state.pages.remove(&at));
        state.lent.retain(|_, lent| *lent != place.start());
    }

    fn survey(&self, _: Place<'_>, _: FrameSpan<'_>) -> String {
        "of its pages nothing is known".to_owned()
    }
}
