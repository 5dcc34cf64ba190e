//! The side that connects.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use outboard_wire::{HANDSHAKE_LEN, HandshakeAnswer, Refusal, RefusalReason, Time, Welcome};
use rustix::event::PollFlags;
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout, socket_peercred};
use rustix::net::{SocketAddrUnix, connect as connect_socket};

use super::channel::{Channel, Enclosed, MESSAGE_MAX, Received};
use super::config::{ShmConfig, is_ring_size, max_payload};
use super::link::ShmLink;
use super::rings::{Layout, Side};
use super::setup::{Setup, open_socket, socket_address};
use crate::connecting::{self, Connecting};
use crate::hello::hear_answer;
use crate::memory::{AdoptError, Segment, SegmentAccess};
use crate::patience::Patience;
use crate::{Address, Clock, ConnectError, Exports, Identity, Loss, Peer, Violation};

/// How many answers are heard in one look; more than one only if the other side asks to wait.
const ANSWERS_PER_LOOK: usize = 16;

/// How long the kernel keeps a thread in the queue before the listener's at a time.
const QUEUED: Duration = Duration::from_millis(50);

/// A connection to a listener whose handshake is not finished.
pub struct ShmDialing {
    channel: Option<Channel>,
    name: SocketAddrUnix,
    connected: bool,
    hello: [u8; HANDSHAKE_LEN],
    patience: Patience,
    setup: Setup,
}

impl ShmDialing {
    /// Begins to connect to `address`.
    pub fn new(
        address: &Address,
        identity: Identity,
        exports: Arc<Exports>,
        config: ShmConfig,
        now: Time,
    ) -> Result<Self, ConnectError> {
        let hello = identity.hello(max_payload(config.ring_bytes.max(1 << 16)) as u32).encode();
        let setup = Setup { address: address.to_string(), identity, exports, config };
        let name = socket_address(address).map_err(|source| setup.system("address", source))?;
        let socket = open_socket().map_err(|source| setup.system("socket", source))?;
        let patience = Patience::new(setup.config.handshake_timeout, now);
        Ok(Self { channel: Some(Channel::new(socket)), name, connected: false, hello, patience, setup })
    }

    /// Lets the kernel put this thread into the queue before the listener's, for a while at a time: thousands that ask
    /// again and again whether there is room keep the listener from making any. Nothing else on the socket ever blocks.
    fn wait_for_room(&self) -> Result<(), ConnectError> {
        let Some(channel) = &self.channel else { return Ok(()) };
        let socket = channel.descriptor();
        set_socket_timeout(socket, Timeout::Send, Some(QUEUED))
            .map_err(|source| self.setup.system("setsockopt", source))?;
        fcntl_setfl(socket, OFlags::empty()).map_err(|source| self.setup.system("fcntl", source))?;
        Ok(())
    }

    /// Says something else than the right hello: for tests of the other side.
    #[doc(hidden)]
    pub fn with_hello(self, hello: [u8; HANDSHAKE_LEN]) -> Self {
        Self { hello, ..self }
    }

    /// Becomes readable when [`poll`](ShmDialing::poll) can go on, once connected.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.channel.as_ref().map(Channel::descriptor)
    }

    /// When to look again at the latest, if nothing arrives.
    pub fn next_look(&self) -> Time {
        self.patience.next_look()
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
                Err(Errno::AGAIN | Errno::INTR) if self.patience.is_over(now) => {
                    return Err(self.patience.timed_out(self.setup.address.clone()));
                }
                Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
                Err(source) => {
                    return Err(ConnectError::Unreachable { address: self.setup.address.clone(), source });
                }
            }
            self.connected = true;
            self.check_listener(channel.descriptor())?;
            match channel.send(&self.hello, None) {
                // It may have said why.
                Ok(_) | Err(Loss::Gone) => {}
                Err(loss) => return Err(self.setup.lost(loss)),
            }
        }
        let mut bytes = [0; MESSAGE_MAX];
        for _ in 0..ANSWERS_PER_LOOK {
            let Some(channel) = &self.channel else { break };
            match channel.receive(&mut bytes).map_err(|loss| self.setup.lost(loss))? {
                Received::Message(len, enclosed) => {
                    let answer = HandshakeAnswer::decode(&bytes[..len.min(HANDSHAKE_LEN + 1)]);
                    let us = (&self.setup.identity, self.setup.address.as_str());
                    if let Some(welcome) = hear_answer(answer, us, &mut self.patience, now)? {
                        return self.take_over(&welcome, enclosed).map(Some);
                    }
                }
                Received::Nothing | Received::Doorbell if self.patience.is_over(now) => {
                    return Err(self.patience.timed_out(self.setup.address.clone()));
                }
                Received::Nothing | Received::Doorbell => break,
            }
        }
        Ok(None)
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

    /// Takes the segment that the other side made.
    fn take_over(&mut self, welcome: &Welcome, enclosed: Enclosed) -> Result<ShmLink, ConnectError> {
        let address = || self.setup.address.clone();
        let mut channel = self.channel.take().ok_or_else(|| ConnectError::HungUp { address: address() })?;
        channel.take_files();
        let unusable =
            |what| ConnectError::Violation { address: address(), source: Violation::Segment(what) };
        if !is_ring_size(welcome.ring_bytes) {
            return Err(unusable("of an impossible size"));
        }
        let descriptor = match enclosed {
            Enclosed::Descriptor(descriptor) => descriptor,
            Enclosed::Nothing => return Err(unusable("missing")),
            Enclosed::Dropped => return Err(self.setup.system("recvmsg", Errno::MFILE)),
        };
        let len = Layout::new(welcome.ring_bytes).segment_len();
        let segment = match Segment::adopt(descriptor, len, SegmentAccess::ReadWrite) {
            Ok(segment) => segment,
            Err(AdoptError::Violation(source)) => {
                return Err(ConnectError::Violation { address: address(), source });
            }
            Err(AdoptError::System(source)) => return Err(self.setup.system("mmap", source)),
        };
        let (rings, _) = self
            .setup
            .rings(Side::Connecting, segment, welcome.ring_bytes)
            .map_err(|source| self.setup.system("mmap", source))?;
        Ok(self.setup.link(channel, rings, Peer::new(welcome.intro, welcome.version, address())))
    }
}

/// Connects to `address` and waits until the link is open; gives up when the other side has said nothing for
/// `config.handshake_timeout`.
pub fn connect(
    address: &Address,
    identity: Identity,
    exports: Arc<Exports>,
    config: ShmConfig,
) -> Result<ShmLink, ConnectError> {
    let clock = Clock::start();
    let dialing = ShmDialing::new(address, identity, exports, config, clock.now())?;
    dialing.wait_for_room()?;
    connecting::finish(dialing, clock)
}

impl Connecting for ShmDialing {
    type Link = ShmLink;

    fn go_on(&mut self, now: Time) -> Result<Option<ShmLink>, ConnectError> {
        self.poll(now)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Self::descriptor(self)
    }

    fn awaits(&self, now: Time) -> Option<(PollFlags, Duration)> {
        // While the listener's queue is full there is nothing to wait on: to connect is to wait.
        self.connected.then(|| (PollFlags::IN, self.next_look().since(now)))
    }
}
