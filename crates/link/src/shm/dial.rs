//! The side that connects.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use outboard_wire::{Answer, DecodeError, HANDSHAKE_LEN, Refusal, RefusalReason, Time};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SocketAddrUnix, connect as connect_socket, sockopt::socket_peercred};

use super::channel::{Channel, MESSAGE_MAX, Received};
use super::config::{Config, is_ring_size, max_payload};
use super::link::ShmLink;
use super::rings::{Layout, Side};
use super::setup::{Setup, open_socket, socket_address};
use crate::memory::{AdoptError, Segment, SegmentAccess};
use crate::{Address, Clock, ConnectError, Exports, Identity, Peer, Violation};

/// A connection to a listener whose handshake is not finished.
pub struct Dialing {
    channel: Option<Channel>,
    name: SocketAddrUnix,
    connected: bool,
    hello: [u8; HANDSHAKE_LEN],
    deadline: Time,
    setup: Setup,
}

impl Dialing {
    /// Begins to connect to `address`.
    pub fn new(
        address: &Address,
        identity: Identity,
        exports: Arc<Exports>,
        config: Config,
        now: Time,
    ) -> Result<Self, ConnectError> {
        let hello = identity.hello(max_payload(config.ring_bytes.max(1 << 16)) as u32).encode();
        let setup = Setup { address: address.to_string(), identity, exports, config };
        let name = socket_address(address).map_err(|source| setup.system("address", source))?;
        let socket = open_socket().map_err(|source| setup.system("socket", source))?;
        let deadline = now + setup.config.handshake_timeout;
        Ok(Self { channel: Some(Channel::new(socket)), name, connected: false, hello, deadline, setup })
    }

    /// Says something else than the right hello: for tests of the other side.
    #[doc(hidden)]
    pub fn with_hello(self, hello: [u8; HANDSHAKE_LEN]) -> Self {
        Self { hello, ..self }
    }

    /// Becomes readable when [`poll`](Dialing::poll) can go on, once connected.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.channel.as_ref().map(Channel::descriptor)
    }

    /// When [`poll`](Dialing::poll) gives up.
    pub fn deadline(&self) -> Time {
        self.deadline
    }

    /// Goes on with the handshake; `None` means not yet.
    pub fn poll(&mut self, now: Time) -> Result<Option<ShmLink>, ConnectError> {
        let Some(channel) = &self.channel else {
            return Err(ConnectError::HungUp { address: self.setup.address.clone() });
        };
        if !self.connected {
            match connect_socket(channel.descriptor(), &self.name) {
                Ok(()) => {}
                // The listener's queue is full: it may have room later.
                Err(Errno::AGAIN | Errno::INTR) if now < self.deadline => return Ok(None),
                Err(Errno::AGAIN | Errno::INTR) => return Err(self.setup.timed_out()),
                Err(source) => {
                    return Err(ConnectError::Unreachable { address: self.setup.address.clone(), source });
                }
            }
            self.connected = true;
            self.check_listener(channel.descriptor())?;
            channel.send(&self.hello, None).map_err(|loss| self.setup.lost(loss))?;
        }
        let mut bytes = [0; MESSAGE_MAX];
        match channel.receive(&mut bytes).map_err(|loss| self.setup.lost(loss))? {
            Received::Nothing | Received::Doorbell if now < self.deadline => Ok(None),
            Received::Nothing | Received::Doorbell => Err(self.setup.timed_out()),
            Received::Message(len, segment) => {
                let answer = Answer::decode(&bytes[..len.min(HANDSHAKE_LEN + 1)]);
                self.hear(answer, segment).map(Some)
            }
        }
    }

    /// A name without a file can be taken by any user of the machine, so the listener must be one we trust.
    fn check_listener(&self, socket: BorrowedFd<'_>) -> Result<(), ConnectError> {
        let listener =
            socket_peercred(socket).map_err(|source| self.setup.system("getsockopt(SO_PEERCRED)", source))?;
        let user = listener.uid.as_raw();
        if self.setup.config.users.include(user) {
            return Ok(());
        }
        let detail =
            format!("its listener belongs to user {user}, whom the setting `users` does not include");
        let refusal = Box::new(Refusal::new(RefusalReason::Credentials, &detail));
        Err(ConnectError::TurnedAway { address: self.setup.address.clone(), refusal })
    }

    /// Takes the segment that the other side made, or its refusal.
    fn hear(
        &mut self,
        answer: Result<Answer, DecodeError>,
        segment: Option<OwnedFd>,
    ) -> Result<ShmLink, ConnectError> {
        let address = || self.setup.address.clone();
        let channel = self.channel.take().ok_or_else(|| ConnectError::HungUp { address: address() })?;
        let welcome = match answer {
            Ok(Answer::Welcome(welcome)) => welcome,
            Ok(Answer::Refusal(refusal)) => {
                return Err(ConnectError::Refused { address: address(), refusal: Box::new(refusal) });
            }
            Err(source) => return Err(ConnectError::Garbage { address: address(), source }),
        };
        let unusable =
            |what| ConnectError::Violation { address: address(), source: Violation::Segment(what) };
        if !is_ring_size(welcome.ring_bytes) {
            return Err(unusable("of an impossible size"));
        }
        let descriptor = segment.ok_or_else(|| unusable("missing"))?;
        let len = Layout::new(welcome.ring_bytes).segment_len();
        let segment = match Segment::adopt(descriptor, len, SegmentAccess::ReadWrite) {
            Ok(segment) => segment,
            Err(AdoptError::Violation(source)) => {
                return Err(ConnectError::Violation { address: address(), source });
            }
            Err(AdoptError::System(source)) => return Err(self.setup.system("mmap", source)),
        };
        let peer = Peer::new(welcome.intro, address());
        self.setup.link(Side::Connecting, channel, segment, (peer, welcome.ring_bytes))
    }
}

/// Connects to `address` and waits until the link is open, for `config.handshake_timeout` at most.
pub fn connect(
    address: &Address,
    identity: Identity,
    exports: Arc<Exports>,
    config: Config,
) -> Result<ShmLink, ConnectError> {
    let clock = Clock::start();
    let mut dialing = Dialing::new(address, identity, exports, config, clock.now())?;
    loop {
        if let Some(link) = dialing.poll(clock.now())? {
            return Ok(link);
        }
        let Some(descriptor) = dialing.descriptor() else { continue };
        // A listener whose queue is full cannot be waited for, only asked again.
        let most = if dialing.connected { Duration::MAX } else { Duration::from_millis(1) };
        let span = dialing.deadline.since(clock.now()).min(most);
        let timeout = Timespec { tv_sec: span.as_secs() as i64, tv_nsec: span.subsec_nanos().into() };
        let _ = poll(&mut [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)], Some(&timeout));
    }
}
