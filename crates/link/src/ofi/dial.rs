//! The side that connects.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use outboard_wire::{HANDSHAKE_LEN, Time};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt;

use super::bytes::new_epoll;
use super::meeting::Meeting;
use super::{OfiBytes, OfiConfig, OfiLink, shown};
use crate::connecting::{self, Connecting};
use crate::port::{self, failed, open_socket};
use crate::stream::{self, Setup};
use crate::{Clock, ConnectError, Exports, Identity};

/// How long a thread that connects sleeps at most between two looks.
const NAP: Duration = Duration::from_millis(2);

/// A connection that we make and whose handshake is not finished.
pub struct OfiDialing {
    stage: Stage,
    setup: Setup,
    config: OfiConfig,
    hello: Option<[u8; HANDSHAKE_LEN]>,
}

enum Stage {
    /// The socket is being connected, or the peer's endpoint is not known yet.
    Meeting(Box<Meeting>),
    Handshake(Box<stream::Dialing<OfiBytes>>),
    Over,
}

impl OfiDialing {
    /// Begins to connect to `address`.
    pub fn new(
        address: SocketAddr,
        identity: Identity,
        exports: Arc<Exports>,
        config: OfiConfig,
        now: Time,
    ) -> Result<Self, ConnectError> {
        config.check()?;
        if !config.allow_remote && !address.ip().to_canonical().is_loopback() {
            return Err(ConnectError::NeverEncrypted { address: shown(address) });
        }
        let socket = open_socket(shown, address)?;
        port::dial(&socket, shown, address)?;
        let epoll = new_epoll(socket.as_fd()).map_err(failed(shown, address, "epoll_create"))?;
        let versions = identity.versions;
        let setup = Setup { address: shown(address), identity, exports, terms: config.stream.clone() };
        let meeting = Meeting::new(socket, epoll, (config.clone(), versions), shown(address), now)?;
        Ok(Self { stage: Stage::Meeting(Box::new(meeting)), setup, config, hello: None })
    }

    /// Says something else than the right hello: for tests of the other side.
    #[doc(hidden)]
    pub fn with_hello(self, hello: [u8; HANDSHAKE_LEN]) -> Self {
        Self { hello: Some(hello), ..self }
    }

    /// Becomes readable when [`poll`](OfiDialing::poll) can go on, once the socket is connected.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &self.stage {
            Stage::Meeting(meeting) => Some(meeting.descriptor()),
            Stage::Handshake(dialing) => dialing.descriptor(),
            Stage::Over => None,
        }
    }

    /// When to look again at the latest, if nothing arrives.
    pub fn next_look(&self) -> Time {
        match &self.stage {
            Stage::Meeting(meeting) => meeting.patience.next_look(),
            Stage::Handshake(dialing) => dialing.next_look(),
            Stage::Over => Time::ZERO,
        }
    }

    /// Goes on with the handshake; `None` means not yet.
    pub fn poll(&mut self, now: Time) -> Result<Option<OfiLink>, ConnectError> {
        if let Stage::Meeting(meeting) = &mut self.stage {
            if !meeting.has_introduced() {
                if !is_connected(meeting)? {
                    return if meeting.patience.is_over(now) { Err(meeting.timed_out()) } else { Ok(None) };
                }
                meeting.introduce(self.config.provider.as_deref())?;
            }
            let Some(theirs) = meeting.hear(now)? else { return Ok(None) };
            if let Some(refusal) = meeting.refusal_of(theirs.versions, true) {
                return Err(ConnectError::Refused { address: self.setup.address.clone(), refusal });
            }
            let Stage::Meeting(meeting) = std::mem::replace(&mut self.stage, Stage::Over) else {
                return Ok(None);
            };
            let stream = meeting.meet(&theirs)?;
            let mut dialing = stream::Dialing::start(stream, self.setup.clone(), now);
            if let Some(hello) = self.hello {
                dialing = dialing.with_hello(hello);
            }
            self.stage = Stage::Handshake(Box::new(dialing));
        }
        match &mut self.stage {
            Stage::Handshake(dialing) => dialing.poll(now),
            Stage::Meeting(_) | Stage::Over => {
                Err(ConnectError::HungUp { address: self.setup.address.clone() })
            }
        }
    }
}

/// Whether the socket is connected.
fn is_connected(meeting: &Meeting) -> Result<bool, ConnectError> {
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    let connected = match poll(&mut [PollFd::new(meeting.socket(), PollFlags::OUT)], Some(&at_once)) {
        Ok(0) | Err(Errno::INTR) => Ok(false),
        Ok(_) => sockopt::socket_error(meeting.socket()).and_then(|error| error).map(|()| true),
        Err(error) => Err(error),
    };
    connected.map_err(|source| ConnectError::Unreachable { address: meeting.address().to_owned(), source })
}

/// Connects to `address` and waits until the link is open; gives up when the other side has said nothing for
/// `config.stream.handshake_timeout`.
pub fn connect(
    address: SocketAddr,
    identity: Identity,
    exports: Arc<Exports>,
    config: OfiConfig,
) -> Result<OfiLink, ConnectError> {
    let clock = Clock::start();
    connecting::finish(OfiDialing::new(address, identity, exports, config, clock.now())?, clock)
}

impl Connecting for OfiDialing {
    type Link = OfiLink;

    fn go_on(&mut self, now: Time) -> Result<Option<OfiLink>, ConnectError> {
        self.poll(now)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Self::descriptor(self)
    }

    fn awaits(&self, _now: Time) -> Option<(PollFlags, Duration)> {
        Some((PollFlags::IN, NAP))
    }
}

#[cfg(test)]
mod tests {
    use outboard_wire::Role;

    use super::*;

    #[test]
    fn no_link_goes_to_another_machine_in_plain_text_unless_told() {
        let elsewhere = SocketAddr::from(([192, 0, 2, 1], 7000));
        let identity = Identity::new(Role::Tool, "test");
        let dialed = OfiDialing::new(elsewhere, identity, Exports::new(), OfiConfig::default(), Time::ZERO);
        let refused = dialed.err().expect("it is not told");
        assert!(matches!(refused, ConnectError::NeverEncrypted { .. }), "{refused}");
    }
}
