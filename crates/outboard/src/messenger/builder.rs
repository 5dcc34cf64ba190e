//! Bundles that the user fills.

use std::slice;

use super::error::SendError;
use super::lanes::Lane;
use super::messages::Messenger;
use super::send::append;
use crate::Plain;

/// A bundle that was sent, to ask [whether it has arrived](Messenger::poll_completion).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BundleId {
    rank: u32,
    space: u8,
    /// None where there was nowhere to go: in this rank, or with nothing in it.
    number: Option<u64>,
}

impl BundleId {
    /// To whom it was sent.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// In which message space.
    pub fn space(&self) -> u8 {
        self.space
    }
}

/// A bundle that is being filled, apart from those that [`send`](Messenger::send) fills. Dropping it sends nothing.
pub struct BundleBuilder<'a> {
    messenger: &'a mut Messenger,
    rank: u32,
    space: u8,
    /// None once it is sent.
    lane: Option<Lane>,
}

impl Messenger {
    /// Begins a bundle for a rank, this one included. [`Full`](SendError::Full) is ordinary, here also in handlers: receive,
    /// and try again.
    pub fn bundle(&mut self, space: u8, rank: u32) -> Result<BundleBuilder<'_>, SendError> {
        self.check_space(space)?;
        self.check_rank(rank)?;
        let mut taken = self.worker.service().buffers().take(space);
        if taken.is_none() {
            // Others may have what is under way. A failure shows again in `progress`.
            let _ = self.worker.step();
            taken = self.worker.service().buffers().take(space);
        }
        let Some(buffer) = taken else {
            self.stats.full += 1;
            return Err(SendError::Full);
        };
        let lane = Some(Lane::open(self.worker.service().buffers(), buffer));
        Ok(BundleBuilder { messenger: self, rank, space, lane })
    }

    /// Whether the rank that a bundle was sent to has it: in its own memory, though perhaps not handled. An error if it is
    /// not known and never will be, because the rank is gone.
    pub fn poll_completion(&mut self, bundle: BundleId) -> Result<bool, SendError> {
        let BundleId { rank, space, number } = bundle;
        let Some(number) = number else { return Ok(true) };
        if self.worker.service().has_arrived(rank, space, number) {
            return Ok(true);
        }
        self.progress()?;
        if self.worker.service().has_arrived(rank, space, number) {
            return Ok(true);
        }
        self.check_rank(rank)?;
        Ok(false)
    }
}

impl BundleBuilder<'_> {
    /// Appends a message. Returns false if there is not enough room left.
    #[inline]
    pub fn push(&mut self, bytes: &[u8]) -> bool {
        let rank = self.rank;
        self.lane.as_mut().is_some_and(|lane| append(lane, rank, bytes))
    }

    /// Appends a value as a message. Returns false if there is not enough room left.
    #[inline]
    pub fn push_value<T: Plain>(&mut self, value: T) -> bool {
        self.push(value.as_bytes())
    }

    /// Appends a message of so many bytes, which `write` writes where they are sent from. Returns false if there is not
    /// enough room left; then nothing is written.
    #[inline]
    pub fn push_with(&mut self, len: usize, write: impl FnOnce(&mut [u8])) -> bool {
        let rank = self.rank;
        self.lane.as_mut().is_some_and(|lane| {
            // SAFETY: as many bytes as the lane was asked for, of memory that was all zero in the beginning; no other code has
            // the buffer before it is sent, and other processes never write to it.
            lane.append(rank, len, |place| write(unsafe { slice::from_raw_parts_mut(place, len) }))
        })
    }

    /// How long a message can be that still fits, whatever its size. Messages that are all of one size take less room.
    pub fn remaining(&self) -> usize {
        self.lane.as_ref().map_or(0, Lane::remaining)
    }

    /// How many bytes are in it, heads included where there are any.
    pub fn len(&self) -> usize {
        self.lane.as_ref().map_or(0, Lane::len)
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sends it. It goes on its way when this rank [makes progress](Messenger::progress).
    pub fn send(mut self) -> BundleId {
        let Self { rank, space, .. } = self;
        let mut id = BundleId { rank, space, number: None };
        if self.is_empty() {
            return id;
        }
        if let Some((sealed, form)) = self.lane.take().and_then(|mut lane| lane.seal()) {
            let me = self.messenger.rank;
            id.number = (rank != me).then(|| self.messenger.worker.service().next_number(rank, space));
            self.messenger.dispatch(space.into(), rank, sealed, form);
        }
        id
    }
}

impl Drop for BundleBuilder<'_> {
    fn drop(&mut self) {
        if let Some(lane) = self.lane.take() {
            self.messenger.worker.service().buffers().give_back(lane.buffer());
        }
    }
}
