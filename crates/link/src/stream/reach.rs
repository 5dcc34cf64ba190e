//! Memory that is reached without its owner's processor, where a stream can do that.
//!
//! The owner lends a region when it is opened, by registering it, and sends the handle with its answer. From then on
//! reads and writes of that region go past its frames. What fails there is asked for again by frames, where the owner
//! says what is wrong: the region may be withdrawn, and then its registration is gone as well. Atomics always go by
//! frames: those of network cards are not atomic against processors.

use std::any::Any;

use outboard_wire::access::{AccessRequest, FIXED_LEN_MAX, RegionSpan};
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::bytes::ByteStream;
use super::desk::Desk;
use super::link::StreamLink;
use super::requester::Pending;
use crate::memory::{Buffer, Window};
use crate::{AccessError, OpenRegion};

/// The facts by which a region is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handle {
    /// The key of its registration.
    pub(crate) key: u64,
    /// Where it begins, in the numbering of its registration.
    pub(crate) base: u64,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct HandleBytes {
    key: U64,
    base: U64,
}

impl Handle {
    pub(super) const LEN: usize = size_of::<HandleBytes>();

    pub(super) fn encode(&self) -> [u8; Self::LEN] {
        zerocopy::transmute!(HandleBytes { key: self.key.into(), base: self.base.into() })
    }

    /// The handle that follows an answer, if one does.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes = HandleBytes::read_from_bytes(bytes).ok()?;
        Some(Self { key: bytes.key.get(), base: bytes.base.get() })
    }
}

/// A region that is lent until this is dropped.
pub(crate) struct Lent {
    pub(crate) handle: Handle,
    /// The registration, which this keeps alive.
    pub(crate) _kept: Box<dyn Any + Send>,
}

/// The bytes to be moved.
pub(crate) enum Near<'a> {
    /// Bytes to be read into this place.
    Into(&'a Buffer, usize),
    /// Bytes to be written.
    From(Window<'a>),
}

/// The end of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reached {
    /// Its number.
    pub(crate) number: u16,
    pub(crate) is_done: bool,
}

/// An access that goes past the frames.
pub(super) struct FarAccess {
    pub(super) tag: u32,
    pub(super) region: OpenRegion,
    pub(super) span: RegionSpan,
    pub(super) is_write: bool,
}

impl<S: ByteStream> StreamLink<S> {
    /// Begins an access past the frames if its region can be reached so. Otherwise the operation comes back.
    pub(super) fn begin_far(
        &mut self,
        region: OpenRegion,
        span: RegionSpan,
        near: Near<'_>,
        pending: Pending,
    ) -> Result<Option<Pending>, AccessError> {
        let requester = &mut self.desk.requester;
        let Some(handle) = requester.region(region)?.handle.filter(|_| span.len > 0) else {
            return Ok(Some(pending));
        };
        let number = requester.next_number().ok_or(AccessError::Full)?;
        let is_write = matches!(near, Near::From(_));
        let far = (Handle { base: handle.base.wrapping_add(span.offset), ..handle }, span.len as usize);
        if !self.stream.reach(number, far, near) {
            return Ok(Some(pending));
        }
        requester.begin_far(pending, |tag| FarAccess { tag, region, span, is_write });
        self.desk.counters.accesses += 1;
        Ok(None)
    }

    /// Ends what has been reached, and asks by frames for what has not. Returns whether there was anything.
    pub(super) fn end_far(&mut self) -> bool {
        let mut moved = false;
        while let Some(Reached { number, is_done }) = self.stream.reached() {
            moved = true;
            self.pulse.worked();
            if is_done {
                self.desk.requester.end_far(number);
                self.stream.forget(number);
            } else {
                self.desk.requester.unreached.push_back(number);
            }
        }
        while let Some(number) = self.desk.requester.unreached.front().copied() {
            let Desk { requester, outbox, .. } = &mut self.desk;
            if !outbox.has_room(FIXED_LEN_MAX + requester.far_write_len(number)) {
                break;
            }
            requester.unreached.pop_front();
            if let Some(FarAccess { tag, span, is_write, .. }) = requester.give_up_far(number) {
                match is_write {
                    true => outbox.request(tag, &AccessRequest::Write(span), self.stream.kept(number)),
                    false => outbox.request(tag, &AccessRequest::Read(span), Window::from(&[][..])),
                }
            }
            self.stream.forget(number);
            moved = true;
        }
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_read_as_it_was_written() {
        let handle = Handle { key: 0x0102_0304_0506_0708, base: u64::MAX };
        assert_eq!(Handle::decode(&handle.encode()), Some(handle));
        for len in [0, 1, 15, 17] {
            assert_eq!(Handle::decode(&vec![7; len]), None, "{len} bytes");
        }
    }
}
