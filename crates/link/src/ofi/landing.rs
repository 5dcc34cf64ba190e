//! Where the peer writes long messages.
//!
//! A long message is not sent but written to memory that the receiver has made for it and whose key it has told, and the
//! completion that the receiver gets says where it lies and how long it is: a provider need not cut it, nor ask for it,
//! nor keep a copy. There are as many places as messages may be on their way and they are used in turn, so that a side that may
//! send a message has a place for it.

use outboard_wire::DecodeError;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::credits::Header;
use super::endpoint::{Endpoint, Far};
use super::library::FabricFault;
use super::object::Registration;
use super::pool::Share;
use super::preface::{SLOT_BYTES_MAX, SLOTS_MAX};
use crate::Violation;
use crate::memory::{Buffer, Window};

/// How many bits of a note are the length of a message; the others are its place.
const LENGTH_BITS: u32 = 21;
const _: () = assert!(SLOT_BYTES_MAX < 1 << LENGTH_BITS && SLOTS_MAX <= 1 << (u32::BITS - LENGTH_BITS));

/// Memory that the peer writes to.
pub(super) struct Landing {
    registration: Registration,
    /// Read through windows only: the peer may write whenever it likes.
    memory: Buffer,
    places: usize,
    place_bytes: usize,
    _share: Share,
}

impl Landing {
    /// Makes places, if the pool has room for them.
    pub(super) fn make(
        endpoint: &Endpoint,
        (places, place_bytes): (usize, usize),
        pool_bytes: usize,
    ) -> Result<Option<Self>, FabricFault> {
        let bytes = places * place_bytes;
        let Some(_share) = Share::take(bytes, pool_bytes) else { return Ok(None) };
        let memory = Buffer::allocate(bytes).map_err(|source| FabricFault { call: "mmap", source })?;
        // SAFETY: kept behind the registration, and only used through windows.
        let registration = unsafe { endpoint.register_far((memory.start(), memory.len()), (false, true))? };
        Ok(Some(Self { registration, memory, places, place_bytes, _share }))
    }

    /// The address and key that the peer has to know.
    pub(super) fn grant(&self) -> Grant {
        Grant {
            key: self.registration.key.into(),
            base: self.registration.base.into(),
            places: (self.places as u32).into(),
            place_bytes: (self.place_bytes as u32).into(),
        }
    }

    /// Where the message lies that a note tells of, and how long it is.
    pub(super) fn find(&self, note: u32) -> Result<(usize, usize), Violation> {
        let (place, len) = ((note >> LENGTH_BITS) as usize, (note & ((1 << LENGTH_BITS) - 1)) as usize);
        if place >= self.places || !(Header::LEN + 1..=self.place_bytes).contains(&len) {
            return Err(DecodeError::BadValue { what: "note of a message", value: note.into() }.into());
        }
        Ok((place, len))
    }

    /// The first `len` bytes of a place.
    #[inline]
    pub(super) fn message(&self, place: usize, len: usize) -> Window<'_> {
        self.memory.window().part(place * self.place_bytes, len)
    }
}

/// The words of a side about its landing, in a message of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Grant {
    key: U64,
    base: U64,
    places: U32,
    place_bytes: U32,
}

/// The peer's landing.
#[derive(Debug)]
pub(super) struct FarLanding {
    key: u64,
    base: u64,
    places: usize,
    /// The longest message, which both sides have places for.
    pub(super) message_bytes: usize,
    place_bytes: usize,
    /// How many messages were written there.
    pub(super) written: u64,
}

impl FarLanding {
    /// Takes the peer's word, if it has as many places as messages may be on their way to it.
    pub(super) fn new(grant: &Grant, messages: usize, longest: usize) -> Result<Self, Violation> {
        let (places, place_bytes) = (grant.places.get() as usize, grant.place_bytes.get() as usize);
        if !(messages..=SLOTS_MAX).contains(&places) {
            return Err(DecodeError::BadValue { what: "number of places", value: places as u64 }.into());
        }
        if !(Header::LEN + 1..=SLOT_BYTES_MAX).contains(&place_bytes) {
            return Err(DecodeError::BadValue { what: "length of a place", value: place_bytes as u64 }.into());
        }
        let (key, base) = (grant.key.get(), grant.base.get());
        Ok(Self { key, base, places, message_bytes: place_bytes.min(longest), place_bytes, written: 0 })
    }

    /// Where the next message goes, and the note that tells of it.
    pub(super) fn next(&mut self, len: usize) -> (Far, u32) {
        let place = (self.written % self.places as u64) as usize;
        self.written += 1;
        let address = self.base.wrapping_add((place * self.place_bytes) as u64);
        (Far { key: self.key, address, len }, (place as u32) << LENGTH_BITS | len as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(places: u32, place_bytes: u32) -> Grant {
        Grant { key: 7.into(), base: 0x1000.into(), places: places.into(), place_bytes: place_bytes.into() }
    }

    #[test]
    fn places_are_used_in_turn_and_a_note_names_them() {
        let mut far = FarLanding::new(&grant(30, 66_560), 27, 1 << 20).unwrap();
        for round in 0..65u32 {
            let (to, note) = far.next(66_560);
            let place = round % 30;
            assert_eq!(to, Far { key: 7, address: 0x1000 + u64::from(place) * 66_560, len: 66_560 });
            assert_eq!((note >> LENGTH_BITS, note & 0x1f_ffff), (place, 66_560));
        }
    }

    #[test]
    fn the_longest_message_in_the_last_place_fits_a_note() {
        let mut far = FarLanding::new(&grant(1024, 1 << 20), 8, 1 << 20).unwrap();
        let notes: Vec<u32> = (0..1024).map(|_| far.next(1 << 20).1).collect();
        assert_eq!(notes[1023], 1023 << LENGTH_BITS | 1 << 20);
    }

    #[test]
    fn a_grant_that_would_lead_past_its_places_is_refused() {
        for (places, place_bytes) in
            [(29, 4096), (1025, 4096), (30, 8), (30, (1 << 20) + 1), (u32::MAX, 4096)]
        {
            assert!(FarLanding::new(&grant(places, place_bytes), 30, 1 << 20).is_err(), "{places}");
        }
        // Room that this side could not use anyway is left out.
        assert_eq!(FarLanding::new(&grant(30, 1 << 20), 30, 4096).unwrap().message_bytes, 4096);
    }
}
