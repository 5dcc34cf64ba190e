//! The memory of a rank's bundles: those it writes, which others may read, and those it has received.

use outboard_contract::memory::Buffer;
use outboard_wire::Grant;

use super::pool::Pool;

/// How many slots every message space has for itself, and so have parcels.
const SLOTS_SHARE: u32 = 2;
/// By how much parcels may be longer than bundles: the runs in them have heads.
const PARCEL_SLACK: usize = 1 << 10;

/// The memory that a rank's owner gives it for bundles.
pub struct BundleMemory {
    /// What it writes and others may read.
    pub outgoing: Buffer,
    /// What others present to read it.
    pub grant: Grant,
    /// What it receives, of [`incoming_bytes`](Buffers::incoming_bytes).
    pub incoming: Buffer,
}

/// The memory of a rank's bundles.
pub struct Buffers {
    bundle_bytes: usize,
    outgoing: Buffer,
    grant: Grant,
    incoming: Buffer,
    /// Buffers to send, and slots for what is received.
    sending: Pool,
    pub(super) slots: Pool,
    /// How many runs lie in each slot.
    users: Vec<u32>,
}

impl Buffers {
    /// `sending` buffers of `bundle_bytes` to write and `receiving` slots to receive, for so many message spaces and so many
    /// ranks.
    pub fn new(
        memory: BundleMemory,
        bundle_bytes: usize,
        (sending, receiving): (u32, u32),
        (spaces, ranks): (usize, u32),
    ) -> Self {
        let BundleMemory { outgoing, grant, incoming } = memory;
        Self {
            bundle_bytes,
            outgoing,
            grant,
            incoming,
            // An open bundle for each rank, and one that is under way.
            sending: Pool::new(sending, spaces, ranks + 1),
            slots: Pool::new(receiving, spaces + 1, SLOTS_SHARE),
            users: vec![0; receiving as usize + 1],
        }
    }

    /// How much memory so many slots need for bundles of this size.
    pub fn incoming_bytes(bundle_bytes: usize, receiving: u32) -> usize {
        // One more, for parcels that come when there is no other slot.
        (receiving as usize + 1) * (bundle_bytes + PARCEL_SLACK)
    }

    /// How long a bundle can be.
    #[inline]
    pub fn bundle_bytes(&self) -> usize {
        self.bundle_bytes
    }

    /// What others present to read what this rank sends.
    #[inline]
    pub fn grant(&self) -> &Grant {
        &self.grant
    }

    /// The memory that this rank writes its bundles to.
    #[inline]
    pub fn outgoing(&self) -> &Buffer {
        &self.outgoing
    }

    /// The memory that holds what has arrived.
    #[inline]
    pub fn incoming(&self) -> &Buffer {
        &self.incoming
    }

    /// How long a slot is: as long as the longest parcel.
    #[inline]
    pub fn slot_bytes(&self) -> usize {
        self.bundle_bytes + PARCEL_SLACK
    }

    /// Where a slot begins.
    #[inline]
    pub fn slot_offset(&self, slot: u32) -> usize {
        slot as usize * self.slot_bytes()
    }

    /// The slot that belongs to no source.
    pub(super) fn overflow(&self) -> u32 {
        self.slots.len() as u32
    }

    /// A slot has one run more in it than is known.
    pub(super) fn hold_slot(&mut self, slot: u32) {
        self.users[slot as usize] += 1;
    }

    /// Where a buffer begins.
    #[inline]
    pub fn offset(&self, buffer: u32) -> usize {
        buffer as usize * self.bundle_bytes
    }

    /// Takes a buffer for a message space.
    #[inline]
    pub fn take(&mut self, space: u8) -> Option<u32> {
        self.sending.take(space)
    }

    /// How many buffers are free.
    #[inline]
    pub fn free(&self) -> usize {
        self.sending.free()
    }

    /// Gives a buffer back.
    #[inline]
    pub fn give_back(&mut self, buffer: u32) {
        self.sending.give_back(buffer);
    }

    /// Gives the slot of something that arrived back; it is free when all that lies in it has been given back.
    pub fn give_slot_back(&mut self, slot: u32) {
        match self.users[slot as usize].checked_sub(1) {
            Some(left) => self.users[slot as usize] = left,
            None if slot != self.overflow() => self.slots.give_back(slot),
            None => {}
        }
    }

    /// The least that so many message spaces and ranks need: buffers to send, and slots to receive.
    pub fn least(spaces: usize, ranks: u32) -> (u32, u32) {
        (spaces as u32 * (ranks + 1), (spaces as u32 + 1) * SLOTS_SHARE)
    }
}
