//! Frames of this room, as all three sides read them.

use outboard_contract::Frame;
use outboard_contract::memory::Window;
use outboard_wire::paging::{FIXED_LEN_MAX, PagingReply, PagingRequest};
use outboard_wire::{FrameKind, Room};

/// Whether a frame is about far memory.
#[inline]
pub fn is_paging(kind: FrameKind) -> bool {
    kind.0 >> 8 == Room::Paging as u16
}

/// A request and the data behind it, which stay where they arrived; none if it cannot be read.
#[inline]
pub fn read_request<'a>(frame: &Frame<'a>) -> Option<(PagingRequest, Window<'a>)> {
    let len = PagingRequest::fixed_len(frame.head.kind)?;
    let mut fixed = [0; FIXED_LEN_MAX];
    let data = split(frame.payload, fixed.get_mut(..len)?)?;
    Some((PagingRequest::decode(frame.head.kind, &fixed[..len], data.len()).ok()?, data))
}

/// A reply and the data behind it, likewise.
#[inline]
pub fn read_reply<'a>(frame: &Frame<'a>) -> Option<(PagingReply, Window<'a>)> {
    let len = PagingReply::fixed_len(frame.head.kind)?;
    let mut fixed = [0; FIXED_LEN_MAX];
    let data = split(frame.payload, fixed.get_mut(..len)?)?;
    Some((PagingReply::decode(frame.head.kind, &fixed[..len], data.len()).ok()?, data))
}

/// Copies what a frame begins with, and returns the rest.
#[inline]
fn split<'a>(payload: Window<'a>, fixed: &mut [u8]) -> Option<Window<'a>> {
    let data_len = payload.len().checked_sub(fixed.len())?;
    payload.read(0, fixed);
    Some(payload.part(fixed.len(), data_len))
}
