//! The side that accepts.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use outboard_wire::{RefusalReason, Time, Welcome};
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{
    SocketAddrUnix, SocketFlags, accept_with, bind, connect as connect_socket, listen,
    sockopt::socket_peercred,
};

use super::channel::{Channel, MESSAGE_MAX, Received};
use super::config::{Config, max_payload};
use super::link::ShmLink;
use super::rings::{Layout, Side};
use super::setup::{Setup, open_socket, socket_address};
use crate::hello::{check_hello, refuse};
use crate::memory::Segment;
use crate::{Address, ConnectError, Exports, Identity, Peer};

/// How often and after which pause a folder that is locked is tried again: for a second in all.
const LOCK_TRIES: u32 = 200;
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// How many connections may wait to be accepted.
const BACKLOG: i32 = 128;

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
        config: Config,
    ) -> Result<Self, ConnectError> {
        config.check()?;
        let setup = Setup { address: address.to_string(), identity, exports, config };
        let name = socket_address(address).map_err(|source| setup.system("address", source))?;
        let socket = open_socket().map_err(|source| setup.system("socket", source))?;
        // Of two listeners that start at once, one must not take the other's fresh file for an abandoned one.
        let _alone = lock_folder(address)
            .map_err(|source| setup.system("locking the folder of the socket", source))?;
        match bind(&socket, &name) {
            Err(Errno::ADDRINUSE) if is_abandoned(address, &name) => {
                bind(&socket, &name).map_err(|source| setup.system("bind", source))?;
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
        if let Address::Path(path) = &self.address
            && file_at(&self.address) == self.file
        {
            // Whoever removed it before us did what we wanted.
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
            Received::Message(len, _) => self.greet(&bytes[..len]).map(Some),
        }
    }

    /// Checks who is there and hands over the segment, or says why not.
    fn greet(&mut self, hello: &[u8]) -> Result<ShmLink, ConnectError> {
        let channel = self
            .channel
            .take()
            .ok_or_else(|| ConnectError::HungUp { address: self.setup.address.clone() })?;
        let user = socket_peercred(channel.descriptor())
            .map_err(|source| self.setup.system("getsockopt(SO_PEERCRED)", source))?;
        let checked = match user.uid.as_raw() {
            uid if self.setup.config.users.include(uid) => check_hello(hello),
            uid => {
                let detail = format!("user {uid} may not connect; see the listener's setting `users`");
                refuse(RefusalReason::Credentials, &detail)
            }
        };
        let (hello, version) = checked.map_err(|refusal| {
            // If it is gone already, our own error says enough.
            let _ = channel.send(&refusal.encode(), None);
            ConnectError::TurnedAway { address: self.setup.address.clone(), refusal }
        })?;
        let ring_bytes = self.setup.config.ring_bytes;
        let segment = Segment::create(c"outboard-link", Layout::new(ring_bytes).segment_len())
            .map_err(|source| self.setup.system("memfd_create", source))?;
        let welcome = Welcome {
            version,
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
