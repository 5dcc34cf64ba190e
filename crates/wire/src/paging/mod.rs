//! Far memory as messages: how an application asks its agent for chunks, and how written chunks come home.
//!
//! The frame's tag pairs a [`PagingReply`] with its [`PagingRequest`]. Every message begins with a fixed part whose length is
//! a multiple of 16 bytes, so that the data behind it can be copied straight from and into the frame.
//!
//! A region's *write epoch* is a number that its server keeps. Every new writer raises it, and so does
//! [`PagingRequest::Fence`]; a write-back of an older epoch is refused. So an application that gives up on a silent agent
//! fences first and then sends what was not acknowledged itself: whatever that agent still sends can do no harm.
//! No chunk ever has two write-backs under way, so one number for a region does what one for each chunk would.

mod reply;
mod request;

pub use reply::{AttachRefusal, FetchSource, PagingReply, PagingStatus};
pub use request::{AttachRegion, CacheMode, DetachRegion, Fence, Fetch, PagingRequest, Urgency, WriteBack};

use crate::{DecodeError, FrameKind, Room};

const ATTACH: FrameKind = FrameKind::new(Room::Paging, 1);
const DETACH: FrameKind = FrameKind::new(Room::Paging, 2);
const FETCH: FrameKind = FrameKind::new(Room::Paging, 3);
const WRITE_BACK: FrameKind = FrameKind::new(Room::Paging, 4);
const FENCE: FrameKind = FrameKind::new(Room::Paging, 5);
pub(crate) const DISCARD: FrameKind = FrameKind::new(Room::Paging, 6);

const ATTACHED: FrameKind = FrameKind::new(Room::Paging, 32);
const REFUSED: FrameKind = FrameKind::new(Room::Paging, 33);
const FETCHED: FrameKind = FrameKind::new(Room::Paging, 34);
const WRITTEN: FrameKind = FrameKind::new(Room::Paging, 35);
const FENCED: FrameKind = FrameKind::new(Room::Paging, 36);

/// The longest fixed part of any message here, in bytes.
pub const FIXED_LEN_MAX: usize = 128;

fn unused(what: &'static str, bytes: &[u8]) -> Result<(), DecodeError> {
    match bytes.iter().find(|byte| **byte != 0) {
        Some(byte) => Err(DecodeError::BadValue { what, value: (*byte).into() }),
        None => Ok(()),
    }
}

fn data_is(expected: u32, data_len: usize) -> Result<(), DecodeError> {
    if data_len == expected as usize {
        Ok(())
    } else {
        Err(DecodeError::BadValue { what: "length of a paging message's data", value: data_len as u64 })
    }
}

#[cfg(test)]
mod tests;
