//! Which site runs which calls, and what is known of the sites.

use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::DecodeError;
use crate::error::exact;

/// How many slots calls are divided into, by the hash of their key.
pub const SLOTS: usize = 256;

/// Where the calls of a slot run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Place {
    /// At whoever calls.
    Application = 0,
    /// At the agent of whoever calls.
    Agent = 1,
    /// At the memory server.
    Server = 2,
}

impl Place {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 3] = [Self::Application, Self::Agent, Self::Server];
}

/// From a memory server to callers and agents: where the calls of every slot run from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table {
    /// Grows with every change.
    pub epoch: u64,
    /// By the number of the slot.
    pub places: [Place; SLOTS],
}

/// Slots whose places stand in one byte, the first in the lowest bits.
const PER_BYTE: usize = 4;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct TableBytes {
    epoch: U64,
    places: [u8; SLOTS / PER_BYTE],
}

const _: () = assert!(size_of::<TableBytes>() == Table::LEN);

impl Table {
    /// Its size in bytes.
    pub const LEN: usize = 72;

    /// As it travels.
    pub fn encode(&self) -> [u8; Self::LEN] {
        let mut places = [0; SLOTS / PER_BYTE];
        for (slot, place) in self.places.iter().enumerate() {
            places[slot / PER_BYTE] |= (*place as u8) << (slot % PER_BYTE * 2);
        }
        zerocopy::transmute!(TableBytes { epoch: self.epoch.into(), places })
    }

    /// Reads what [`encode`](Self::encode) wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let bytes: &TableBytes = exact("table of slots", bytes)?;
        let mut places = [Place::Server; SLOTS];
        for (slot, place) in places.iter_mut().enumerate() {
            let number = bytes.places[slot / PER_BYTE] >> (slot % PER_BYTE * 2) & 3;
            let known = Place::ALL.get(usize::from(number));
            let value = number.into();
            *place = *known.ok_or(DecodeError::BadValue { what: "place of a slot", value })?;
        }
        Ok(Self { epoch: bytes.epoch.get(), places })
    }
}
