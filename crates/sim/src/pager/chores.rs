//! What the application does besides loading and storing: it flushes, pins, dismisses, asks ahead, unmaps and maps again.

use std::time::Duration;

use outboard_driver::Service;
use outboard_paging::application::PagerNote;
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

/// What is being done.
pub(super) struct Chores {
    /// What was stored when a flush began, for each object that is being flushed.
    flushes: [Option<Vec<u64>>; OBJECTS],
    pin: Option<Pin>,
    next_at: Time,
    until: Time,
    is_last_flush_begun: bool,
}

impl Chores {
    pub(super) fn new(now: Time, until: Time) -> Self {
        Self { flushes: Default::default(), pin: None, next_at: now, until, is_last_flush_begun: false }
    }

    /// Whether nothing is left to do.
    pub(super) fn are_done(&self) -> bool {
        self.is_last_flush_begun && self.flushes.iter().all(Option::is_none)
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
        if now < self.chores.until {
            self.begin_chore(now);
        } else if self.walkers.are_done()
            && !self.chores.is_last_flush_begun
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
            0 => self.begin_flush(object),
            1..=3 => self.far.pages.dont_need(region, chunk, chunk + 1),
            4 => {
                let (region, first, end) = (region.clone(), chunk, chunk + 3);
                let lane = self.random.usize(..self.pagers.len());
                self.pagers[lane].on_note(PagerNote::WillNeed { region, first, end }, now);
            }
            9 if self.chores.pin.is_none()
                && self.far.pages.reserve_pins(region, chunk..chunk + 1).is_ok() =>
            {
                let until = now + Duration::from_micros(self.random.u64(..20_000));
                self.chores.pin = Some(Pin { object, part, chunk, until, is_there: false });
            }
            // Rarely, for nobody can use the object meanwhile.
            10 if self.random.u8(..4) == 0 => {
                if self.chores.pin.as_ref().is_some_and(|pin| pin.object == object) {
                    self.unpin();
                }
                self.far.objects[object].is_leaving = true;
                self.far.objects[object].is_given_up = self.random.bool();
            }
            _ => {}
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
        if !state.is_leaving || self.walkers.waits_in(&state.parts[0].addresses()) {
            return;
        }
        if state.parts.iter().any(|part| part.is_lost()) {
            // What is lost is not mapped again.
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
            pin.is_there = self.far.pages.pin(region, pin.chunk, true);
            if !pin.is_there {
                let address = region.addresses_of(pin.chunk).start;
                self.far.space().state().touch(address, None);
            }
        }
    }

    fn unpin(&mut self) {
        if let Some(Pin { object, part, chunk, .. }) = self.chores.pin.take() {
            let region = &self.far.objects[object].parts[part];
            self.far.pages.pin(region, chunk, false);
            self.far.pages.release_pins(region, chunk..chunk + 1);
        }
    }
}
