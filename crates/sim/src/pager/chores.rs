//! The work of the application besides loading and storing: it flushes, pins, dismisses, asks ahead, discards, unmaps and maps
//! again, and changes the size of its buffer.

use std::time::Duration;

use outboard_driver::Service;
use outboard_paging::application::{MemoryReadings, PagerNote, Pattern};
use outboard_wire::Time;

use super::application::Application;
use super::layout::OBJECTS;

/// How long it waits before it looks again whether something has ended.
const POLL: Duration = Duration::from_micros(300);

/// A chunk that is kept in its region.
struct Pin {
    object: usize,
    part: usize,
    chunk: u32,
    until: Time,
    is_there: bool,
}

/// The chores under way.
pub(super) struct Chores {
    /// The stores before a flush began, for each object that is being flushed.
    flushes: [Option<Vec<u64>>; OBJECTS],
    pin: Option<Pin>,
    /// The chunk that is being discarded: by its object, part and number.
    discard: Option<(usize, usize, u32)>,
    next_at: Time,
    until: Time,
    is_last_flush_begun: bool,
}

impl Chores {
    pub(super) fn new(now: Time, until: Time) -> Self {
        Self {
            flushes: Default::default(),
            pin: None,
            discard: None,
            next_at: now,
            until,
            is_last_flush_begun: false,
        }
    }

    /// Whether nothing is left to do.
    pub(super) fn are_done(&self) -> bool {
        self.is_last_flush_begun && self.flushes.iter().all(Option::is_none)
    }

    /// The chores that are left, for people.
    pub(super) fn explain(&self) -> String {
        let flushes = self.flushes.iter().flatten().count();
        let discard = match self.discard {
            Some((object, part, chunk)) => format!("chunk {chunk} of part {part} of object {object}"),
            None => "nothing".to_owned(),
        };
        format!(
            "{flushes} flushes are left, {discard} is being discarded, the last flush has begun: {}",
            self.is_last_flush_begun
        )
    }

    /// When there is something to do next.
    pub(super) fn next_at(&self) -> Option<Time> {
        (!self.are_done()).then_some(self.next_at)
    }

    /// The chunk that must be in its region now: by its object, part and number.
    pub(super) fn pinned(&self) -> Option<(usize, usize, u32)> {
        let pin = self.pin.as_ref().filter(|pin| pin.is_there)?;
        // A flush moves it out for a while.
        self.flushes[pin.object].is_none().then_some((pin.object, pin.part, pin.chunk))
    }
}

impl Application {
    /// Does what is due.
    pub(super) fn do_chores(&mut self, now: Time) {
        if now < self.chores.next_at {
            return;
        }
        self.chores.next_at = now + POLL;
        self.keep_pin(now);
        self.keep_discarding();
        self.keep_forks(now, now < self.chores.until);
        if now < self.chores.until {
            self.begin_chore(now);
        } else if self.walkers.are_done()
            && !self.chores.is_last_flush_begun
            && self.chores.discard.is_none()
            && self.far.objects.iter().all(|object| !object.is_leaving)
            && self.chores.flushes.iter().all(Option::is_none)
        {
            self.unpin();
            self.chores.is_last_flush_begun = true;
            (0..OBJECTS).for_each(|object| self.begin_flush(object));
        }
        (0..OBJECTS).for_each(|object| self.go_on(object));
    }

    fn begin_chore(&mut self, now: Time) {
        let object = self.random.usize(..OBJECTS);
        let part = self.random.usize(..self.far.objects[object].parts.len());
        let region = &self.far.objects[object].parts[part];
        let chunk = self.random.u32(..region.chunks());
        if self.far.objects[object].is_leaving {
            return;
        }
        match self.random.u8(..48) {
            14..=16 if self.shape.buffer_max > self.far.pages.config().buffer => self.resize(now),
            0 => self.begin_flush(object),
            1..=3 => self.far.pages.dont_need(region, chunk, chunk + 1),
            4 => {
                let list = vec![(region.clone(), chunk..chunk + 3), (region.clone(), 0..1)];
                let shares = self.far.pages.prefetch(list, self.pagers.len());
                for (pager, share) in self.pagers.iter_mut().zip(shares) {
                    pager.on_note(PagerNote::Prefetch(share), now);
                }
            }
            9 if self.chores.pin.is_none()
                && self.far.pages.reserve_pins(region, chunk..chunk + 1).is_ok() =>
            {
                let until = now + Duration::from_micros(self.random.u64(..20_000));
                self.chores.pin = Some(Pin { object, part, chunk, until, is_there: false });
            }
            // Chunks are divided, and come as a whole again.
            14..=16 => {
                let patterns = [Pattern::Normal, Pattern::Random, Pattern::Random, Pattern::Sequential];
                let pattern = patterns[self.random.usize(..patterns.len())];
                self.far.pages.set_pattern(region, chunk..chunk + self.random.u32(1..8), pattern);
            }
            11..=13 if self.chores.discard.is_none() && self.far.is_writable(object) => {
                self.far.pages.begin_discard(region, &(chunk..chunk + 1));
                self.chores.discard = Some((object, part, chunk));
            }
            // Rarely, for no thread can use the object meanwhile; never while a part of it is discarded.
            10 if self.random.u8(..4) == 0 && self.chores.discard.is_none_or(|(of, ..)| of != object) => {
                if self.chores.pin.as_ref().is_some_and(|pin| pin.object == object) {
                    self.unpin();
                }
                self.far.objects[object].is_leaving = true;
                self.far.objects[object].is_given_up = self.random.bool();
            }
            _ => {}
        }
    }

    /// Changes the size of the buffer: to the least there can be, to any, or as what memory is left wants it.
    fn resize(&mut self, now: Time) {
        let (least, most) = (self.far.pages.buffer_least(), self.shape.buffer_max);
        let size = match self.random.u8(..4) {
            0 => least,
            1 | 2 => {
                let left = self.random.u64(..2 * most as u64);
                let stalled = Duration::from_micros(now.since(Time::ZERO).as_micros() as u64 / 200);
                let readings = MemoryReadings { left, reserve: 32 << 10, stalled };
                self.follower.look(now, readings, (self.far.pages.buffer_used(), least))
            }
            _ => self.random.usize(least..=most),
        };
        self.recorder.note("buffer", &[("bytes", size as u64)]);
        self.buffer_allowed = self.buffer_allowed.max(self.far.pages.buffer());
        if let Err(error) = self.far.pages.set_buffer(size) {
            self.recorder.fail(format!("the buffer can be of any size between least and most, but: {error}"));
        }
    }

    fn begin_flush(&mut self, object: usize) {
        if self.chores.flushes[object].is_none() && self.far.is_writable(object) {
            self.recorder.note("flush", &[("object", object as u64)]);
            self.chores.flushes[object] = Some(self.far.model.stored(object));
            self.far.objects[object].parts.iter().for_each(|part| self.far.pages.begin_flush(part));
        }
    }

    /// Goes on with a flush, and with unmapping what was flushed for that.
    fn go_on(&mut self, object: usize) {
        let parts = &self.far.objects[object].parts;
        if self.chores.flushes[object].is_some() {
            let unsaved = parts.iter().filter(|part| !part.is_lost());
            if unsaved.map(|part| self.far.pages.write_back(part)).sum::<usize>() > 0 {
                return;
            }
            let stored = self.chores.flushes[object].take().unwrap_or_default();
            self.recorder.note("flushed", &[("object", object as u64)]);
            self.far.compare(object, &stored);
        }
        let state = &self.far.objects[object];
        // A thread that maps an object waits until the process has forked.
        if !state.is_leaving
            || self.forks.are_under_way()
            || self.walkers.waits_in(state.parts[0].addresses())
        {
            return;
        }
        if state.parts.iter().any(|part| part.is_lost()) {
            (self.far.objects[object].is_leaving, self.far.objects[object].is_closing) = (false, false);
        } else if state.is_closing {
            // Now and then it has no patience with what is under way.
            if self.far.pages.forget(&state.parts) == 0 || self.random.u8(..32) == 0 {
                self.far.pages.unmap(&state.parts);
                self.recorder.note("mapped anew", &[("object", object as u64)]);
                self.far.map(object, state.is_given_up);
            }
        } else if state.is_given_up || state.is_flushed || !self.far.is_writable(object) {
            self.far.close(object);
        } else {
            self.far.objects[object].is_flushed = true;
            self.begin_flush(object);
        }
    }

    fn keep_pin(&mut self, now: Time) {
        let Some(pin) = &mut self.chores.pin else { return };
        let region = &self.far.objects[pin.object].parts[pin.part];
        if (now >= pin.until && pin.is_there) || region.is_lost() {
            return self.unpin();
        }
        if !pin.is_there {
            let span = region.addresses_of(pin.chunk);
            pin.is_there = self.far.pages.pin((region, pin.chunk), span, true);
            if !pin.is_there {
                self.far.space().state().touch_absent(span);
            }
        }
    }

    /// Discards a chunk as soon as it can be, unless something else is to be done with it.
    fn keep_discarding(&mut self) {
        let Some((object, part, chunk)) = self.chores.discard else { return };
        let is_pinned = self
            .chores
            .pin
            .as_ref()
            .is_some_and(|pin| (pin.object, pin.part, pin.chunk) == (object, part, chunk));
        // The chunks that a flush waits for are not saved meanwhile.
        let is_given_up = is_pinned || self.chores.flushes[object].is_some();
        if is_given_up || self.far.discard(object, part, chunk) {
            self.far.pages.end_discard(&self.far.objects[object].parts[part], &(chunk..chunk + 1));
            self.chores.discard = None;
        }
    }

    fn unpin(&mut self) {
        if let Some(Pin { object, part, chunk, .. }) = self.chores.pin.take() {
            let region = &self.far.objects[object].parts[part];
            self.far.pages.pin((region, chunk), region.addresses_of(chunk), false);
            self.far.pages.release_pins(region, chunk..chunk + 1);
        }
    }
}
