//! How two processes of one node come to share a link.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use outboard_wire::{Answer, Auth, HANDSHAKE_LEN, Hello, Refusal, RefusalReason, Time, Versions, Welcome};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect as connect_socket,
    listen, socket_with, sockopt::socket_peercred,
};

use super::channel::{Channel, MESSAGE_MAX, Received};
use super::config::{Config, is_ring_size, max_payload};
use super::link::ShmLink;
use super::regions::Regions;
use super::rings::{Layout, Side};
use crate::export::ExportView;
use crate::memory::{AdoptError, Segment, SegmentAccess};
use crate::{
    Address, AtomicDomain, Capabilities, Clock, ConnectError, Counters, Exports, Identity, Loss, OneSided,
    Peer,
};

/// How many connections may wait to be accepted.
const BACKLOG: i32 = 128;

/// What every link of this process starts from.
#[derive(Clone)]
struct Setup {
    address: String,
    identity: Identity,
    exports: Arc<Exports>,
    config: Config,
}

impl Setup {
    fn system(&self, call: &'static str, source: Errno) -> ConnectError {
        ConnectError::System { call, address: self.address.clone(), source }
    }

    fn lost(&self, loss: Loss) -> ConnectError {
        match loss {
            Loss::Gone => ConnectError::HungUp { address: self.address.clone() },
            Loss::System { call, source } => self.system(call, source),
            Loss::Broke(source) => ConnectError::Violation { address: self.address.clone(), source },
            _ => ConnectError::HungUp { address: self.address.clone() },
        }
    }

    fn timed_out(&self) -> ConnectError {
        let waited = self.config.handshake_timeout;
        ConnectError::TimedOut { address: self.address.clone(), waited }
    }

    /// Puts a link together once both sides hold the segment.
    fn link(
        &self,
        side: Side,
        channel: Channel,
        segment: Segment,
        (peer, ring_bytes): (Peer, u32),
    ) -> Result<ShmLink, ConnectError> {
        let segment = Arc::new(segment);
        let longest = max_payload(ring_bytes);
        let (outgoing, incoming) = Layout::new(ring_bytes)
            .rings(&segment, side, longest)
            .map_err(|source| self.system("mmap", source))?;
        let capabilities = Capabilities {
            name: "shm",
            max_payload: longest,
            one_sided: OneSided::Mapped,
            max_access: usize::MAX,
            max_operations: self.config.operations_max,
            atomics: AtomicDomain::Cpu,
            needs_target_progress: false,
        };
        Ok(ShmLink {
            peer,
            capabilities,
            counters: Counters::default(),
            channel,
            segment,
            outgoing,
            incoming,
            reserved: None,
            wanted_room: 0,
            lost: None,
            look_interval: self.config.look_interval,
            next_look: Time::ZERO,
            exports: ExportView::new(Arc::clone(&self.exports)),
            regions: Regions::default(),
            regions_max: self.config.regions_max,
            regions_given: 0,
            unsent: Default::default(),
            completions: Default::default(),
        })
    }
}

fn socket_address(address: &Address) -> Result<SocketAddrUnix, Errno> {
    match address {
        Address::Abstract(name) => SocketAddrUnix::new_abstract_name(name.as_bytes()),
        Address::Path(path) => SocketAddrUnix::new(path),
        Address::Tcp(_) => Err(Errno::AFNOSUPPORT),
    }
}

fn open_socket() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
}

/// Accepts shared-memory links on a Unix socket.
pub struct ShmListener {
    socket: OwnedFd,
    setup: Setup,
    /// Removed when the listener ends. After a kill it stays until the next listener there takes its place.
    path: Option<std::path::PathBuf>,
}

impl ShmListener {
    /// Listens on `address`, which must not be served by another process.
    pub fn bind(
        address: &Address,
        identity: Identity,
        exports: Arc<Exports>,
        config: Config,
    ) -> Result<Self, ConnectError> {
        config.check()?;
        let setup = Setup { address: address.to_string(), identity, exports, config };
        let name = socket_address(address).map_err(|source| setup.system("address", source))?;
        let socket = open_socket().map_err(|source| setup.system("socket", source))?;
        match bind(&socket, &name) {
            Err(Errno::ADDRINUSE) if is_abandoned(address, &name) => {
                bind(&socket, &name).map_err(|source| setup.system("bind", source))?;
            }
            Err(Errno::ADDRINUSE) => return Err(ConnectError::InUse { address: setup.address }),
            Err(source) => return Err(setup.system("bind", source)),
            Ok(()) => {}
        }
        listen(&socket, BACKLOG).map_err(|source| setup.system("listen", source))?;
        let path = if let Address::Path(path) = address { Some(path.clone()) } else { None };
        Ok(Self { socket, setup, path })
    }

    /// Becomes readable when someone connects.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Takes the next connection, if there is one; its handshake is still to come.
    pub fn accept(&self, now: Time) -> Result<Option<Accepting>, ConnectError> {
        match accept_with(&self.socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            Ok(socket) => Ok(Some(Accepting {
                channel: Some(Channel::new(socket)),
                deadline: now + self.setup.config.handshake_timeout,
                setup: self.setup.clone(),
            })),
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => Ok(None),
            Err(source) => Err(self.setup.system("accept", source)),
        }
    }
}

impl Drop for ShmListener {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // Whoever removed it before us did what we wanted.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Whether a socket file is left over from a process that was killed; if so it is removed.
fn is_abandoned(address: &Address, name: &SocketAddrUnix) -> bool {
    let Address::Path(path) = address else { return false };
    let Ok(probe) = open_socket() else { return false };
    connect_socket(&probe, name) == Err(Errno::CONNREFUSED) && remove_socket(path)
}

fn remove_socket(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket());
    is_socket && std::fs::remove_file(path).is_ok()
}

/// A connection whose handshake is not finished.
pub struct Accepting {
    channel: Option<Channel>,
    deadline: Time,
    setup: Setup,
}

impl Accepting {
    /// Becomes readable when [`poll`](Accepting::poll) can go on.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.channel.as_ref().map(Channel::descriptor)
    }

    /// When [`poll`](Accepting::poll) gives up.
    pub fn deadline(&self) -> Time {
        self.deadline
    }

    /// Goes on with the handshake; `None` means not yet.
    pub fn poll(&mut self, now: Time) -> Result<Option<ShmLink>, ConnectError> {
        let Some(channel) = &self.channel else {
            return Err(ConnectError::HungUp { address: self.setup.address.clone() });
        };
        let mut bytes = [0; MESSAGE_MAX];
        match channel.receive(&mut bytes).map_err(|loss| self.setup.lost(loss))? {
            Received::Nothing | Received::Doorbell if now < self.deadline => Ok(None),
            Received::Nothing | Received::Doorbell => Err(self.setup.timed_out()),
            Received::Message(len, _) => {
                let hello = Hello::decode(&bytes[..len.min(HANDSHAKE_LEN + 1)]);
                self.greet(hello).map(Some)
            }
        }
    }

    /// Checks who is there and hands over the segment, or says why not.
    fn greet(&mut self, hello: Result<Hello, outboard_wire::DecodeError>) -> Result<ShmLink, ConnectError> {
        let channel = self
            .channel
            .take()
            .ok_or_else(|| ConnectError::HungUp { address: self.setup.address.clone() })?;
        let user = socket_peercred(channel.descriptor())
            .map_err(|source| self.setup.system("getsockopt(SO_PEERCRED)", source))?;
        let checked = check_hello(hello, user.uid.as_raw(), &self.setup.config);
        let hello = checked.map_err(|refusal| {
            // If it is gone already, our own error says enough.
            let _ = channel.send(&refusal.encode(), None);
            ConnectError::TurnedAway { address: self.setup.address.clone(), refusal }
        })?;
        let ring_bytes = self.setup.config.ring_bytes;
        let segment = Segment::create(c"outboard-link", Layout::new(ring_bytes).segment_len())
            .map_err(|source| self.setup.system("memfd_create", source))?;
        let welcome = Welcome {
            version: Versions::OURS.common(hello.versions).unwrap_or(Versions::OURS.max),
            intro: self.setup.identity.introduction(max_payload(ring_bytes) as u32),
            ring_bytes,
            heartbeat_ms: 0,
            deadline_ms: 0,
        };
        let sent = channel.send(&welcome.encode(), Some(segment.descriptor()));
        if !sent.map_err(|loss| self.setup.lost(loss))? {
            return Err(self.setup.timed_out());
        }
        let mut intro = hello.intro;
        // The kernel's word counts more than the peer's.
        intro.pid = user.pid.as_raw_nonzero().get() as u32;
        let peer = Peer::new(intro, self.setup.address.clone());
        self.setup.link(Side::Accepting, channel, segment, (peer, ring_bytes))
    }
}

fn check_hello(
    hello: Result<Hello, outboard_wire::DecodeError>,
    user: u32,
    config: &Config,
) -> Result<Hello, Box<Refusal>> {
    let refuse = |reason, detail: String| Err(Box::new(Refusal::new(reason, &detail)));
    let hello = match hello {
        Ok(hello) => hello,
        Err(error) => return refuse(RefusalReason::Malformed, error.to_string()),
    };
    if !config.users.include(user) {
        let detail = format!("user {user} may not connect; see the listener's setting `users`");
        return refuse(RefusalReason::Credentials, detail);
    }
    if Versions::OURS.common(hello.versions).is_none() {
        return refuse(RefusalReason::Version, format!("no common version: you speak {}", hello.versions));
    }
    if hello.intro.auth.method != Auth::NONE.method {
        let detail = format!("authentication method {} is not known", hello.intro.auth.method);
        return refuse(RefusalReason::Credentials, detail);
    }
    Ok(hello)
}

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

    /// Takes the segment that the other side made, or its refusal.
    fn hear(
        &mut self,
        answer: Result<Answer, outboard_wire::DecodeError>,
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
            |what| ConnectError::Violation { address: address(), source: crate::Violation::Segment(what) };
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
