//! A shared-memory link that is made by hand: every index, header, doorbell and descriptor can be a lie.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use outboard_e2e::Random;
use outboard_link::memory::{Segment, SegmentAccess};
use outboard_wire::{FrameHead, FrameHeader, HANDSHAKE_LEN, HandshakeAnswer, Text, Welcome};
use rustix::io::{Errno, IoSlice, IoSliceMut};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, recvmsg, sendmsg,
};

use super::raw::{Hung, await_readable, header, hello, record_len};

/// Where the counts lie in the segment: two rings, for each what its producer and what its consumer says.
const CURSORS: usize = 256;
const CONSUMER: usize = 128;
const WAITS: usize = 8;
/// How many descriptors one message can carry here: more than the kernel lets through.
const DESCRIPTORS_MAX: usize = 253;
const DOORBELL: [u8; 1] = [0xdb];
/// The rings that an impostor offers.
const RING_BYTES: u32 = 1 << 16;

/// One end of a shared-memory link.
pub(crate) struct RawShm {
    pub(crate) socket: OwnedFd,
    pub(crate) segment: Segment,
    ring_bytes: usize,
    /// Which ring this side writes: 0 if it has accepted, 1 if it has connected.
    side: usize,
    tail: u64,
    head: u64,
}

/// A connection on which nothing was said yet.
pub(crate) fn connect_unix(name: &str) -> Result<OwnedFd, Hung> {
    let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).map_err(Hung::from)?;
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    // It blocks while the daemon has too many to receive; a daemon that does so for long is found by others.
    rustix::net::connect(&socket, &address)?;
    Ok(socket)
}

/// Puts a message with descriptors on a socket.
pub(crate) fn send_with(socket: &OwnedFd, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    sendmsg(socket, &[IoSlice::new(bytes)], &mut ancillary, flags).map(drop)
}

/// Takes a message and the last descriptor that came with it.
fn receive_with(socket: &OwnedFd, bytes: &mut [u8]) -> Result<(usize, Option<OwnedFd>), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let message = recvmsg(socket, &mut [IoSliceMut::new(bytes)], &mut ancillary, flags)?;
    let mut descriptor = None;
    for ancillary in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = ancillary {
            descriptor = descriptors.last();
        }
    }
    Ok((message.bytes, descriptor))
}

impl RawShm {
    /// Connects with this hello and maps what comes.
    pub(crate) fn connect(name: &str, hello: &[u8; HANDSHAKE_LEN]) -> Result<Self, Hung> {
        let socket = connect_unix(name)?;
        send_with(&socket, hello, &[])?;
        await_readable(socket.as_fd())?;
        let mut bytes = [0; 256];
        let (len, descriptor) = receive_with(&socket, &mut bytes)?;
        let Ok(HandshakeAnswer::Welcome(welcome)) = HandshakeAnswer::decode(&bytes[..len.min(HANDSHAKE_LEN)])
        else {
            return Err(Hung);
        };
        let ring_bytes = welcome.ring_bytes as usize;
        let len = rustix::param::page_size() + 2 * ring_bytes;
        let segment =
            Segment::adopt(descriptor.ok_or(Hung)?, len, SegmentAccess::ReadWrite).map_err(|_| Hung)?;
        Ok(Self { socket, segment, ring_bytes, side: 1, tail: 0, head: 0 })
    }

    /// Answers somebody who has connected to `socket`, with a welcome that `lie` may have changed.
    pub(crate) fn accept(
        socket: OwnedFd,
        welcome: impl FnOnce(u32) -> Welcome,
        segment: Option<Segment>,
    ) -> Result<Self, Hung> {
        await_readable(socket.as_fd())?;
        receive_with(&socket, &mut [0; 256])?;
        let len = rustix::param::page_size() + 2 * RING_BYTES as usize;
        let segment = match segment {
            Some(segment) => segment,
            None => Segment::create(c"outboard-link", len)?,
        };
        send_with(&socket, &welcome(RING_BYTES).encode(), &[segment.descriptor()])?;
        Ok(Self { socket, segment, ring_bytes: RING_BYTES as usize, side: 0, tail: 0, head: 0 })
    }

    fn ring(&self, side: usize) -> usize {
        rustix::param::page_size() + side * self.ring_bytes
    }

    /// Puts a frame into the ring, if it has room, and wakes the reader if it sleeps.
    pub(crate) fn frame(&mut self, head: FrameHead, payload: &[u8]) -> Result<bool, Hung> {
        let whole = record_len(payload.len()) as u64;
        let cursors = self.side * CURSORS;
        let read = self.segment.word(cursors + CONSUMER).load(Acquire);
        if self.tail.wrapping_sub(read).saturating_add(whole) > self.ring_bytes as u64 {
            self.wake()?;
            return Ok(false);
        }
        self.write(self.tail, &header(head, payload.len() as u32));
        self.write(self.tail + FrameHeader::LEN as u64, payload);
        self.tail += whole;
        self.publish(self.tail)?;
        Ok(true)
    }

    /// Bytes at a place of the ring that this side writes, wherever that is.
    pub(crate) fn write(&self, at: u64, bytes: &[u8]) {
        let (ring, at) = (self.ring(self.side), at as usize % self.ring_bytes);
        let first = bytes.len().min(self.ring_bytes - at);
        self.segment.window_mut(ring + at, first).write(0, &bytes[..first]);
        self.segment.window_mut(ring, bytes.len() - first).write(0, &bytes[first..]);
    }

    /// Says that everything up to here is written.
    pub(crate) fn publish(&self, tail: u64) -> Result<(), Hung> {
        self.segment.word(self.side * CURSORS).store(tail, Release);
        self.wake()
    }

    fn wake(&self) -> Result<(), Hung> {
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        let sleeps = self.segment.word(self.side * CURSORS + CONSUMER + WAITS).swap(0, Relaxed);
        if sleeps != 0 { self.doorbell() } else { Ok(()) }
    }

    pub(crate) fn doorbell(&self) -> Result<(), Hung> {
        match send_with(&self.socket, &DOORBELL, &[]) {
            Ok(()) | Err(Errno::AGAIN) => Ok(()),
            Err(_) => Err(Hung),
        }
    }

    /// A word of the counts: those of this side's ring or the other's, the producer's or the consumer's.
    pub(crate) fn any_count(&self, random: &mut Random) -> &std::sync::atomic::AtomicU64 {
        let at = random.below(4) as usize * CONSUMER + random.below(2) as usize * WAITS;
        self.segment.word(at)
    }

    /// What has come by the ring.
    pub(crate) fn take(&mut self) -> Vec<(FrameHead, Vec<u8>)> {
        let (ring, cursors) = (self.ring(1 - self.side), (1 - self.side) * CURSORS);
        let tail = self.segment.word(cursors).load(Acquire);
        let mut frames = Vec::new();
        while self.head < tail {
            let mut header = [0; FrameHeader::LEN];
            self.read(ring, self.head, &mut header);
            let Ok(header) = FrameHeader::decode(&header) else { break };
            let mut payload = vec![0; (header.payload_len() as usize).min(self.ring_bytes)];
            self.read(ring, self.head + FrameHeader::LEN as u64, &mut payload);
            self.head += record_len(payload.len()) as u64;
            frames.push((header.head(), payload));
        }
        self.segment.word(cursors + CONSUMER).store(self.head, Release);
        let sleeps = self.segment.word(cursors + WAITS).swap(0, Relaxed);
        if sleeps != 0 {
            // A daemon that has hung up is found by whoever sends next.
            let _ = self.doorbell();
        }
        frames
    }

    fn read(&self, ring: usize, at: u64, into: &mut [u8]) {
        let at = at as usize % self.ring_bytes;
        let first = into.len().min(self.ring_bytes - at);
        self.segment.window(ring + at, first).read(0, &mut into[..first]);
        let rest = into.len() - first;
        self.segment.window(ring, rest).read(0, &mut into[first..]);
    }

    /// A message beside the rings.
    pub(crate) fn message(
        &self,
        head: FrameHead,
        payload: &[u8],
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<bool, Hung> {
        let bytes = [&header(head, payload.len() as u32)[..], payload].concat();
        match send_with(&self.socket, &bytes, descriptors) {
            Ok(()) => Ok(true),
            Err(Errno::AGAIN | Errno::TOOMANYREFS | Errno::NOBUFS | Errno::PERM) => Ok(false),
            Err(_) => Err(Hung),
        }
    }

    /// The next message beside the rings, with its descriptor.
    pub(crate) fn next_message(&self) -> Option<(Vec<u8>, Option<OwnedFd>)> {
        let mut bytes = [0; 256];
        let (len, descriptor) = receive_with(&self.socket, &mut bytes).ok()?;
        (len > 0).then(|| (bytes[..len].to_vec(), descriptor))
    }
}

/// A welcome as a memory server or an agent would say it.
pub(crate) fn welcome(role: outboard_wire::Role, random: &mut Random) -> Welcome {
    let mut intro = hello(role, random).intro;
    intro.name = Text::new("impostor");
    Welcome { version: 1, intro, ring_bytes: 0, heartbeat_ms: 100, deadline_ms: 2000 }
}
