//! The socket over which the two processes agree on what to do next.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::PATIENCE;
use crate::BenchError;
use crate::error::Named;
use crate::harness::Side;

/// What the lead tells the peer.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Sent first: where to run and where to find the lead.
    Meet {
        /// The core to run on.
        core: Option<usize>,
        /// The address of the measured link.
        link: String,
        /// The address of the bare socket, if the question has one.
        socket: Option<SocketAddr>,
    },
    /// Do your part of a round.
    Run {
        /// By which means.
        side: Side,
        /// Which of the yardstick's ways, if it has several.
        variant: usize,
        /// How many items, in each window if there are several.
        items: u64,
        /// How many windows.
        windows: u64,
        /// What makes this round's bytes differ from the last one's.
        seed: u64,
    },
    /// That was all.
    Stop,
}

/// What the peer tells the lead.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// Begin.
    Ready,
    /// The round is over.
    Done {
        /// The checksum over all that was received.
        digest: u64,
        /// When it began and each window ended, on the clock of [`now_ns`](super::now_ns), if that is asked for.
        marks_ns: Vec<u64>,
    },
    /// There will be no result.
    Failed {
        /// Why.
        why: String,
    },
}

/// One end of the control socket.
pub(crate) struct Control {
    socket: UnixStream,
}

/// No message is longer; one that claims to be is not ours.
const MESSAGE_MAX: u32 = 1 << 16;

impl Control {
    pub(crate) fn new(socket: UnixStream) -> Result<Self, BenchError> {
        socket.set_read_timeout(Some(PATIENCE)).named("setsockopt")?;
        socket.set_write_timeout(Some(PATIENCE)).named("setsockopt")?;
        Ok(Self { socket })
    }

    /// Sends a message.
    pub(crate) fn send(&self, message: &impl Serialize) -> Result<(), BenchError> {
        let text = serde_json::to_vec(message)
            .map_err(|source| BenchError::Nonsense { awaited: "a message that can be sent", source })?;
        let mut bytes = (text.len() as u32).to_le_bytes().to_vec();
        bytes.extend(text);
        (&self.socket).write_all(&bytes).map_err(|source| lost("room for a message", source))
    }

    /// Waits for a message.
    pub(crate) fn receive<T: DeserializeOwned>(&self, awaited: &'static str) -> Result<T, BenchError> {
        let mut len = [0; 4];
        (&self.socket).read_exact(&mut len).map_err(|source| lost(awaited, source))?;
        let mut text = vec![0; u32::from_le_bytes(len).min(MESSAGE_MAX) as usize];
        (&self.socket).read_exact(&mut text).map_err(|source| lost(awaited, source))?;
        serde_json::from_slice(&text).map_err(|source| BenchError::Nonsense { awaited, source })
    }

    /// Waits for the peer to be ready.
    pub(crate) fn ready(&self) -> Result<(), BenchError> {
        match self.receive("the peer to be ready")? {
            Answer::Ready => Ok(()),
            other => Err(unexpected(other)),
        }
    }

    /// Waits for the end of the peer's part of a round: the checksum and the marks.
    pub(crate) fn done(&self) -> Result<(u64, Vec<u64>), BenchError> {
        match self.receive("the end of a round")? {
            Answer::Done { digest, marks_ns } => Ok((digest, marks_ns)),
            other => Err(unexpected(other)),
        }
    }

    /// Hands a descriptor over.
    pub(crate) fn send_descriptor(&self, descriptor: BorrowedFd<'_>) -> Result<(), BenchError> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let descriptors = [descriptor];
        ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
        sendmsg(&self.socket, &[IoSlice::new(&[0])], &mut ancillary, SendFlags::NOSIGNAL).named("sendmsg")?;
        Ok(())
    }

    /// Waits for a descriptor.
    pub(crate) fn receive_descriptor(&self) -> Result<OwnedFd, BenchError> {
        let awaited = "a memory segment";
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        let flags = RecvFlags::CMSG_CLOEXEC;
        recvmsg(&self.socket, &mut [IoSliceMut::new(&mut byte)], &mut ancillary, flags)
            .map_err(|errno| lost(awaited, errno.into()))?;
        let mut messages = ancillary.drain();
        let descriptor = messages.find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
            _ => None,
        });
        descriptor.ok_or(BenchError::PeerGone { awaited })
    }
}

fn unexpected(answer: Answer) -> BenchError {
    match answer {
        Answer::Failed { why } => BenchError::PeerFailed { why },
        other => BenchError::PeerFailed { why: format!("it answered {other:?} out of turn") },
    }
}

fn lost(awaited: &'static str, source: io::Error) -> BenchError {
    match source.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            BenchError::Stalled { waited: PATIENCE, awaited }
        }
        io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => {
            BenchError::PeerGone { awaited }
        }
        _ => BenchError::System { call: "the control socket", source },
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    fn pair() -> (Control, Control) {
        let (one, other) = UnixStream::pair().unwrap();
        (Control::new(one).unwrap(), Control::new(other).unwrap())
    }

    #[test]
    fn messages_and_descriptors_arrive_in_order() {
        let (lead, peer) = pair();
        let (pipe, _kept) = rustix::pipe::pipe().unwrap();
        peer.send(&Answer::Ready).unwrap();
        peer.send_descriptor(pipe.as_fd()).unwrap();
        peer.send(&Answer::Done { digest: u64::MAX, marks_ns: vec![7] }).unwrap();
        lead.ready().unwrap();
        lead.receive_descriptor().unwrap();
        assert_eq!(lead.done().unwrap(), (u64::MAX, vec![7]));
    }

    #[test]
    fn a_peer_that_fails_or_dies_says_so() {
        let (lead, peer) = pair();
        peer.send(&Answer::Failed { why: "no memory".to_owned() }).unwrap();
        drop(peer);
        assert!(lead.ready().unwrap_err().to_string().contains("no memory"));
        assert!(matches!(lead.ready(), Err(BenchError::PeerGone { .. })));
    }
}
