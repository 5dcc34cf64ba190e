//! Encrypted bytes on their way between the socket and the session.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use rustix::io::Errno;

use super::socket::{lost, receive_some, send_some};
use crate::Loss;
use crate::memory::Window;
use crate::stream::Arrival;

/// The most plain bytes in one record.
pub(super) const PLAIN_MAX: usize = 1 << 14;
/// The most bytes that encryption adds to them.
const OVERHEAD: usize = 256;
/// The bytes before those of a record: its kind, a version and its length.
const HEAD_LEN: usize = 5;
/// A peer that has not shown who it is gets little at first, and room for one record at most.
const ROOM_FIRST: usize = 2 << 10;
const ROOM_OF_STRANGER: usize = HEAD_LEN + PLAIN_MAX + OVERHEAD;
/// Then several records are taken by one call.
const ROOM_OF_PEER: usize = 128 << 10;
/// How many plain bytes are encrypted before they are sent.
const BATCH: usize = 128 << 10;

/// Bytes that came from the socket and are not decrypted yet.
pub(super) struct Sealed {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    /// The last call took all there was.
    pub(super) is_drained: bool,
}

impl Sealed {
    pub(super) fn new() -> Self {
        Self { bytes: Vec::new(), start: 0, end: 0, is_drained: false }
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.end]
    }

    pub(super) fn discard(&mut self, len: usize) {
        self.start += len;
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }

    /// Whether a record is here as a whole.
    pub(super) fn has_record(&self) -> bool {
        match &self.bytes[self.start..self.end] {
            [_, _, _, high, low, rest @ ..] => rest.len() >= usize::from(u16::from_be_bytes([*high, *low])),
            _ => false,
        }
    }

    /// The peer is known from now on.
    pub(super) fn widen(&mut self) {
        self.bytes.resize(ROOM_OF_PEER, 0);
    }

    /// Takes what the socket has, or `None` if there is no room although everything here was looked at.
    pub(super) fn fill(&mut self, socket: &OwnedFd) -> Result<Option<Arrival>, Loss> {
        if self.start > 0 && self.bytes.len() - self.end < ROOM_OF_STRANGER {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.end == self.bytes.len() {
            if self.end >= ROOM_OF_STRANGER {
                return Ok(None);
            }
            self.bytes.resize((2 * self.end).clamp(ROOM_FIRST, ROOM_OF_STRANGER), 0);
        }
        let room = &mut self.bytes[self.end..];
        let received = receive_some(socket, room);
        self.is_drained = received.is_ok_and(|len| len < room.len()) || received == Err(Errno::AGAIN);
        match received {
            Ok(0) => Ok(Some(Arrival::End)),
            Ok(len) => {
                self.end += len;
                Ok(Some(Arrival::Bytes(len)))
            }
            Err(Errno::AGAIN) => Ok(Some(Arrival::Nothing)),
            Err(source) => Err(lost("recv", source)),
        }
    }
}

/// Where encrypted bytes are put; the result is how many they are.
pub(super) type Encrypt<'a, E> = &'a mut dyn FnMut(&[u8], &mut [u8]) -> Result<usize, E>;

/// Bytes that are encrypted and have not left yet.
///
/// The link presents its bytes in order, and again as long as they are not reported as taken. So they are reported
/// record by record, when a record has wholly left: the link knows then whether to wait for the socket.
pub(super) struct Departing {
    bytes: Vec<u8>,
    left: usize,
    end: usize,
    /// Where each record ends, and how many of the link's bytes it holds.
    records: VecDeque<(usize, usize)>,
    scratch: Vec<u8>,
}

impl Departing {
    pub(super) fn new() -> Self {
        Self { bytes: Vec::new(), left: 0, end: 0, records: VecDeque::new(), scratch: Vec::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.left == self.end
    }

    /// Sends what the socket has room for. Returns how many of the link's bytes have left with it.
    pub(super) fn flush(&mut self, socket: &OwnedFd) -> Result<usize, Loss> {
        let mut taken = 0;
        while self.left < self.end {
            let len = send_some(socket, &self.bytes[self.left..self.end])?;
            if len == 0 {
                break;
            }
            self.left += len;
            while let Some((_, plain)) = self.records.front().filter(|(end, _)| *end <= self.left) {
                taken += plain;
                self.records.pop_front();
            }
        }
        if self.is_empty() {
            (self.left, self.end) = (0, 0);
        }
        Ok(taken)
    }

    /// Room for `len` more bytes.
    fn room(&mut self, len: usize) -> &mut [u8] {
        let needed = self.end + len;
        if self.bytes.len() < needed {
            self.bytes.resize(needed, 0);
        }
        &mut self.bytes[self.end..]
    }

    /// Appends `len` bytes of the session's own.
    pub(super) fn append<E>(
        &mut self,
        len: usize,
        write: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<(), E> {
        self.end += write(self.room(len))?;
        self.records.push_back((self.end, 0));
        Ok(())
    }

    /// Appends records with what comes from `at` on, as many as are worth a call.
    pub(super) fn seal<E>(
        &mut self,
        source: &Source<'_>,
        at: usize,
        encrypt: Encrypt<'_, E>,
    ) -> Result<(), E> {
        let mut scratch = std::mem::take(&mut self.scratch);
        let until = source.len().min(at + BATCH);
        let mut at = at;
        let mut result = Ok(());
        while at < until {
            let plain = source.part(at, (until - at).min(PLAIN_MAX), &mut scratch);
            // Room for a message about new keys before the record.
            let room = self.room(plain.len() + 2 * OVERHEAD);
            match encrypt(plain, room) {
                Ok(len) => self.end += len,
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
            self.records.push_back((self.end, plain.len()));
            at += plain.len();
        }
        self.scratch = scratch;
        result
    }
}

/// The bytes that a link sends.
pub(super) enum Source<'a> {
    /// Bytes of its own.
    Bytes(&'a [u8]),
    /// Some of its own, and then some that others may be changing.
    Pieces(&'a [u8], Window<'a>),
}

impl Source<'_> {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Pieces(head, body) => head.len() + body.len(),
        }
    }

    /// The `len` bytes from `at` on. What others may be changing is looked at once.
    fn part<'b>(&'b self, at: usize, len: usize, scratch: &'b mut Vec<u8>) -> &'b [u8] {
        match self {
            Self::Bytes(bytes) => &bytes[at..at + len],
            Self::Pieces(head, body) => {
                scratch.resize(PLAIN_MAX, 0);
                let scratch = &mut scratch[..len];
                let in_head = head.len().saturating_sub(at).min(len);
                let (first, rest) = scratch.split_at_mut(in_head);
                if in_head > 0 {
                    first.copy_from_slice(&head[at..at + in_head]);
                }
                if !rest.is_empty() {
                    body.part((at + in_head) - head.len(), rest.len()).read(0, rest);
                }
                scratch
            }
        }
    }
}
