//! A TCP connection on loopback, with nothing around it.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::BenchError;
use crate::error::Named;
use crate::pair::{PATIENCE, Waits, spin_until};

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
pub(crate) struct BareSocket {
    stream: TcpStream,
    pub(crate) waits: Waits,
}

impl BareSocket {
    fn new(stream: TcpStream) -> Result<Self, BenchError> {
        stream.set_nodelay(true).named("setsockopt")?;
        stream.set_read_timeout(Some(PATIENCE)).named("setsockopt")?;
        stream.set_write_timeout(Some(PATIENCE)).named("setsockopt")?;
        Ok(Self { stream, waits: Waits::Spinning })
    }

    pub(crate) fn connect(address: SocketAddr) -> Result<Self, BenchError> {
        Self::new(TcpStream::connect_timeout(&address, PATIENCE).named("connect")?)
    }

    /// Writes everything.
    pub(crate) fn write_all(&mut self, mut bytes: &[u8]) -> Result<(), BenchError> {
        let flags = SendFlags::NOSIGNAL | self.flag(SendFlags::DONTWAIT, SendFlags::empty());
        while !bytes.is_empty() {
            let sent = self.retry("room on the bare socket", || send(&self.stream, bytes, flags))?;
            bytes = &bytes[sent..];
        }
        Ok(())
    }

    /// Fills `bytes`.
    pub(crate) fn read_exact(&mut self, bytes: &mut [u8]) -> Result<(), BenchError> {
        let mut filled = 0;
        while filled < bytes.len() {
            filled += self.read_some(&mut bytes[filled..])?;
        }
        Ok(())
    }

    /// Reads what there is, at least one byte.
    pub(crate) fn read_some(&mut self, bytes: &mut [u8]) -> Result<usize, BenchError> {
        let (awaited, flags) =
            ("bytes on the bare socket", self.flag(RecvFlags::DONTWAIT, RecvFlags::empty()));
        match self.retry(awaited, || recv(&self.stream, &mut *bytes, flags).map(|(len, _)| len))? {
            0 => Err(BenchError::PeerGone { awaited }),
            len => Ok(len),
        }
    }

    fn flag<F>(&self, dont_wait: F, none: F) -> F {
        if self.waits == Waits::Spinning { dont_wait } else { none }
    }

    /// Calls until the socket is ready; asleep, the first call waits until its timeout.
    fn retry(
        &self,
        awaited: &'static str,
        mut call: impl FnMut() -> Result<usize, Errno>,
    ) -> Result<usize, BenchError> {
        let is_asleep = self.waits == Waits::Asleep;
        let len = spin_until(awaited, || match call() {
            Err(Errno::AGAIN) if is_asleep => Some(Err(Errno::TIMEDOUT)),
            Err(Errno::AGAIN | Errno::INTR) => None,
            done => Some(done),
        })?;
        len.named("the bare socket")
    }
}
