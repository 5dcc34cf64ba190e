//! Replies to long reads, received where their bytes belong instead of in the inbox.
//!
//! The owner answers reads in the order in which they were asked for, so it is known where the bytes of the next
//! reply go before it is here. Two things lead there. If the beginning of such a reply lies in the inbox, what
//! follows is received straight into place. And if the inbox is empty, the next bytes are taken for such a reply
//! before they are seen: the head into a place of its own, what follows into the buffer of the read, where
//! anything may stand until the read completes. A link that is wrong about that puts the bytes into the inbox as if
//! they had been received there, and does not try again for the same read.

use outboard_wire::access::{AccessReply, AccessStatus};
use outboard_wire::{FrameHeader, Time};

use super::bytes::{Arrival, ByteStream, Scatter};
use super::inbox::Inbox;
use super::pulse::Pulse;
use super::requester::{NextRead, Requester};
use crate::Loss;
use crate::memory::Window;
use crate::ring::RECORD_ALIGN;

/// The bytes before those of a read.
pub(super) const HEAD_LEN: usize = FrameHeader::LEN + AccessReply::FIXED_LEN;

/// From here on a copy costs more than it costs to do without.
const LONG: usize = 4096;

/// Whether a read of `len` bytes is long, and its reply has no padding.
pub(super) const fn is_long(len: usize) -> bool {
    len >= LONG && (HEAD_LEN + len).is_multiple_of(RECORD_ALIGN)
}

/// Whether a frame with `len` bytes is long, and its record has no padding.
pub(super) const fn is_long_frame(len: usize) -> bool {
    len >= LONG && len.is_multiple_of(RECORD_ALIGN)
}

const _: () = assert!(FrameHeader::LEN.is_multiple_of(RECORD_ALIGN));

/// The bytes that arrive past the inbox.
#[derive(Default)]
pub(super) struct Straight {
    /// How many bytes of the next read are in place, once its reply has begun to arrive. The inbox is empty then.
    in_place: Option<usize>,
    /// The read whose reply was expected when something else came.
    missed: Option<u32>,
}

impl Straight {
    /// Takes what has arrived, to wherever it belongs. The inbox must have room.
    pub(super) fn receive(
        &mut self,
        stream: &mut impl ByteStream,
        pulse: &mut Pulse,
        inbox: &mut Inbox,
        requester: &mut Requester,
    ) -> Result<Arrival, Loss> {
        let now = pulse.now();
        let Some(read) = requester.next_read().filter(|read| is_long(read.len)) else {
            return plain(stream, now, inbox);
        };
        if self.in_place.is_none() {
            self.in_place = begin_in_inbox(inbox, &read);
        }
        let (arrival, in_place) = match self.in_place {
            Some(in_place) => go_on(stream, now, inbox, (&read, in_place))?,
            // Others could change what has to be moved to the inbox, in the name of the peer.
            None if !inbox.is_empty() || read.is_shared || self.missed == Some(read.tag) => {
                return plain(stream, now, inbox);
            }
            // It takes all of it if it is something else.
            None if !inbox.has_room(read.len + 2 * HEAD_LEN) => return plain(stream, now, inbox),
            None => {
                let begun = begin(stream, now, inbox, &read)?;
                if let (Arrival::Bytes(_), None) = begun {
                    self.missed = Some(read.tag);
                }
                begun
            }
        };
        self.in_place = in_place;
        if in_place == Some(read.len) {
            self.in_place = None;
            requester.end_read();
            pulse.worked();
        }
        Ok(arrival)
    }
}

/// Receives into the inbox.
fn plain(stream: &mut impl ByteStream, now: Time, inbox: &mut Inbox) -> Result<Arrival, Loss> {
    let arrival = stream.receive(now, inbox.room_mut())?;
    if let Arrival::Bytes(len) = arrival {
        inbox.arrived(len);
    }
    Ok(arrival)
}

/// Moves the beginning of the reply from the inbox to its place, if that is what is there. A whole reply stays.
fn begin_in_inbox(inbox: &mut Inbox, read: &NextRead<'_>) -> Option<usize> {
    let bytes = inbox.bytes();
    if bytes.len() >= HEAD_LEN + read.len {
        return None;
    }
    let (head, data) = bytes.split_first_chunk()?;
    if !is_reply(head, read) {
        return None;
    }
    read.place(0).write(0, data);
    let in_place = data.len();
    inbox.clear();
    Some(in_place)
}

/// Receives what follows of the reply, and the head of what may come after it.
fn go_on(
    stream: &mut impl ByteStream,
    now: Time,
    inbox: &mut Inbox,
    (read, in_place): (&NextRead<'_>, usize),
) -> Result<(Arrival, Option<usize>), Loss> {
    let rest = &mut inbox.room_mut()[..HEAD_LEN];
    let arrival =
        stream.receive_scattered(now, Scatter { head: &mut [], body: read.place(in_place), rest })?;
    let Arrival::Bytes(len) = arrival else { return Ok((arrival, Some(in_place))) };
    let data = len.min(read.len - in_place);
    inbox.arrived(len - data);
    Ok((arrival, Some(in_place + data)))
}

/// Receives what is hoped to be the reply. If it is not, everything is in the inbox.
fn begin(
    stream: &mut impl ByteStream,
    now: Time,
    inbox: &mut Inbox,
    read: &NextRead<'_>,
) -> Result<(Arrival, Option<usize>), Loss> {
    let (mut head, mut rest) = ([0; HEAD_LEN], [0; HEAD_LEN]);
    let into = Scatter { head: &mut head, body: read.place(0), rest: &mut rest };
    let arrival = stream.receive_scattered(now, into)?;
    let Arrival::Bytes(len) = arrival else { return Ok((arrival, None)) };
    let data = len.saturating_sub(HEAD_LEN).min(read.len);
    let is_begun = len >= HEAD_LEN && is_reply(&head, read);
    if !is_begun {
        inbox.push(Window::from(&head[..len.min(HEAD_LEN)]));
        inbox.push(read.place(0).as_window().part(0, data));
    }
    inbox.push(Window::from(&rest[..len.saturating_sub(HEAD_LEN + read.len)]));
    Ok((arrival, is_begun.then_some(data)))
}

/// Whether a record that begins like this brings what `read` asked for.
fn is_reply(head: &[u8; HEAD_LEN], read: &NextRead<'_>) -> bool {
    let (header, fixed) = head.split_at(FrameHeader::LEN);
    let Ok(header) = FrameHeader::decode(header) else { return false };
    let is_for_read =
        header.head().tag == read.tag && header.payload_len() as usize == AccessReply::FIXED_LEN + read.len;
    let reply = AccessReply::decode(header.head().kind, fixed);
    is_for_read && matches!(reply, Ok(AccessReply::Done { status: AccessStatus::Done, .. }))
}
