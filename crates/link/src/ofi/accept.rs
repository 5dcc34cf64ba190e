//! The side that is connected to.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use outboard_wire::Time;
use rustix::io::Errno;
use rustix::net::{SocketFlags, acceptfrom_with, bind, getsockname, listen, sockopt};

use super::bytes::new_epoll;
use super::choice::agree;
use super::meeting::{Meeting, refuse};
use super::{Config, OfiBytes, OfiLink, open_socket, shown};
use crate::hello::BACKLOG;
use crate::shortage::no_room;
use crate::stream::{self, Setup};
use crate::{ConnectError, Exports, Identity};

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
        let epoll = new_epoll(socket.as_fd()).map_err(|source| {
            let refusal = no_room(&self.identity, "epoll_create", source);
            refuse(&socket, refusal.detail.as_str());
            ConnectError::TurnedAway { address: address.clone(), refusal }
        })?;
        let meeting = Meeting::new(socket, epoll, self.config.clone(), address, now)?;
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

    /// When to look again at the latest, if nothing arrives.
    pub fn next_look(&self) -> Time {
        match &self.stage {
            Stage::Meeting(meeting) => meeting.patience.next_look(),
            Stage::Handshake(accepting) => accepting.next_look(),
            Stage::Over => Time::ZERO,
        }
    }

    /// Goes on with the handshake; `None` means not yet.
    pub fn poll(&mut self, now: Time) -> Result<Option<OfiLink>, ConnectError> {
        match self.hear(now)? {
            true => self.greet(now).map(Some),
            false => Ok(None),
        }
    }

    /// Makes the link and welcomes the other side, or tells it why not.
    pub fn greet(&mut self, now: Time) -> Result<OfiLink, ConnectError> {
        match &mut self.stage {
            Stage::Handshake(accepting) => accepting.greet(now),
            Stage::Meeting(_) | Stage::Over => Err(self.hung_up()),
        }
    }

    /// Says that its turn will come, to whoever has been heard and has to wait.
    pub fn reassure(&mut self, now: Time) -> Result<(), ConnectError> {
        match &mut self.stage {
            Stage::Handshake(accepting) => accepting.reassure(now),
            Stage::Meeting(_) | Stage::Over => Ok(()),
        }
    }

    /// Says that there is no room because `call` has failed, and ends the connection.
    pub fn turn_away(&mut self, (call, source): (&'static str, Errno), now: Time) -> ConnectError {
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Handshake(mut accepting) => accepting.turn_away((call, source), now),
            Stage::Meeting(meeting) => {
                let refusal = no_room(&self.setup.identity, call, source);
                meeting.refuse(refusal.detail.as_str());
                ConnectError::TurnedAway { address: self.setup.address.clone(), refusal }
            }
            Stage::Over => self.hung_up(),
        }
    }

    fn hung_up(&self) -> ConnectError {
        ConnectError::HungUp { address: self.setup.address.clone() }
    }

    /// Listens; true once the other side has said who it is, and may be [greeted](Accepting::greet).
    pub fn hear(&mut self, now: Time) -> Result<bool, ConnectError> {
        if let Stage::Meeting(meeting) = &mut self.stage {
            let Some(theirs) = meeting.hear(now)? else { return Ok(false) };
            match agree(self.config.provider.as_deref(), &theirs.provider) {
                Ok(provider) => meeting.introduce(Some(&provider))?,
                Err(source) => {
                    meeting.refuse(&source.to_string());
                    return Err(ConnectError::Fabric { address: self.setup.address.clone(), source });
                }
            }
            let Stage::Meeting(meeting) = std::mem::replace(&mut self.stage, Stage::Over) else {
                return Err(self.hung_up());
            };
            let stream = meeting.meet(&theirs)?;
            let accepting = stream::Accepting::start(stream, self.setup.clone(), now);
            self.stage = Stage::Handshake(Box::new(accepting));
        }
        match &mut self.stage {
            Stage::Handshake(accepting) => accepting.hear(now),
            Stage::Meeting(_) | Stage::Over => Err(self.hung_up()),
        }
    }
}
