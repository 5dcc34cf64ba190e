//! A TCP socket as a stream of bytes.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use outboard_wire::Time;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown, sockopt};

use crate::Loss;
use crate::stream::{Arrival, ByteStream};

/// A non-blocking TCP socket.
pub struct TcpBytes {
    socket: OwnedFd,
    is_connected: bool,
}

/// What is read and thrown away at the end, at most: closing a socket with unread bytes would make the kernel
/// throw away what the peer has not received yet.
const DRAIN_CALLS: usize = 64;

impl TcpBytes {
    /// Takes over a non-blocking socket whose connection stands or is being made.
    pub(super) fn new(socket: OwnedFd, is_connected: bool) -> Result<Self, Errno> {
        sockopt::set_tcp_nodelay(&socket, true)?;
        Ok(Self { socket, is_connected })
    }
}

fn lost(call: &'static str, source: Errno) -> Loss {
    match source {
        Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN => Loss::Gone,
        source => Loss::System { call, source },
    }
}

impl ByteStream for TcpBytes {
    const NAME: &'static str = "tcp";

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

    #[inline]
    fn send(&mut self, _now: Time, bytes: &[u8]) -> Result<usize, Loss> {
        loop {
            return match send(&self.socket, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(len) => Ok(len),
                Err(Errno::AGAIN) => Ok(0),
                Err(Errno::INTR) => continue,
                Err(source) => Err(lost("send", source)),
            };
        }
    }

    #[inline]
    fn receive(&mut self, _now: Time, into: &mut [u8]) -> Result<Arrival, Loss> {
        loop {
            return match recv(&self.socket, &mut *into, RecvFlags::DONTWAIT) {
                Ok((0, _)) => Ok(Arrival::End),
                Ok((len, _)) => Ok(Arrival::Bytes(len)),
                Err(Errno::AGAIN) => Ok(Arrival::Nothing),
                Err(Errno::INTR) => continue,
                Err(source) => Err(lost("recv", source)),
            };
        }
    }

    fn finish(&mut self) {
        // A connection that is gone needs no farewell.
        let _ = shutdown(&self.socket, Shutdown::Write);
        let mut scrap = [0u8; 1 << 14];
        for _ in 0..DRAIN_CALLS {
            match recv(&self.socket, &mut scrap[..], RecvFlags::DONTWAIT) {
                Ok((len, _)) if len > 0 => {}
                _ => break,
            }
        }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }
}
