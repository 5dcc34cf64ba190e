//! A TCP connection on loopback, with nothing around it.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use crate::BenchError;
use crate::error::Named;
use crate::pair::{PATIENCE, spin_until};

/// Where the peer will connect to.
pub(crate) struct BareListener(TcpListener);

impl BareListener {
    pub(crate) fn bind() -> Result<Self, BenchError> {
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).named("bind").map(Self)
    }

    pub(crate) fn address(&self) -> Result<SocketAddr, BenchError> {
        self.0.local_addr().named("getsockname")
    }

    /// Waits for the peer, which has been told to connect.
    pub(crate) fn accept(&self) -> Result<BareSocket, BenchError> {
        let timeout = Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
        let mut descriptors = [PollFd::new(&self.0, PollFlags::IN)];
        match poll(&mut descriptors, Some(&timeout)).named("poll")? {
            0 => Err(BenchError::Stalled { waited: PATIENCE, awaited: "the peer to connect" }),
            _ => BareSocket::new(self.0.accept().named("accept")?.0),
        }
    }
}

/// One end of the connection.
pub(crate) struct BareSocket(TcpStream);

impl BareSocket {
    fn new(stream: TcpStream) -> Result<Self, BenchError> {
        stream.set_nodelay(true).named("setsockopt")?;
        stream.set_read_timeout(Some(PATIENCE)).named("setsockopt")?;
        stream.set_write_timeout(Some(PATIENCE)).named("setsockopt")?;
        Ok(Self(stream))
    }

    pub(crate) fn connect(address: SocketAddr) -> Result<Self, BenchError> {
        Self::new(TcpStream::connect_timeout(&address, PATIENCE).named("connect")?)
    }

    pub(crate) fn write_all(&mut self, bytes: &[u8]) -> Result<(), BenchError> {
        self.0.write_all(bytes).named("write")
    }

    /// Fills `bytes` without ever sleeping: the fastest way where both processes have a core of their own.
    pub(crate) fn read_exact_spinning(&mut self, bytes: &mut [u8]) -> Result<(), BenchError> {
        let mut filled = 0;
        while filled < bytes.len() {
            filled += spin_until("bytes on the bare socket", || {
                match recv(&self.0, &mut bytes[filled..], RecvFlags::DONTWAIT) {
                    Ok((0, _)) => Some(Err(Errno::CONNRESET)),
                    Ok((len, _)) => Some(Ok(len)),
                    Err(Errno::AGAIN) => None,
                    Err(errno) => Some(Err(errno)),
                }
            })?
            .named("recv")?;
        }
        Ok(())
    }

    /// Reads what there is, at least one byte.
    pub(crate) fn read_some(&mut self, bytes: &mut [u8]) -> Result<usize, BenchError> {
        match self.0.read(bytes).named("read")? {
            0 => Err(BenchError::PeerGone { awaited: "bytes on the bare socket" }),
            len => Ok(len),
        }
    }
}
