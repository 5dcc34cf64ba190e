//! What travels between source and destination.

use outboard_wire::{FrameHead, Incarnation, Kind, Room};

use crate::Digest;

/// A message on its way to the destination.
pub(super) const PARCEL: Kind = Kind::new(Room::Trial, 1);
/// How far the destination has got.
pub(super) const RECEIPT: Kind = Kind::new(Room::Trial, 2);

/// A message with its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Parcel {
    pub(super) sequence: u64,
    /// The first message that the source still keeps: where a destination without memory begins.
    pub(super) base: u64,
    pub(super) body: Vec<u8>,
}

const FIXED: usize = 24;

/// The simulated wire may put a foreign end on a frame before it breaks, so everything carries a check.
fn check(parties: [Incarnation; 2], numbers: [u64; 2], body: &[u8]) -> u64 {
    let mut digest = Digest::new();
    parties.into_iter().for_each(|party| digest.word(party.0));
    numbers.into_iter().for_each(|number| digest.word(number));
    digest.bytes(body);
    digest.value()
}

fn word(bytes: &[u8], index: usize) -> Option<u64> {
    let word = bytes.get(index * 8..index * 8 + 8)?;
    word.try_into().ok().map(u64::from_le_bytes)
}

impl Parcel {
    pub(super) fn head(&self) -> FrameHead {
        FrameHead::new(PARCEL).with_tag(self.sequence as u32)
    }

    pub(super) fn encode(&self, from: Incarnation, to: Incarnation) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(FIXED + self.body.len());
        let check = check([from, to], [self.sequence, self.base], &self.body);
        for word in [self.sequence, self.base, check] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes.extend_from_slice(&self.body);
        bytes
    }

    /// The parcel, unless it was spoilt on its way.
    pub(super) fn decode(bytes: &[u8], from: Incarnation, to: Incarnation) -> Option<Self> {
        let (sequence, base, told) = (word(bytes, 0)?, word(bytes, 1)?, word(bytes, 2)?);
        let body = bytes.get(FIXED..)?.to_vec();
        let is_sound = told == check([from, to], [sequence, base], &body);
        is_sound.then_some(Self { sequence, base, body })
    }
}

/// The number of the first message that the destination still misses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Receipt(pub(super) u64);

impl Receipt {
    pub(super) fn head(self) -> FrameHead {
        FrameHead::new(RECEIPT).with_tag(self.0 as u32)
    }

    pub(super) fn encode(self, from: Incarnation, to: Incarnation) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.0.to_le_bytes());
        bytes[8..].copy_from_slice(&check([from, to], [self.0, 0], &[]).to_le_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8], from: Incarnation, to: Incarnation) -> Option<Self> {
        let (number, told) = (word(bytes, 0)?, word(bytes, 1)?);
        (bytes.len() == 16 && told == check([from, to], [number, 0], &[])).then_some(Self(number))
    }
}
