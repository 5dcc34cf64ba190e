//! The Unix socket beside the rings: doorbells, messages, descriptors, and the news of a death.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use outboard_wire::liveness::Liveness;
use outboard_wire::{FrameHead, FrameHeader};
use rustix::io::{Errno, IoSlice, IoSliceMut};
use rustix::net::sockopt::socket_peercred;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use zerocopy::IntoBytes;

use super::disposal::only_memory;
use crate::{Loss, Violation};

/// Longer than any message on the socket.
pub(super) const MESSAGE_MAX: usize = 256;

/// How many descriptors the kernel lets through with one message.
const DESCRIPTORS_MAX: usize = 253;

/// More messages than a socket holds.
const FAREWELL_MESSAGES_MAX: usize = 4096;

/// A message of this single byte only wakes; messages proper are longer.
const DOORBELL: [u8; 1] = [0xdb];

/// One arrival from the socket.
pub(super) enum Received {
    /// Nothing at the moment.
    Nothing,
    /// A wake-up.
    Doorbell,
    /// This many bytes, and what came with them.
    Message(usize, Enclosed),
}

/// The descriptor that came with a message.
pub(super) enum Enclosed {
    Nothing,
    Descriptor(OwnedFd),
    /// A descriptor that the kernel closed because this process may have no more of them.
    Dropped,
}

/// One end of the socket. Its blocking mode does not matter: the peer could change it, so every call says for
/// itself that it must not block.
pub(super) struct Channel {
    socket: OwnedFd,
    /// Whether the peer may send files.
    takes_files: bool,
}

impl Channel {
    pub(super) fn new(socket: OwnedFd) -> Self {
        Self { socket, takes_files: false }
    }

    /// From now on files are taken from the peer, if it is trusted with ours.
    pub(super) fn take_files(&mut self) {
        self.takes_files = self.trusts_peer();
    }

    /// Whether the peer could end this process anyway: it belongs to our user, or to root. Such a peer may map files of ours, and
    /// we of its; no other may, since a file that is cut off is a fault for those who have it mapped.
    pub(super) fn trusts_peer(&self) -> bool {
        let ours = rustix::process::geteuid();
        socket_peercred(&self.socket).is_ok_and(|peer| peer.uid == ours || peer.uid.is_root())
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Sends one message. Returns false if the socket is full.
    pub(super) fn send(&self, bytes: &[u8], descriptor: Option<BorrowedFd<'_>>) -> Result<bool, Loss> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let descriptors = descriptor.map(|fd| [fd]);
        if let Some(descriptors) = &descriptors {
            ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
        }
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        loop {
            return match sendmsg(&self.socket, &[IoSlice::new(bytes)], &mut ancillary, flags) {
                Ok(_) => Ok(true),
                // The latter are the kernel's limits for this user as a whole, which other peers may have reached.
                Err(Errno::AGAIN | Errno::TOOMANYREFS | Errno::NOBUFS | Errno::NOMEM) => Ok(false),
                Err(Errno::INTR) => continue,
                Err(Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN) => Err(Loss::Gone),
                Err(source) => Err(Loss::System { call: "sendmsg", source }),
            };
        }
    }

    /// Wakes the peer. A full socket wakes it too.
    pub(super) fn ring(&self) -> Result<(), Loss> {
        self.send(&DOORBELL, None).map(|_| ())
    }

    /// Sends a message with a frame header, as in the rings.
    pub(super) fn send_message(
        &self,
        head: FrameHead,
        payload: &[u8],
        descriptor: Option<BorrowedFd<'_>>,
    ) -> Result<bool, Loss> {
        let mut bytes = [0; MESSAGE_MAX];
        let len = FrameHeader::LEN + payload.len();
        let header = FrameHeader::new(head, payload.len() as u32);
        bytes[..FrameHeader::LEN].copy_from_slice(header.as_bytes());
        bytes[FrameHeader::LEN..len].copy_from_slice(payload);
        self.send(&bytes[..len], descriptor)
    }

    /// Takes one message. A closed socket is [`Loss::Gone`].
    pub(super) fn receive(&self, bytes: &mut [u8; MESSAGE_MAX]) -> Result<Received, Loss> {
        // Room for all that one message can bring: the kernel closes those for which there is none, in this thread.
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let mut was_reset = false;
        let message = loop {
            match recvmsg(&self.socket, &mut [IoSliceMut::new(bytes)], &mut ancillary, flags) {
                Ok(message) => break message,
                Err(Errno::AGAIN) => return Ok(Received::Nothing),
                Err(Errno::INTR) => {}
                // The peer has closed with unread messages of ours. Its own to us are told of afterwards.
                Err(Errno::CONNRESET) if !was_reset => was_reset = true,
                Err(Errno::CONNRESET | Errno::NOTCONN) => return Err(Loss::Gone),
                Err(source) => return Err(Loss::System { call: "recvmsg", source }),
            }
        };
        let mut received = 0;
        let mut enclosed = Enclosed::Nothing;
        for ancillary in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = ancillary {
                for descriptor in descriptors {
                    received += 1;
                    enclosed =
                        only_memory(descriptor, self.takes_files).map_or(enclosed, Enclosed::Descriptor);
                }
            }
        }
        // There was room for more, so that it was not the sender who sent too many.
        if message.flags.contains(ReturnFlags::CTRUNC) && received < DESCRIPTORS_MAX {
            enclosed = Enclosed::Dropped;
        }
        match message.bytes {
            0 => Err(Loss::Gone),
            1 if bytes[..1] == DOORBELL => Ok(Received::Doorbell),
            len if message.flags.contains(ReturnFlags::TRUNC) => {
                let oversize = Violation::Oversize { len: len as u64, available: MESSAGE_MAX as u64 };
                Err(Loss::Broke(oversize))
            }
            len => Ok(Received::Message(len, enclosed)),
        }
    }

    /// Why the peer has gone: a side that cannot send to it any more may still have to read its goodbye.
    pub(super) fn farewell(&self) -> Loss {
        let mut bytes = [0; MESSAGE_MAX];
        for _ in 0..FAREWELL_MESSAGES_MAX {
            match self.receive(&mut bytes) {
                Ok(Received::Message(len, _)) => {
                    if let Some(loss) = read_goodbye(&bytes[..len]) {
                        return loss;
                    }
                }
                Ok(Received::Doorbell) => {}
                Ok(Received::Nothing) | Err(_) => break,
            }
        }
        Loss::Gone
    }
}

impl Drop for Channel {
    /// Takes the messages that were not read: the kernel would close the descriptors in them, in this thread.
    fn drop(&mut self) {
        // From here on nothing more can come. One that is not connected has nothing either.
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
        // An empty message looks like the end, but for whose it is.
        let _ = rustix::net::sockopt::set_socket_passcred(&self.socket, true);
        for _ in 0..FAREWELL_MESSAGES_MAX {
            let mut space =
                [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1), ScmRights(DESCRIPTORS_MAX))];
            let mut ancillary = RecvAncillaryBuffer::new(&mut space);
            let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
            let received = recvmsg(&self.socket, &mut [IoSliceMut::new(&mut [0; 1])], &mut ancillary, flags);
            let mut is_message = matches!(received, Err(Errno::INTR | Errno::CONNRESET));
            for ancillary in ancillary.drain() {
                is_message = true;
                if let RecvAncillaryMessage::ScmRights(descriptors) = ancillary {
                    descriptors.for_each(|descriptor| drop(only_memory(descriptor, false)));
                }
            }
            if !is_message {
                break;
            }
        }
    }
}

fn read_goodbye(message: &[u8]) -> Option<Loss> {
    let (head, payload) = read_message(message).ok()?;
    match Liveness::decode(head.kind, payload) {
        Ok(Liveness::Goodbye { code, reason }) => Some(Loss::by_goodbye(code, reason.as_str())),
        _ => None,
    }
}

/// Splits a message into head and payload.
pub(super) fn read_message(bytes: &[u8]) -> Result<(FrameHead, &[u8]), Violation> {
    let header = FrameHeader::decode(bytes)?;
    let payload = &bytes[FrameHeader::LEN..];
    if payload.len() != header.payload_len() as usize {
        let len = header.payload_len().into();
        return Err(Violation::Oversize { len, available: payload.len() as u64 });
    }
    Ok((header.head(), payload))
}
