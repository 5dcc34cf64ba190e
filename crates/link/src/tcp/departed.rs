//! Sockets whose link is gone and whose last bytes the peer has not received yet.
//!
//! A socket that is closed while bytes are still to be received is reset by the kernel when the peer says anything, a
//! heartbeat for instance, and those bytes are lost. So such a socket stays open until the peer has everything.

use std::os::fd::{AsRawFd, OwnedFd};

use super::bytes::read_away;
use crate::departed::{self, Departed};

/// Keeps a socket to which nothing more is written until its peer has received everything.
pub(super) fn keep(socket: &OwnedFd) {
    // Without room for another descriptor it is closed as any other is.
    if is_unsent(socket)
        && let Ok(socket) = socket.try_clone()
    {
        departed::keep(Box::new(Unreceived(socket)));
    }
}

struct Unreceived(OwnedFd);

impl Departed for Unreceived {
    fn is_done(&mut self) -> bool {
        !read_away(&self.0) || !is_unsent(&self.0)
    }
}

/// Whether the peer has not received everything.
fn is_unsent(socket: &OwnedFd) -> bool {
    let mut left: libc::c_int = 0;
    // SAFETY: the kernel writes one number.
    let asked = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut left) };
    asked == 0 && left > 0
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, TcpListener, TcpStream};

    use rustix::io::Errno;
    use rustix::net::{SendFlags, Shutdown, send, shutdown};

    use super::*;

    #[test]
    fn what_was_sent_before_the_end_arrives_though_the_peer_has_something_to_say() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let socket = OwnedFd::from(TcpStream::connect(listener.local_addr().unwrap()).unwrap());
        let (mut peer, _) = listener.accept().unwrap();
        // More than the peer's kernel has room for.
        let mut sent = 0;
        let piece = [7; 1 << 16];
        loop {
            match send(&socket, &piece, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(len) => sent += len,
                Err(Errno::AGAIN) => break,
                Err(error) => panic!("{error}"),
            }
        }
        assert!(is_unsent(&socket));
        shutdown(&socket, Shutdown::Write).unwrap();
        keep(&socket);
        drop(socket);
        // Bytes that would have the connection reset.
        peer.write_all(b"are you there?").unwrap();
        let mut received = Vec::new();
        peer.read_to_end(&mut received).unwrap();
        assert_eq!(received.len(), sent);
    }
}
