//! Which site runs which calls, and what is known of the sites.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::error::exact;
use crate::{DecodeError, Site};

/// How many slots calls are divided into, by the hash of their key.
pub const SLOTS: usize = 256;

/// From a memory server to callers and agents: where the calls of every slot run from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotSites {
    /// Grows with every change.
    pub epoch: u64,
    /// By the number of the slot.
    pub sites: [Site; SLOTS],
}

/// From a caller or an agent to a memory server: tell me where slots are, now and whenever that changes. Answered by a
/// [`SlotSites`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotQuestion {
    /// Which table is known; zero if none.
    pub epoch: u64,
}

/// From an agent to a memory server: how calls on the server's regions fared at the agent since it last said so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SiteLoad {
    /// Since when, in nanoseconds.
    pub span_ns: u64,
    /// How many workers run calls.
    pub workers: u32,
    /// Calls that ended.
    pub calls: u32,
    /// For how long these had waited until they began, in total. The time in which a worker with calls was kept from
    /// running counts for each call that it then finds.
    pub queueing_ns: u64,
    /// For how long workers were busy with calls, in total.
    pub busy_ns: u64,
    /// For how long these calls lasted from their beginning to their end, suspensions included, in total.
    pub service_ns: u64,
    /// How long the call that waits longest has waited; zero if none does.
    pub oldest_ns: u64,
}

/// What a caller has seen of one site since it last said so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Whether the caller can have calls run there.
    pub is_usable: bool,
    /// Calls that were answered.
    pub calls: u32,
    /// What these took from the caller's point of view, in total.
    pub round_trips_ns: u64,
    /// The age of the oldest call without an answer; zero if there is none.
    pub oldest_ns: u64,
    /// Calls that went elsewhere because nothing was heard from there, beside those that were answered.
    pub left: u32,
    /// For how long these had waited, in total.
    pub left_ns: u64,
}

/// From a caller to a memory server: how calls on the server's regions fared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// By the number of the [`Site`].
    pub sites: [Seen; 3],
}

/// Slots whose sites stand in one byte, the first in the lowest bits.
const PER_BYTE: usize = 4;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct TableBytes {
    epoch: U64,
    sites: [u8; SLOTS / PER_BYTE],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct LoadBytes {
    span_ns: U64,
    workers: U32,
    calls: U32,
    queueing_ns: U64,
    busy_ns: U64,
    service_ns: U64,
    oldest_ns: U64,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct SeenBytes {
    is_usable: U32,
    calls: U32,
    round_trips_ns: U64,
    oldest_ns: U64,
    left_ns: U64,
    left: U32,
    zero: U32,
}

const _: () = assert!(size_of::<TableBytes>() == SlotSites::LEN);
const _: () = assert!(size_of::<LoadBytes>() == SiteLoad::LEN);
const _: () = assert!(3 * size_of::<SeenBytes>() == Observed::LEN);

impl SlotSites {
    /// Its size in bytes.
    pub const LEN: usize = 72;

    /// As it travels.
    pub fn encode(&self) -> [u8; Self::LEN] {
        let mut sites = [0; SLOTS / PER_BYTE];
        for (slot, place) in self.sites.iter().enumerate() {
            sites[slot / PER_BYTE] |= (*place as u8) << (slot % PER_BYTE * 2);
        }
        zerocopy::transmute!(TableBytes { epoch: self.epoch.into(), sites })
    }

    /// Reads what [`encode`](Self::encode) wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let bytes: &TableBytes = exact("table of slots", bytes)?;
        let mut sites = [Site::Server; SLOTS];
        for (slot, place) in sites.iter_mut().enumerate() {
            let number = bytes.sites[slot / PER_BYTE] >> (slot % PER_BYTE * 2) & 3;
            let known = Site::ALL.get(usize::from(number));
            let value = number.into();
            *place = *known.ok_or(DecodeError::BadValue { what: "place of a slot", value })?;
        }
        Ok(Self { epoch: bytes.epoch.get(), sites })
    }
}

impl SlotQuestion {
    /// Its size in bytes.
    pub const LEN: usize = 8;

    /// As it travels.
    pub fn encode(&self) -> [u8; Self::LEN] {
        self.epoch.to_le_bytes()
    }

    /// Reads what [`encode`](Self::encode) wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let epoch: &U64 = exact("question for the table of slots", bytes)?;
        Ok(Self { epoch: epoch.get() })
    }
}

impl SiteLoad {
    /// Its size in bytes.
    pub const LEN: usize = 48;

    /// As it travels.
    pub fn encode(&self) -> [u8; Self::LEN] {
        zerocopy::transmute!(LoadBytes {
            span_ns: self.span_ns.into(),
            workers: self.workers.into(),
            calls: self.calls.into(),
            queueing_ns: self.queueing_ns.into(),
            busy_ns: self.busy_ns.into(),
            service_ns: self.service_ns.into(),
            oldest_ns: self.oldest_ns.into(),
        })
    }

    /// Reads what [`encode`](Self::encode) wrote. Any number is possible: the controller bounds what it can do.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let bytes: &LoadBytes = exact("load of a site", bytes)?;
        Ok(Self {
            span_ns: bytes.span_ns.get(),
            workers: bytes.workers.get(),
            calls: bytes.calls.get(),
            queueing_ns: bytes.queueing_ns.get(),
            busy_ns: bytes.busy_ns.get(),
            service_ns: bytes.service_ns.get(),
            oldest_ns: bytes.oldest_ns.get(),
        })
    }
}

impl Observed {
    /// Its size in bytes.
    pub const LEN: usize = 120;

    /// As it travels.
    pub fn encode(&self) -> [u8; Self::LEN] {
        let sites = self.sites.map(|seen| SeenBytes {
            is_usable: u32::from(seen.is_usable).into(),
            calls: seen.calls.into(),
            round_trips_ns: seen.round_trips_ns.into(),
            oldest_ns: seen.oldest_ns.into(),
            left_ns: seen.left_ns.into(),
            left: seen.left.into(),
            zero: 0.into(),
        });
        zerocopy::transmute!(sites)
    }

    /// Reads what [`encode`](Self::encode) wrote. Any number is possible: the controller bounds what it can do.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let bytes: &[SeenBytes; 3] = exact("what a caller observed", bytes)?;
        let mut sites = [Seen::default(); 3];
        for (seen, bytes) in sites.iter_mut().zip(bytes) {
            let is_usable = match bytes.is_usable.get() {
                0 => false,
                1 => true,
                value => {
                    return Err(DecodeError::BadValue { what: "usability of a site", value: value.into() });
                }
            };
            if bytes.zero.get() != 0 {
                return Err(DecodeError::BadValue {
                    what: "end of what was seen",
                    value: bytes.zero.get().into(),
                });
            }
            *seen = Seen {
                is_usable,
                calls: bytes.calls.get(),
                round_trips_ns: bytes.round_trips_ns.get(),
                oldest_ns: bytes.oldest_ns.get(),
                left: bytes.left.get(),
                left_ns: bytes.left_ns.get(),
            };
        }
        Ok(Self { sites })
    }
}
