//! Reads and writes of the peer's memory past the frames.
//!
//! Memory that may be moved, or that another thread provides when it is touched, is never given to a provider: bytes
//! go through places of the link's own, which are registered once, and are copied by the processor. Only pages that a
//! buffer has allocated for itself are read into directly, by providers that need no registration for it and only write
//! while they are called: others could still do so when the link is lost and the pages have another use.

use std::sync::Arc;

use rustix::io::Errno;

use super::endpoint::{Endpoint, Far};
use super::library::FabricFault;
use super::object::Registration;
use super::sys::{FI_READ, FI_WRITE};
use crate::memory::{Buffer, Segment, Window};
use crate::stream::{Handle, Lent, Near};

/// How many places there are for bytes on their way; they are made when the first is needed.
const PLACES: usize = 16;
/// How long they are: what is longer goes by frames.
const PLACE_BYTES: usize = 64 << 10;

/// The near side of every access that is under way.
pub(super) struct Accesses {
    near: Vec<Option<NearSide>>,
    places: Option<Places>,
    /// Accesses that write, and have not ended.
    pub(super) writes: usize,
    /// Accesses that have not ended.
    pub(super) under_way: usize,
}

enum NearSide {
    /// Straight into the reader's pages, which stay until it has ended.
    Pages { _kept: Buffer },
    /// By a place of the link's own, and from there into the reader's buffer.
    ReadBy { place: usize, into: Buffer, offset: usize, len: usize },
    /// From a place of the link's own.
    WrittenFrom { place: usize, len: usize },
}

struct Places {
    registration: Option<Registration>,
    memory: Buffer,
    free: Vec<usize>,
}

impl Accesses {
    pub(super) fn new(count: usize) -> Self {
        let near = std::iter::repeat_with(|| None).take(count).collect();
        Self { near, places: None, writes: 0, under_way: 0 }
    }

    /// The bytes that this access was to write.
    pub(super) fn kept(&self, number: usize) -> Window<'_> {
        match (&self.near[number], &self.places) {
            (Some(NearSide::WrittenFrom { place, len }), Some(places)) => {
                places.memory.window().part(place * PLACE_BYTES, *len)
            }
            _ => Window::from(&[][..]),
        }
    }

    /// An access has ended. If it has read, its bytes are brought where they belong.
    pub(super) fn end(&mut self, number: usize, is_done: bool) {
        self.under_way = self.under_way.saturating_sub(1);
        match (&self.near[number], &self.places) {
            (Some(NearSide::WrittenFrom { .. }), _) => self.writes = self.writes.saturating_sub(1),
            (Some(NearSide::ReadBy { place, into, offset, len }), Some(places)) if is_done => {
                let bytes = places.memory.window().part(place * PLACE_BYTES, *len);
                into.window_mut().write_window(*offset, bytes);
            }
            _ => {}
        }
    }

    /// Whether the provider may still write to pages of the link's user.
    pub(super) fn touches_pages(&self) -> bool {
        self.near.iter().flatten().any(|near| matches!(near, NearSide::Pages { .. }))
    }

    pub(super) fn forget(&mut self, number: usize) {
        let place = match self.near[number].take() {
            Some(NearSide::ReadBy { place, .. } | NearSide::WrittenFrom { place, .. }) => place,
            Some(NearSide::Pages { .. }) | None => return,
        };
        if let Some(places) = &mut self.places {
            places.free.push(place);
        }
    }
}

impl Endpoint {
    /// Lets the peer read this memory, or write it, or both.
    pub(super) fn lend(
        &self,
        memory: &Arc<Segment>,
        (may_read, may_write): (bool, bool),
    ) -> Result<Lent, FabricFault> {
        // SAFETY: the segment is kept with the registration, and behind it; it is only used through windows and
        // atomics. A peer that may write was given a key for a segment that is mapped to write.
        let registration =
            unsafe { self.register_far((memory.start(), memory.len()), (may_read, may_write))? };
        let handle = Handle { key: registration.key, base: registration.base };
        let kept: (Registration, Arc<Segment>) = (registration, Arc::clone(memory));
        Ok(Lent { handle, _kept: Box::new(kept) })
    }

    /// Begins an access. Returns false if it has to go another way.
    pub(super) fn reach(&mut self, number: usize, far: Far, near: &Near<'_>) -> Result<bool, FabricFault> {
        let needs_registration = self.wants_registration();
        if let Near::Into(into, offset) = near
            && into.is_plain()
            && !needs_registration
            && !self.offer().is_automatic
        {
            let start = into.window_mut().part(*offset, far.len).as_mut_ptr();
            // SAFETY: pages of a buffer that is kept until the access has ended, and to which there are no references.
            let is_begun = unsafe { self.access(number, (start, core::ptr::null_mut()), far, false)? };
            if is_begun {
                self.accesses.near[number] = Some(NearSide::Pages { _kept: (*into).clone() });
                self.accesses.under_way += 1;
            }
            return Ok(is_begun);
        }
        if far.len > PLACE_BYTES {
            return Ok(false);
        }
        if self.accesses.places.is_none() {
            self.accesses.places = Some(self.make_places(needs_registration)?);
        }
        let Some(places) = &mut self.accesses.places else { return Ok(false) };
        let Some(place) = places.free.pop() else { return Ok(false) };
        let mut memory = places.memory.window_mut().part(place * PLACE_BYTES, far.len);
        let descriptor = places.registration.as_ref().map_or(core::ptr::null_mut(), Registration::descriptor);
        let (side, is_write) = match near {
            Near::Into(into, offset) => {
                let (into, offset, len) = ((*into).clone(), *offset, far.len);
                (NearSide::ReadBy { place, into, offset, len }, false)
            }
            Near::From(data) => {
                memory.write_window(0, *data);
                (NearSide::WrittenFrom { place, len: far.len }, true)
            }
        };
        let start = memory.as_mut_ptr();
        // SAFETY: a place of the link's own, registered if need be, which nothing else uses until the access is
        // forgotten.
        let begun = unsafe { self.access(number, (start, descriptor), far, is_write) };
        let is_begun = *begun.as_ref().unwrap_or(&false);
        self.accesses.near[number] = Some(side);
        if is_begun {
            self.accesses.under_way += 1;
            self.accesses.writes += usize::from(is_write);
        } else {
            self.accesses.forget(number);
        }
        begun
    }

    fn make_places(&self, needs_registration: bool) -> Result<Places, FabricFault> {
        let memory = Buffer::allocate(PLACES * PLACE_BYTES);
        let memory = memory.map_err(|source: Errno| FabricFault { call: "mmap", source })?;
        let registration = match needs_registration {
            // SAFETY: kept behind the registration, and only used through windows.
            true => Some(unsafe { self.register((memory.start(), memory.len()), FI_READ | FI_WRITE)? }),
            false => None,
        };
        Ok(Places { registration, memory, free: (0..PLACES).collect() })
    }
}
