//! The side that is connected to.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use outboard_wire::Time;
use rustix::io::Errno;

use super::bytes::new_epoll;
use super::choice::agree;
use super::meeting::{Meeting, refuse};
use super::{OfiBytes, OfiConfig, OfiLink, shown};
use crate::port::Port;
use crate::shortage::no_room;
use crate::stream::{self, Setup};
use crate::{ConnectError, Exports, Identity};

/// Accepts links over libfabric. Peers find it by a TCP port and tell each other there where their endpoints are.
pub struct OfiListener {
    port: Port,
    identity: Identity,
    exports: Arc<Exports>,
    config: OfiConfig,
}

impl OfiListener {
    /// Listens on `address`, which must not be served by another process; port 0 takes any that is free.
    pub fn bind(
        address: SocketAddr,
        identity: Identity,
        exports: Arc<Exports>,
        config: OfiConfig,
    ) -> Result<Self, ConnectError> {
        config.check()?;
        if !config.allow_remote && !address.ip().to_canonical().is_loopback() {
            return Err(ConnectError::NeverEncrypted { address: shown(address) });
        }
        // A listener that cannot be reached says so at once, and not to the clients that try.
        let source = Some(address.ip()).filter(|ip| !ip.is_unspecified());
        config.choose(source).map_err(|source| ConnectError::Fabric { address: shown(address), source })?;
        Ok(Self { port: Port::bind(shown, address)?, identity, exports, config })
    }

    /// Where it listens, with the port that was taken.
    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// Becomes readable when someone connects.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.port.descriptor()
    }

    /// Takes the next connection, if there is one; its handshake is still to come.
    pub fn accept(&self, now: Time) -> Result<Option<OfiAccepting>, ConnectError> {
        let Some((socket, from)) = self.port.accept()? else { return Ok(None) };
        let address = self.port.shown(from);
        let setup = Setup {
            address: address.clone(),
            identity: self.identity.clone(),
            exports: Arc::clone(&self.exports),
            terms: self.config.stream.clone(),
        };
        let epoll = new_epoll(socket.as_fd()).map_err(|source| {
            let refusal = no_room(&self.identity, "epoll_create", source);
            refuse(&socket, self.identity.versions, refusal.detail.as_str());
            ConnectError::TurnedAway { address: address.clone(), refusal }
        })?;
        let meeting =
            Meeting::new(socket, epoll, (self.config.clone(), self.identity.versions), address, now)?;
        Ok(Some(OfiAccepting {
            stage: Stage::Meeting(Box::new(meeting)),
            setup,
            config: self.config.clone(),
        }))
    }
}

/// A connection that someone made to us and whose handshake is not finished.
pub struct OfiAccepting {
    stage: Stage,
    setup: Setup,
    config: OfiConfig,
}

enum Stage {
    Meeting(Box<Meeting>),
    Handshake(Box<stream::Accepting<OfiBytes>>),
    Over,
}

impl OfiAccepting {
    /// Becomes readable when [`poll`](OfiAccepting::poll) can go on.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &self.stage {
            Stage::Meeting(meeting) => Some(meeting.descriptor()),
            Stage::Handshake(accepting) => accepting.descriptor(),
            Stage::Over => None,
        }
    }

    /// Whether the other side reads a refusal though it has said nothing yet.
    pub fn hears_refusals(&self) -> bool {
        match &self.stage {
            Stage::Meeting(_) | Stage::Over => true,
            Stage::Handshake(accepting) => accepting.hears_refusals(),
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

    /// Tells a peer that has been heard and has to wait that its turn will come.
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

    /// Listens; true once the other side has said who it is, and may be [greeted](OfiAccepting::greet).
    pub fn hear(&mut self, now: Time) -> Result<bool, ConnectError> {
        if let Stage::Meeting(meeting) = &mut self.stage {
            let Some(theirs) = meeting.hear(now)? else { return Ok(false) };
            if let Some(refusal) = meeting.refusal_of(theirs.versions, false) {
                meeting.refuse(refusal.detail.as_str());
                return Err(ConnectError::TurnedAway { address: self.setup.address.clone(), refusal });
            }
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
