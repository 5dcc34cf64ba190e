//! The side that accepts.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use outboard_wire::{Hello, Refusal, RefusalReason, Time, Welcome};
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{
    SocketAddrUnix, SocketFlags, accept_with, bind, connect as connect_socket, listen,
    sockopt::socket_peercred,
};

use super::channel::{Channel, MESSAGE_MAX, Received};
use super::config::{ShmConfig, max_payload};
use super::link::ShmLink;
use super::rings::{Layout, Side};
use super::setup::{Rings, Setup, open_socket, socket_address};
use crate::hello::{BACKLOG, check_hello, refuse, wait};
use crate::memory::Segment;
use crate::patience::Patience;
use crate::shortage::no_room;
use crate::{Address, ConnectError, Exports, Identity, Peer};

/// How often and after which pause a folder that is locked is tried again: for a second in all.
const LOCK_TRIES: u32 = 200;
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// Accepts shared-memory links on a Unix socket.
pub struct ShmListener {
    socket: OwnedFd,
    setup: Setup,
    /// If it is a file, it is removed when the listener ends. After a kill it stays until the next listener there
    /// takes its place.
    address: Address,
    /// Which file it is: if another has taken its place, that is not ours to remove.
    file: Option<(u64, u64)>,
}

impl ShmListener {
    /// Listens on `address`, which must not be served by another process.
    pub fn bind(
        address: &Address,
        identity: Identity,
        exports: Arc<Exports>,
        config: ShmConfig,
    ) -> Result<Self, ConnectError> {
        config.check()?;
        let setup = Setup { address: address.to_string(), identity, exports, config };
        let name = socket_address(address).map_err(|source| setup.system("address", source))?;
        let socket = open_socket().map_err(|source| setup.system("socket", source))?;
        // Of two listeners that start at once, one must not take the other's fresh file for an abandoned one.
        let _alone = lock_folder(address).map_err(|source| match source {
            Errno::NOENT => ConnectError::NoFolder { address: setup.address.clone() },
            source => setup.system("locking the folder of the socket", source),
        })?;
        match bind(&socket, &name) {
            Err(Errno::ADDRINUSE) if is_abandoned(address, &name) => {
                bind(&socket, &name).map_err(|source| setup.system("bind", source))?;
            }
            Err(Errno::ADDRINUSE) if matches!(address, Address::Path(path) if !is_socket(path)) => {
                return Err(ConnectError::NoSocket { address: setup.address });
            }
            Err(Errno::ADDRINUSE) => return Err(ConnectError::InUse { address: setup.address }),
            Err(source) => return Err(setup.system("bind", source)),
            Ok(()) => {}
        }
        listen(&socket, BACKLOG).map_err(|source| setup.system("listen", source))?;
        Ok(Self { socket, setup, file: file_at(address), address: address.clone() })
    }

    /// Where it listens.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Becomes readable when someone connects.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Takes the next connection, if there is one; its handshake is still to come.
    pub fn accept(&self, now: Time) -> Result<Option<ShmAccepting>, ConnectError> {
        match accept_with(&self.socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            Ok(socket) => Ok(Some(ShmAccepting {
                channel: Some(Channel::new(socket)),
                patience: Patience::new(self.setup.config.handshake_timeout, now),
                heard: None,
                made: None,
                setup: self.setup.clone(),
            })),
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => Ok(None),
            Err(source) => Err(self.setup.system("accept", source)),
        }
    }
}

impl Drop for ShmListener {
    fn drop(&mut self) {
        if let Address::Path(path) = &self.address
            && file_at(&self.address) == self.file
        {
            // A process that removed it before us did what we wanted.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Keeps other listeners out of the folder of a socket file until it is dropped. Leaves nothing behind.
fn lock_folder(address: &Address) -> Result<Option<OwnedFd>, Errno> {
    let Address::Path(path) = address else { return Ok(None) };
    let folder = path.parent().unwrap_or(Path::new("/"));
    let folder =
        rustix::fs::open(folder, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    for _ in 0..LOCK_TRIES {
        match rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::AGAIN | Errno::INTR) => std::thread::park_timeout(LOCK_PAUSE),
            other => return other.map(|()| Some(folder)),
        }
    }
    Err(Errno::AGAIN)
}

/// The identity of the file at a path.
fn file_at(address: &Address) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    let Address::Path(path) = address else { return None };
    std::fs::symlink_metadata(path).ok().map(|meta| (meta.dev(), meta.ino()))
}

/// Whether a socket file is left over from a process that was killed; if so it is removed.
fn is_abandoned(address: &Address, name: &SocketAddrUnix) -> bool {
    let Address::Path(path) = address else { return false };
    let Ok(probe) = open_socket() else { return false };
    connect_socket(&probe, name) == Err(Errno::CONNREFUSED) && remove_socket(path)
}

fn remove_socket(path: &Path) -> bool {
    is_socket(path) && std::fs::remove_file(path).is_ok()
}

fn is_socket(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    std::fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket())
}

/// A connection whose handshake is not finished.
pub struct ShmAccepting {
    channel: Option<Channel>,
    patience: Patience,
    /// The hello of the other side, and the version to speak.
    heard: Option<(Hello, u16)>,
    /// The rings and the descriptor that hands them over, until the socket takes it.
    made: Option<(Rings, OwnedFd)>,
    setup: Setup,
}

impl ShmAccepting {
    /// Becomes readable when [`poll`](ShmAccepting::poll) can go on.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.channel.as_ref().map(Channel::descriptor)
    }

    /// Whether the other side reads a refusal though it has said nothing yet: always.
    pub fn hears_refusals(&self) -> bool {
        true
    }

    /// When to look again at the latest, if nothing arrives.
    pub fn next_look(&self) -> Time {
        self.patience.next_look()
    }

    /// Goes on with the handshake; `None` means not yet.
    pub fn poll(&mut self, now: Time) -> Result<Option<ShmLink>, ConnectError> {
        match self.hear(now)? {
            true => self.greet(now),
            false => Ok(None),
        }
    }

    /// Listens; true once the other side has said who it is, and may be [greeted](ShmAccepting::greet). Costs little.
    pub fn hear(&mut self, now: Time) -> Result<bool, ConnectError> {
        if self.heard.is_some() {
            return Ok(true);
        }
        let Some(channel) = &self.channel else { return Err(self.hung_up()) };
        let mut bytes = [0; MESSAGE_MAX];
        let len = match channel.receive(&mut bytes).map_err(|loss| self.setup.lost(loss))? {
            Received::Message(len, _) => len,
            Received::Nothing | Received::Doorbell if self.patience.is_over(now) => {
                return Err(self.patience.timed_out(self.setup.address.clone()));
            }
            Received::Nothing | Received::Doorbell => return Ok(false),
        };
        let user = socket_peercred(channel.descriptor())
            .map_err(|source| self.setup.system("getsockopt(SO_PEERCRED)", source))?;
        let checked = match user.uid.as_raw() {
            uid if self.setup.config.users.include(uid) => {
                check_hello(&bytes[..len], self.setup.identity.versions)
            }
            uid => {
                let detail = format!("user {uid} may not connect; see the listener's setting `users`");
                refuse(RefusalReason::Credentials, &detail)
            }
        };
        let (mut hello, version) = checked.map_err(|refusal| self.refuse(refusal))?;
        // The kernel's word counts more than the peer's.
        hello.intro.pid = user.pid.as_raw_nonzero().get() as u32;
        self.heard = Some((hello, version));
        Ok(true)
    }

    /// Tells a peer that has been heard and has to wait that its turn will come.
    pub fn reassure(&mut self, _now: Time) -> Result<(), ConnectError> {
        match (&self.channel, self.heard.and_then(|(_, version)| wait(version))) {
            (Some(channel), Some(wait)) => {
                // A full socket has enough of these.
                channel.send(&wait, None).map(drop).map_err(|loss| self.setup.lost(loss))
            }
            _ => Ok(()),
        }
    }

    /// Says that there is no room because `call` has failed, and ends the connection.
    pub fn turn_away(&mut self, (call, source): (&'static str, Errno), _now: Time) -> ConnectError {
        self.refuse(no_room(&self.setup.identity, call, source))
    }

    fn refuse(&self, refusal: Box<Refusal>) -> ConnectError {
        if let Some(channel) = &self.channel {
            // If it is gone already, our own error says enough.
            let _ = channel.send(&refusal.encode(), None);
        }
        ConnectError::TurnedAway { address: self.setup.address.clone(), refusal }
    }

    fn hung_up(&self) -> ConnectError {
        ConnectError::HungUp { address: self.setup.address.clone() }
    }

    /// Makes the link and hands its memory over, or tells the other side why not. `None` means that the kernel takes no
    /// more descriptors at the moment.
    pub fn greet(&mut self, now: Time) -> Result<Option<ShmLink>, ConnectError> {
        let (Some(channel), Some((hello, version))) = (&self.channel, self.heard) else {
            return Err(self.hung_up());
        };
        let ring_bytes = self.setup.config.ring_bytes;
        // Before the welcome: what fails afterwards cannot be told any more.
        let made = match self.made.take() {
            Some(made) => Ok(made),
            None => self.make(ring_bytes),
        };
        let (rings, descriptor) = match made {
            Ok(made) => made,
            Err(why) => return Err(self.turn_away(why, now)),
        };
        let welcome = Welcome {
            version,
            intro: self.setup.identity.introduction(max_payload(ring_bytes) as u32),
            ring_bytes,
            heartbeat_ms: 0,
            deadline_ms: 0,
        };
        let sent = channel.send(&welcome.encode(), Some(descriptor.as_fd()));
        match (sent.map_err(|loss| self.setup.lost(loss))?, self.channel.take()) {
            (true, Some(channel)) => {
                let peer = Peer::new(hello.intro, version, self.setup.address.clone());
                Ok(Some(self.setup.link(channel, rings, peer)))
            }
            (_, channel) => {
                (self.channel, self.made) = (channel, Some((rings, descriptor)));
                match self.patience.is_over(now) {
                    true => Err(self.turn_away(("sendmsg", Errno::TOOMANYREFS), now)),
                    false => Ok(None),
                }
            }
        }
    }

    fn make(&self, ring_bytes: u32) -> Result<(Rings, OwnedFd), (&'static str, Errno)> {
        let segment = Segment::create(c"outboard-link", Layout::new(ring_bytes).segment_len());
        let segment = segment.map_err(|source| ("memfd_create", source))?;
        self.setup.rings(Side::Accepting, segment, ring_bytes).map_err(|source| ("mmap", source))
    }
}
