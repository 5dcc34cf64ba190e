//! A TCP socket as a stream of bytes.

use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use outboard_wire::Time;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{Shutdown, shutdown, sockopt};

use super::departed;
use super::records::Source;
use super::session::Session;
use super::socket::{departure, lost, receive_some, send_some};
use crate::Loss;
use crate::memory::Window;
use crate::stream::{Arrival, ByteStream, Scatter};

/// A non-blocking TCP socket, encrypted or not.
pub struct TcpBytes {
    socket: OwnedFd,
    is_connected: bool,
    session: Option<Box<Session>>,
    /// The last attempt to receive found less than it had room for.
    is_drained: bool,
    is_finished: bool,
}

/// The most bytes that are read and thrown away at the end: closing a socket with unread bytes would make the kernel
/// throw away what the peer has not received yet.
const DRAIN_CALLS: usize = 64;

/// The congestion control for connections within a machine. There is nothing to be congested, and one that spreads
/// what is sent over time, as some systems have it, holds a page back for longer than its whole way takes.
const UNPACED: &str = "reno";

impl TcpBytes {
    /// Takes over a non-blocking socket whose connection to `peer` stands or is being made.
    pub(super) fn new(socket: OwnedFd, peer: Option<SocketAddr>, is_connected: bool) -> Result<Self, Errno> {
        sockopt::set_tcp_nodelay(&socket, true)?;
        if peer.is_some_and(|peer| peer.ip().to_canonical().is_loopback()) {
            // Where it may not be chosen, the default does.
            let _ = sockopt::set_tcp_congestion(&socket, UNPACED);
        }
        Ok(Self { socket, is_connected, session: None, is_drained: false, is_finished: false })
    }

    /// A stream over `socket` with everything encrypted.
    pub(super) fn encrypted(mut self, session: Session) -> Self {
        self.session = Some(Box::new(session));
        self
    }

    /// The meaning of the result of receiving `asked` bytes.
    #[inline]
    fn arrival(
        &mut self,
        call: &'static str,
        received: Result<usize, Errno>,
        asked: usize,
    ) -> Result<Arrival, Loss> {
        self.is_drained = received.is_ok_and(|len| len < asked);
        match received {
            Ok(0) => Ok(Arrival::End),
            Ok(len) => Ok(Arrival::Bytes(len)),
            Err(Errno::AGAIN) => Ok(Arrival::Nothing),
            Err(source) => Err(lost(call, source)),
        }
    }
}

fn piece(start: *const u8, len: usize) -> libc::iovec {
    libc::iovec { iov_base: start.cast_mut().cast(), iov_len: len }
}

/// Calls until no signal comes in between. A negative result is a failure, as everywhere in the C library.
#[inline]
fn retry(mut call: impl FnMut() -> isize) -> Result<usize, Errno> {
    loop {
        return match usize::try_from(call()) {
            Ok(len) => Ok(len),
            Err(_) => match std::io::Error::last_os_error().raw_os_error().map(Errno::from_raw_os_error) {
                Some(Errno::INTR) => continue,
                error => Err(error.unwrap_or(Errno::IO)),
            },
        };
    }
}

/// Ends our half of the connection, so that the peer gets all that was sent.
fn say_no_more(socket: &OwnedFd) {
    // A connection that is gone needs no farewell.
    let _ = shutdown(socket, Shutdown::Write);
    read_away(socket);
}

/// Reads bytes and throws them away. Returns whether the peer is still there.
pub(super) fn read_away(socket: &OwnedFd) -> bool {
    let mut scrap = [0u8; 1 << 14];
    for _ in 0..DRAIN_CALLS {
        match receive_some(socket, &mut scrap) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(error) => return error == Errno::AGAIN,
        }
    }
    true
}

impl ByteStream for TcpBytes {
    const NAME: &'static str = "tcp";

    fn name(&self) -> &'static str {
        if self.session.is_some() { "tcp+tls" } else { Self::NAME }
    }

    fn is_connected(&mut self) -> Result<bool, Errno> {
        if self.is_connected {
            return Ok(true);
        }
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        match poll(&mut [PollFd::new(&self.socket, PollFlags::OUT)], Some(&at_once)) {
            Ok(0) | Err(Errno::INTR) => return Ok(false),
            Ok(_) => sockopt::socket_error(&self.socket)??,
            Err(error) => return Err(error),
        }
        self.is_connected = true;
        Ok(true)
    }

    fn secure(&mut self) -> Result<bool, Loss> {
        let Some(session) = &mut self.session else { return Ok(true) };
        session.secure(&self.socket).inspect_err(|_| say_no_more(&self.socket))
    }

    fn is_secure(&self) -> bool {
        self.session.as_ref().is_none_or(|session| session.is_open())
    }

    #[inline]
    fn send(&mut self, _now: Time, bytes: &[u8]) -> Result<usize, Loss> {
        match &mut self.session {
            None => send_some(&self.socket, bytes),
            Some(session) => session.send(&self.socket, &Source::Bytes(bytes)),
        }
    }

    #[inline]
    fn receive(&mut self, _now: Time, into: &mut [u8]) -> Result<Arrival, Loss> {
        if let Some(session) = &mut self.session {
            return session.receive(&self.socket, into.len(), |at, bytes| {
                into[at..at + bytes.len()].copy_from_slice(bytes);
            });
        }
        let received = receive_some(&self.socket, into);
        self.arrival("recv", received, into.len())
    }

    #[inline]
    fn send_gathered(&mut self, _now: Time, head: &[u8], body: Window<'_>) -> Result<usize, Loss> {
        if let Some(session) = &mut self.session {
            return session.send(&self.socket, &Source::Pieces(head, body));
        }
        let mut pieces = [piece(head.as_ptr(), head.len()), piece(body.as_ptr(), body.len())];
        // SAFETY: plain data of pointers and lengths, of which zero means none.
        let mut message: libc::msghdr = unsafe { core::mem::zeroed() };
        (message.msg_iov, message.msg_iovlen) = (pieces.as_mut_ptr(), pieces.len() as _);
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: the message names `pieces`, and these memory that is readable meanwhile; the kernel only reads.
        let sent = retry(|| unsafe { libc::sendmsg(self.socket.as_raw_fd(), &raw const message, flags) });
        departure("sendmsg", sent)
    }

    #[inline]
    fn receive_scattered(&mut self, now: Time, mut into: Scatter<'_>) -> Result<Arrival, Loss> {
        let asked = into.len();
        if let Some(session) = &mut self.session {
            return session.receive(&self.socket, asked, |at, bytes| into.write(at, bytes));
        }
        let Scatter { head, body, rest } = &mut into;
        let pieces = [
            piece(head.as_mut_ptr(), head.len()),
            piece(body.as_mut_ptr(), body.len()),
            piece(rest.as_mut_ptr(), rest.len()),
        ];
        let count = pieces.len() as _;
        // SAFETY: the kernel writes to two slices that are borrowed to be written to, and to a window, to whose
        // memory there are no references.
        let received = retry(|| unsafe { libc::readv(self.socket.as_raw_fd(), pieces.as_ptr(), count) });
        if received != Err(Errno::FAULT) {
            return self.arrival("readv", received, asked);
        }
        // The kernel does not wait for memory that another thread provides when it is touched; we may.
        let mut bytes = [0; 4096];
        let most = into.len().min(bytes.len());
        let arrival = self.receive(now, &mut bytes[..most])?;
        if let Arrival::Bytes(len) = arrival {
            into.write(0, &bytes[..len]);
        }
        Ok(arrival)
    }

    #[inline]
    fn is_drained(&self) -> bool {
        self.session.as_ref().map_or(self.is_drained, |session| session.is_drained())
    }

    #[inline]
    fn holds_back(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.holds_back())
    }

    fn finish(&mut self) {
        self.is_finished = true;
        say_no_more(&self.socket);
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }
}

impl Drop for TcpBytes {
    fn drop(&mut self) {
        if self.is_finished {
            departed::keep(&self.socket);
        }
    }
}
