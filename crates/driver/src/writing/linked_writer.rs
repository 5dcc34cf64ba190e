//! A writer with its links, whatever kinds these are of.

use std::time::Duration;

use outboard_link::{AccessError, Clock, LinkError, Peer};
use outboard_wire::{Grant, Time};
use outboard_writing::Initiator;

/// A writer over links of any kinds. [Beginning a write](super::WriterLinks::begin) is not part of it: where the region is mapped
/// that is a few checks and a copy.
pub trait LinkedWriter {
    /// Opens a region, to write as far as the grant allows it, and returns the slot that stands for it.
    fn open(&mut self, grant: &Grant, patience: Duration) -> Result<u32, AccessError>;

    /// Gives a region back. Writes to it must have ended.
    fn close_region(&mut self, slot: u32);

    /// Does what there is to do now. Returns whether anything moved.
    fn turn(&mut self) -> bool;

    /// Sleeps until there may be something to do, at most until `limit`.
    fn sleep(&mut self, limit: Time) -> Result<(), LinkError>;

    /// The clock that it goes by.
    fn clock(&self) -> Clock;

    /// The protocol's state.
    fn initiator(&self) -> &Initiator;

    /// The protocol's state, to change it.
    fn initiator_mut(&mut self) -> &mut Initiator;

    /// The process that drains what is unloaded at present: an agent, or the server itself.
    fn drained_by(&self) -> &Peer;

    /// The process that is awaited when something takes long.
    fn awaited(&self) -> &Peer;

    /// Says goodbye. Writes that are under way may be lost.
    fn close(&mut self);
}
