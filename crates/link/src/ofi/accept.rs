//! The side that is connected to.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use outboard_wire::Time;
use rustix::io::Errno;
use rustix::net::{SocketFlags, acceptfrom_with, bind, getsockname, listen, sockopt};

use super::meeting::Meeting;
use super::{Config, OfiBytes, OfiLink, open_socket, shown};
use crate::stream::{self, Setup};
use crate::{ConnectError, Exports, Identity};

/// How many connections may wait to be accepted.
const BACKLOG: i32 = 128;

/// Accepts links over libfabric. Peers find it by a TCP port and tell each other there where their endpoints are.
pub struct OfiListener {
    socket: OwnedFd,
    address: SocketAddr,
    identity: Identity,
    exports: Arc<Exports>,
    config: Config,
}

impl OfiListener {
    /// Listens on `address`, which must not be served by another process; port 0 takes any that is free.
    pub fn bind(
        address: SocketAddr,
        identity: Identity,
        exports: Arc<Exports>,
        config: Config,
    ) -> Result<Self, ConnectError> {
        config.check()?;
        if !config.allow_remote && !address.ip().to_canonical().is_loopback() {
            return Err(ConnectError::NeverEncrypted { address: shown(address) });
        }
        // Whoever cannot be reached says so at once, and not to those who try.
        let source = Some(address.ip()).filter(|ip| !ip.is_unspecified());
        config.choose(source).map_err(|source| ConnectError::Fabric { address: shown(address), source })?;
        let failed = |call| {
            move |source| match source {
                Errno::ADDRINUSE => ConnectError::InUse { address: shown(address) },
                source => ConnectError::System { call, address: shown(address), source },
            }
        };
        let socket = open_socket(address).map_err(failed("socket"))?;
        // A port whose last connections are still fading may be used again; one with a listener may not.
        sockopt::set_socket_reuseaddr(&socket, true).map_err(failed("setsockopt"))?;
        bind(&socket, &address).map_err(failed("bind"))?;
        listen(&socket, BACKLOG).map_err(failed("listen"))?;
        let bound = getsockname(&socket).and_then(SocketAddr::try_from).map_err(failed("getsockname"))?;
        Ok(Self { socket, address: bound, identity, exports, config })
    }

    /// Where it listens, with the port that was taken.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Becomes readable when someone connects.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Takes the next connection, if there is one; its handshake is still to come.
    pub fn accept(&self, now: Time) -> Result<Option<Accepting>, ConnectError> {
        let failed = |source| ConnectError::System { call: "accept", address: shown(self.address), source };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (socket, from) = match acceptfrom_with(&self.socket, flags) {
            Ok((socket, from)) => (socket, from.and_then(|from| SocketAddr::try_from(from).ok())),
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => return Ok(None),
            Err(source) => return Err(failed(source)),
        };
        let address = from.map_or_else(|| "an unknown address".to_owned(), shown);
        let setup = Setup {
            address: address.clone(),
            identity: self.identity.clone(),
            exports: Arc::clone(&self.exports),
            terms: self.config.terms(),
        };
        let meeting = Meeting::new(socket, self.config.clone(), address, now)?;
        Ok(Some(Accepting { stage: Stage::Meeting(Box::new(meeting)), setup, config: self.config.clone() }))
    }
}

/// A connection that someone made to us and whose handshake is not finished.
pub struct Accepting {
    stage: Stage,
    setup: Setup,
    config: Config,
}

enum Stage {
    Meeting(Box<Meeting>),
    Handshake(Box<stream::Accepting<OfiBytes>>),
    Over,
}

impl Accepting {
    /// Becomes readable when [`poll`](Accepting::poll) can go on.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &self.stage {
            Stage::Meeting(meeting) => Some(meeting.descriptor()),
            Stage::Handshake(accepting) => accepting.descriptor(),
            Stage::Over => None,
        }
    }

    /// When [`poll`](Accepting::poll) gives up.
    pub fn deadline(&self) -> Time {
        match &self.stage {
            Stage::Meeting(meeting) => meeting.deadline(),
            Stage::Handshake(accepting) => accepting.deadline(),
            Stage::Over => Time::ZERO,
        }
    }

    /// Goes on with the handshake; `None` means not yet.
    pub fn poll(&mut self, now: Time) -> Result<Option<OfiLink>, ConnectError> {
        if let Stage::Meeting(meeting) = &mut self.stage {
            let Some(theirs) = meeting.hear(now)? else { return Ok(None) };
            // What the other side chose, unless something is set here.
            let provider = self.config.provider.clone().unwrap_or_else(|| theirs.provider.clone());
            meeting.introduce(Some(&provider))?;
            let Stage::Meeting(meeting) = std::mem::replace(&mut self.stage, Stage::Over) else {
                return Ok(None);
            };
            let stream = meeting.meet(&theirs)?;
            let accepting = stream::Accepting::start(stream, self.setup.clone(), now);
            self.stage = Stage::Handshake(Box::new(accepting));
        }
        match &mut self.stage {
            Stage::Handshake(accepting) => accepting.poll(now),
            Stage::Meeting(_) | Stage::Over => {
                Err(ConnectError::HungUp { address: self.setup.address.clone() })
            }
        }
    }
}
