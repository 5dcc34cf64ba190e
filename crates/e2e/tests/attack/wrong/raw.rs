//! Connections that are made by hand and speak the protocol, until they are told to speak it wrongly.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::BorrowedFd;
use std::time::Duration;

use outboard::Address;
use outboard_e2e::Random;
use outboard_wire::{
    Auth, FrameHead, FrameHeader, HANDSHAKE_LEN, HandshakeAnswer, Hello, Incarnation, Introduction, JobId,
    Rank, Role, StoreId, Text, Versions,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::shm::RawShm;

/// How long an attacker waits for anything before it tries something else.
const MOMENT: Duration = Duration::from_secs(2);

/// The other side has hung up, or does not answer: what an attacker has to expect.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hung;

impl From<Errno> for Hung {
    fn from(_: Errno) -> Self {
        Self
    }
}

impl From<std::io::Error> for Hung {
    fn from(_: std::io::Error) -> Self {
        Self
    }
}

/// What a record takes in a stream or a ring.
pub(crate) const fn record_len(payload: usize) -> usize {
    (FrameHeader::LEN + payload).next_multiple_of(16)
}

pub(crate) fn await_readable(descriptor: BorrowedFd<'_>) -> Result<(), Hung> {
    let limit = Timespec { tv_sec: MOMENT.as_secs().cast_signed(), tv_nsec: 0 };
    let ready = poll(&mut [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)], Some(&limit))?;
    if ready > 0 { Ok(()) } else { Err(Hung) }
}

/// What a client of this role says first.
pub(crate) fn hello(role: Role, random: &mut Random) -> Hello {
    let intro = Introduction {
        incarnation: Incarnation(random.next()),
        role,
        job: JobId(random.below(3)),
        rank: Rank(0),
        pid: std::process::id(),
        name: Text::new("attacker"),
        max_payload: 1 << 17,
        auth: Auth::NONE,
        store: StoreId::NONE,
    };
    Hello { versions: Versions::OURS, intro }
}

/// A TCP connection that has done the handshake.
pub(crate) struct RawTcp {
    pub(crate) stream: TcpStream,
    arrived: Vec<u8>,
}

pub(crate) fn connect_tcp(at: SocketAddr) -> Result<TcpStream, Hung> {
    let stream = TcpStream::connect_timeout(&at, MOMENT)?;
    stream.set_read_timeout(Some(MOMENT))?;
    stream.set_write_timeout(Some(MOMENT))?;
    Ok(stream)
}

impl RawTcp {
    fn connect(at: SocketAddr, hello: &[u8; HANDSHAKE_LEN]) -> Result<Self, Hung> {
        let mut stream = connect_tcp(at)?;
        stream.write_all(hello)?;
        let mut answer = [0; HANDSHAKE_LEN];
        stream.read_exact(&mut answer)?;
        match HandshakeAnswer::decode(&answer) {
            Ok(HandshakeAnswer::Welcome(_)) => Ok(Self::new(stream)),
            _ => Err(Hung),
        }
    }

    pub(crate) fn new(stream: TcpStream) -> Self {
        Self { stream, arrived: Vec::new() }
    }

    fn take(&mut self) -> Vec<(FrameHead, Vec<u8>)> {
        let mut bytes = [0; 1 << 14];
        // A fixed number, so that nobody can keep an attacker reading for ever.
        for _ in 0..64 {
            match rustix::net::recv(&self.stream, &mut bytes[..], rustix::net::RecvFlags::DONTWAIT) {
                Ok((len, _)) if len > 0 => self.arrived.extend_from_slice(&bytes[..len]),
                _ => break,
            }
        }
        let mut frames = Vec::new();
        while let Ok(header) = FrameHeader::decode(&self.arrived) {
            let (len, whole) = (header.payload_len() as usize, record_len(header.payload_len() as usize));
            if self.arrived.len() < whole {
                break;
            }
            let payload = self.arrived[FrameHeader::LEN..FrameHeader::LEN + len].to_vec();
            self.arrived.drain(..whole);
            frames.push((header.head(), payload));
        }
        frames
    }
}

/// The header of a frame that says to have so many bytes.
pub(crate) fn header(head: FrameHead, len: u32) -> [u8; FrameHeader::LEN] {
    let [first, second] = FrameHeader::new(head, len).to_words().map(u64::to_le_bytes);
    std::array::from_fn(|at| if at < 8 { first[at] } else { second[at - 8] })
}

/// A frame as it stands in a stream.
pub(crate) fn record(head: FrameHead, payload: &[u8]) -> Vec<u8> {
    let mut bytes = [&header(head, payload.len() as u32)[..], payload].concat();
    bytes.resize(record_len(payload.len()), 0);
    bytes
}

/// A connection over either way that has done the handshake.
pub(crate) enum Raw {
    Tcp(RawTcp),
    Shm(Box<RawShm>),
}

impl Raw {
    /// Connects as a process of this role.
    pub(crate) fn connect(at: &Address, role: Role, random: &mut Random) -> Result<Self, Hung> {
        Self::connect_as(at, &hello(role, random))
    }

    /// Connects as whom this hello says.
    pub(crate) fn connect_as(at: &Address, hello: &Hello) -> Result<Self, Hung> {
        match at {
            Address::Tcp(socket) => Ok(Self::Tcp(RawTcp::connect(*socket, &hello.encode())?)),
            Address::Abstract(name) => Ok(Self::Shm(Box::new(RawShm::connect(name, &hello.encode())?))),
            Address::Ofi(_) | Address::Path(_) => Err(Hung),
        }
    }

    /// Sends a frame. False if the other side does not take any at present.
    pub(crate) fn frame(&mut self, head: FrameHead, payload: &[u8]) -> Result<bool, Hung> {
        match self {
            Self::Tcp(tcp) => match tcp.stream.write_all(&record(head, payload)) {
                Ok(()) => Ok(true),
                // What was sent of it stays half a record: this connection is of no more use.
                Err(_) => Err(Hung),
            },
            Self::Shm(shm) => shm.frame(head, payload),
        }
    }

    /// Sends a frame and lets the other side have its time to take it.
    pub(crate) fn frame_patiently(&mut self, head: FrameHead, payload: &[u8]) -> Result<(), Hung> {
        for _ in 0..2000 {
            if self.frame(head, payload)? {
                return Ok(());
            }
            std::thread::park_timeout(Duration::from_millis(1));
        }
        Err(Hung)
    }

    /// What has come.
    pub(crate) fn take(&mut self) -> Vec<(FrameHead, Vec<u8>)> {
        match self {
            Self::Tcp(tcp) => tcp.take(),
            Self::Shm(shm) => shm.take(),
        }
    }

    /// Waits until a frame comes that `is_it`.
    pub(crate) fn await_frame(
        &mut self,
        is_it: impl Fn(&FrameHead) -> bool,
    ) -> Result<(FrameHead, Vec<u8>), Hung> {
        let until = std::time::Instant::now() + MOMENT;
        while std::time::Instant::now() < until {
            if let Some(found) = self.take().into_iter().find(|(head, _)| is_it(head)) {
                return Ok(found);
            }
            std::thread::park_timeout(Duration::from_millis(1));
        }
        Err(Hung)
    }
}
