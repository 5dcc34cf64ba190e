//! An end of the stream without a link, for tests that break the rules.

use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};

use outboard_wire::{DecodeError, Time, Versions};

use super::bytes::new_epoll;
use super::meeting::Meeting;
use super::preface::{PREFACE_LEN, Preface, SLOT_BYTES_MIN, SLOTS_MIN};
use super::{OfiBytes, OfiConfig};
use crate::ConnectError;
use crate::memory::Window;
use crate::stream::{Arrival, ByteStream};

/// The words of a side about its endpoint, before it knows whether the other side has one that fits.
pub fn offer_preface(provider: &str, name: &[u8]) -> Vec<u8> {
    let (slots, slot_bytes) = (SLOTS_MIN, SLOT_BYTES_MIN);
    let (provider, name, versions) = (provider.to_owned(), name.to_vec(), Versions::OURS);
    Preface { versions, provider, name, slots, slot_bytes, wants_bells: false }.encode().to_vec()
}

/// Reads what another side says of its endpoint, and says the same again.
pub fn read_preface(bytes: &[u8]) -> Result<Vec<u8>, DecodeError> {
    let bytes: &[u8; PREFACE_LEN] = bytes
        .try_into()
        .map_err(|_| DecodeError::BadValue { what: "length of a preface", value: bytes.len() as u64 })?;
    let preface = Preface::decode(bytes)?;
    // Shown to people as well.
    let _ = preface.why_none();
    Ok(preface.encode().to_vec())
}

/// A stranger on his way to becoming the peer of a link.
pub struct RawMeeting {
    meeting: Option<Meeting>,
    is_dialler: bool,
}

/// An end that writes whatever it is told to.
pub struct RawOfiEnd(pub(super) OfiBytes);

impl RawMeeting {
    /// Connects to a listener.
    pub fn dial(address: SocketAddr, config: &OfiConfig) -> Result<Self, ConnectError> {
        let socket = std::net::TcpStream::connect(address).expect("a test's listener is there");
        let mut meeting = start(socket, config)?;
        meeting.introduce(config.provider.as_deref())?;
        Ok(Self { meeting: Some(meeting), is_dialler: true })
    }

    /// Is connected to.
    pub fn accept(listener: &TcpListener, config: &OfiConfig) -> Result<Self, ConnectError> {
        let (socket, _) = listener.accept().expect("a test's dialler is there");
        Ok(Self { meeting: Some(start(socket, config)?), is_dialler: false })
    }

    /// The end, once the peer has introduced itself.
    pub fn poll(&mut self) -> Result<Option<RawOfiEnd>, ConnectError> {
        let Some(meeting) = &mut self.meeting else { return Ok(None) };
        let Some(theirs) = meeting.hear(Time::ZERO)? else { return Ok(None) };
        if !self.is_dialler {
            meeting.introduce(Some(&theirs.provider))?;
        }
        self.meeting.take().map(|meeting| meeting.meet(&theirs).map(RawOfiEnd)).transpose()
    }
}

fn start(socket: std::net::TcpStream, config: &OfiConfig) -> Result<Meeting, ConnectError> {
    socket.set_nonblocking(true).expect("a socket can be told not to block");
    let socket = OwnedFd::from(socket);
    let epoll = new_epoll(socket.as_fd()).expect("a test has descriptors left");
    let ours = (config.clone(), Versions::OURS);
    Meeting::new(socket, epoll, ours, "a test".to_owned(), Time::ZERO)
}

impl RawOfiEnd {
    /// Sends what there is room for.
    pub fn write(&mut self, bytes: &[u8]) {
        // A peer that has had enough has had enough.
        let _ = self.0.send_gathered(Time::ZERO, bytes, Window::from(&[][..]));
    }

    /// Takes what has arrived.
    pub fn read(&mut self) -> Vec<u8> {
        let mut bytes = vec![0; 1 << 16];
        let len = match self.0.receive(Time::ZERO, &mut bytes) {
            Ok(Arrival::Bytes(len)) => len,
            _ => 0,
        };
        bytes.truncate(len);
        bytes
    }
}
