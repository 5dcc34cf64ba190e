//! The memory of a worker's parcels, buffer by buffer.

use std::ops::Range;

/// The buffers of one worker. What lies in one may be several parcels.
pub(super) struct ParcelBuffers {
    first: u32,
    free: Vec<u32>,
    /// How many have a use for each of them.
    users: Vec<u32>,
}

impl ParcelBuffers {
    /// All of them are free.
    pub(super) fn new(all: Range<u32>) -> Self {
        // The first ones are taken first: who needs few touches little memory.
        Self { first: all.start, users: vec![0; all.len()], free: all.rev().collect() }
    }

    /// One that has one user from now on.
    pub(super) fn take(&mut self) -> Option<u32> {
        let buffer = self.free.pop()?;
        self.hold(buffer);
        Some(buffer)
    }

    /// One that was taken has another user.
    pub(super) fn hold(&mut self, buffer: u32) {
        self.users[(buffer - self.first) as usize] += 1;
    }

    /// Whether there are so many that even a user that could do without may take one.
    pub(super) fn are_plenty(&self) -> bool {
        self.free.len() * 2 > self.users.len()
    }

    /// How many are in use.
    pub(super) fn used(&self) -> usize {
        self.users.len() - self.free.len()
    }

    /// One of its users has no use for a buffer any more.
    pub(super) fn give_back(&mut self, buffer: u32) {
        let users = &mut self.users[(buffer - self.first) as usize];
        debug_assert!(*users > 0, "the buffer has no user");
        *users = users.saturating_sub(1);
        if *users == 0 {
            self.free.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_free_when_its_last_user_is_gone() {
        let mut buffers = ParcelBuffers::new(100..104);
        let buffer = buffers.take().unwrap();
        assert_eq!(buffer, 100);
        buffers.hold(buffer);
        buffers.give_back(buffer);
        assert_eq!(buffers.free, [103, 102, 101]);
        buffers.give_back(buffer);
        assert_eq!(buffers.free, [103, 102, 101, 100]);
    }

    #[test]
    fn the_last_half_is_for_those_who_cannot_do_without() {
        let mut buffers = ParcelBuffers::new(0..4);
        assert!(buffers.are_plenty());
        let taken = [buffers.take(), buffers.take()];
        assert!(!buffers.are_plenty());
        taken.into_iter().flatten().for_each(|buffer| buffers.give_back(buffer));
        assert!(buffers.are_plenty());
    }
}
