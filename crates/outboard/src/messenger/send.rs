//! Messages on their way out.

use outboard_wire::routing::{Form, MessageHead};

use super::error::SendError;
use super::lanes::Lane;
use super::messages::Messenger;
use super::receive::{Item, Place};
use crate::Plain;

impl Messenger {
    /// Sends a value to a rank, this one included.
    #[inline(always)]
    pub fn send_value<T: Plain>(&mut self, rank: u32, value: T) -> Result<(), SendError> {
        self.send_value_in(0, rank, value)
    }

    /// Sends a value to a rank, in another message space.
    #[inline(always)]
    pub fn send_value_in<T: Plain>(&mut self, space: u8, rank: u32, value: T) -> Result<(), SendError> {
        if let Some(lane) = self.lane_for(space, rank)
            // SAFETY: as many bytes as the value has, where the lane wants them; no alignment is needed.
            && lane.append(rank, size_of::<T>(), |place| unsafe { place.cast::<T>().write_unaligned(value) })
        {
            return Ok(());
        }
        self.send_slowly(space, rank, value.as_bytes())
    }

    /// Sends bytes to a rank, this one included.
    #[inline]
    pub fn send(&mut self, rank: u32, bytes: &[u8]) -> Result<(), SendError> {
        self.send_in(0, rank, bytes)
    }

    /// Sends bytes to a rank, in another message space.
    #[inline]
    pub fn send_in(&mut self, space: u8, rank: u32, bytes: &[u8]) -> Result<(), SendError> {
        if let Some(lane) = self.lane_for(space, rank)
            && append(lane, rank, bytes)
        {
            return Ok(());
        }
        self.send_slowly(space, rank, bytes)
    }

    /// Sends what is in open bundles.
    pub fn flush(&mut self) -> Result<(), SendError> {
        self.flush_in(0)
    }

    /// Sends what is in open bundles of another message space.
    pub fn flush_in(&mut self, space: u8) -> Result<(), SendError> {
        self.check_space(space)?;
        for rank in 0..self.ranks {
            self.seal(usize::from(space), rank);
        }
        self.progress().map(|_| ())
    }

    pub(super) fn check_space(&self, space: u8) -> Result<(), SendError> {
        let spaces = self.spaces;
        if space < spaces { Ok(()) } else { Err(SendError::NoSuchSpace { space, spaces }) }
    }

    /// Whether there is such a rank, and it is still there.
    pub(super) fn check_rank(&mut self, rank: u32) -> Result<(), SendError> {
        if rank >= self.ranks {
            return Err(SendError::NoSuchRank { rank, ranks: self.ranks });
        }
        if let Some(departed) = self.worker.service().departed().iter().find(|departed| departed.rank == rank)
        {
            return Err(SendError::Departed { rank, why: departed.why.clone() });
        }
        if self.agreement.has_left(rank) {
            return Err(SendError::Departed { rank, why: "it has left".to_owned() });
        }
        Ok(())
    }

    /// The lane for a rank in a space, if both exist. One comparison where the space is known to be the first.
    #[inline(always)]
    fn lane_for(&mut self, space: u8, rank: u32) -> Option<&mut Lane> {
        if rank >= self.ranks || (space > 0 && space >= self.spaces) {
            return None;
        }
        let index = space as usize * self.ranks as usize + rank as usize;
        // SAFETY: there is a lane for each rank in each space, of which there is at least one, and the number of none of
        // them ever changes.
        Some(unsafe { self.lanes.get_unchecked_mut(index) })
    }

    pub(super) fn lane(&mut self, set: usize, rank: u32) -> &mut Lane {
        &mut self.lanes[set * self.ranks as usize + rank as usize]
    }

    #[cold]
    #[inline(never)]
    fn send_slowly(&mut self, space: u8, rank: u32, bytes: &[u8]) -> Result<(), SendError> {
        self.check_space(space)?;
        let (len, max) = (bytes.len(), self.options.longest);
        self.check_rank(rank)?;
        if len > max {
            return Err(SendError::TooLong { len, max });
        }
        let set = usize::from(space);
        if MessageHead::stride(len) > self.bundle_bytes {
            if !self.is_in_handler && self.backlogs[set].bytes() > max {
                return self.full();
            }
            self.next_number += 1;
            self.backlogs[set].push_long(rank, bytes.to_vec(), self.next_number);
            return Ok(());
        }
        // Messages that wait already find no bundle, so this one does not either.
        let is_behind = self.is_in_handler && !self.backlogs[set].is_empty();
        if !is_behind && self.open(set, rank) && append(self.lane(set, rank), rank, bytes) {
            return Ok(());
        }
        if !self.is_in_handler {
            return self.full();
        }
        // A handler cannot wait.
        self.backlogs[set].push_short(rank, bytes);
        Ok(())
    }

    fn full(&mut self) -> Result<(), SendError> {
        self.stats.full += 1;
        Err(SendError::Full)
    }

    /// Ends a lane's bundle and begins another. Returns false if there is none.
    pub(super) fn open(&mut self, set: usize, rank: u32) -> bool {
        self.seal(set, rank);
        // Word of the bundle goes out, and others learn that theirs have arrived. A failure shows again in `progress`.
        let _ = self.worker.step();
        self.take_buffer(set, rank)
    }

    fn take_buffer(&mut self, set: usize, rank: u32) -> bool {
        let (most, ranks) = (self.options.buffers, self.ranks as usize);
        let service = self.worker.service();
        // A rank that takes nothing does not get the last bundles: others are to have some.
        if rank != self.rank && service.kept_for(rank, set as u8) >= most && service.buffers().free() < ranks
        {
            return false;
        }
        let buffers = service.buffers();
        let Some(buffer) = buffers.take(set as u8) else { return false };
        let lane = Lane::open(buffers, buffer);
        *self.lane(set, rank) = lane;
        true
    }

    /// Puts a signal into its bundle. Returns false if there is none.
    pub(super) fn send_signal(&mut self, rank: u32, letter: &[u8]) -> bool {
        let set = usize::from(self.spaces);
        append(self.lane(set, rank), rank, letter)
            || (self.open(set, rank) && append(self.lane(set, rank), rank, letter))
    }

    /// Sends what is in a lane, if anything.
    pub(super) fn seal(&mut self, set: usize, rank: u32) {
        if let Some((sealed, form)) = self.lane(set, rank).seal() {
            self.dispatch(set, rank, sealed, form);
        }
    }

    pub(super) fn dispatch(&mut self, set: usize, rank: u32, (buffer, len): (u32, u32), form: Form) {
        self.agreement.sent(set, len);
        self.stats.bundles_sent += 1;
        self.stats.bytes_sent += u64::from(len);
        if set < usize::from(self.spaces) {
            self.stats.count_hop(rank == self.rank, len);
        }
        if rank == self.rank {
            let place = Place::Own(buffer);
            self.inbox[set].push_back(Item { source: rank, place, len, form });
        } else {
            self.choose_carrier(len);
            self.worker.service().seal(rank, (buffer, len), set as u8, form);
        }
    }
}

#[inline]
pub(super) fn append(lane: &mut Lane, rank: u32, bytes: &[u8]) -> bool {
    lane.append(rank, bytes.len(), |place| {
        // SAFETY: as many bytes as the lane was asked for; what is sent never lies in a bundle that is being written.
        unsafe { place.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    })
}
