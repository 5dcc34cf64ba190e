//! System calls on a socket that does not block.

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::Loss;

/// The outcome of an attempt to send.
#[inline]
pub(super) fn departure(call: &'static str, sent: Result<usize, Errno>) -> Result<usize, Loss> {
    match sent {
        Ok(len) => Ok(len),
        Err(Errno::AGAIN) => Ok(0),
        Err(source) => Err(lost(call, source)),
    }
}

pub(super) fn lost(call: &'static str, source: Errno) -> Loss {
    match source {
        Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN => Loss::Gone,
        source => Loss::System { call, source },
    }
}

/// Sends what there is room for.
#[inline]
pub(super) fn send_some(socket: &OwnedFd, bytes: &[u8]) -> Result<usize, Loss> {
    loop {
        return match send(socket, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Err(Errno::INTR) => continue,
            sent => departure("send", sent),
        };
    }
}

/// Receives what is there.
#[inline]
pub(super) fn receive_some(socket: &OwnedFd, into: &mut [u8]) -> Result<usize, Errno> {
    loop {
        return match recv(socket, &mut *into, RecvFlags::DONTWAIT) {
            Err(Errno::INTR) => continue,
            received => received.map(|(len, _)| len),
        };
    }
}
