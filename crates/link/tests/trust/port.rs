//! An encrypted port with a friend who must not notice anything.

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use outboard_link::tcp::{Credential, Encryption, TcpAccepting, TcpConfig, TcpDialing, TcpLink, TcpListener};
use outboard_link::{Clock, ConnectError, Disposition, Exports, Identity, Link};
use outboard_wire::{FrameHead, FrameKind, Role, Room, Time};

pub(crate) const NOTE: FrameHead = FrameHead::new(FrameKind::new(Room::Trial, 1));
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

pub(crate) fn identity(name: &str) -> Identity {
    Identity::new(Role::Tool, name)
}

pub(crate) fn secret(text: &str) -> Credential {
    Credential::Secret(Arc::from(text))
}

/// Everything is encrypted, within the machine too.
pub(crate) fn config(credential: Credential) -> TcpConfig {
    TcpConfig { encryption: Encryption::All, credential: Some(credential), ..TcpConfig::default() }
}

/// Waits until `step` brings something.
pub(crate) fn until<T>(mut step: impl FnMut(Time) -> Option<T>) -> T {
    let clock = Clock::start();
    loop {
        if let Some(value) = step(clock.now()) {
            return value;
        }
        assert!(clock.now() < Time::ZERO + LIMIT, "waited in vain");
        std::thread::yield_now();
    }
}

/// A port, and a link through it that was there before.
pub(crate) struct Port {
    listener: TcpListener,
    config: TcpConfig,
    friend: (TcpLink, TcpLink),
}

impl Port {
    pub(crate) fn new(config: TcpConfig) -> Self {
        let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
        let listener =
            TcpListener::bind(any_port, identity("listener"), Exports::new(), config.clone()).unwrap();
        let friend = meet(&listener, &config);
        Self { listener, config, friend: (friend.0.unwrap(), friend.1.unwrap()) }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    /// The next who connects.
    pub(crate) fn accept(&self) -> TcpAccepting {
        until(|now| self.listener.accept(now).unwrap())
    }

    /// What both sides make of someone with another configuration.
    pub(crate) fn refused(&mut self, config: &TcpConfig) -> (ConnectError, ConnectError) {
        let (dialled, accepted) = meet(&self.listener, config);
        self.check_others();
        (dialled.err().expect("refused by the dialler"), accepted.err().expect("refused by the listener"))
    }

    /// What the listener makes of someone who says `bytes` and no more.
    pub(crate) fn hears(&mut self, bytes: &[u8]) -> ConnectError {
        let mut stranger = TcpStream::connect(self.address()).unwrap();
        std::io::Write::write_all(&mut stranger, bytes).unwrap();
        stranger.shutdown(std::net::Shutdown::Write).unwrap();
        let mut accepting = self.accept();
        let error = until(|now| accepting.poll(now).err());
        self.check_others();
        error
    }

    /// The friend is as well as before, and a peer with the right credential is let in.
    pub(crate) fn check_others(&mut self) {
        exchange(&mut self.friend.0, &mut self.friend.1);
        let (dialled, accepted) = meet(&self.listener, &self.config);
        exchange(&mut dialled.unwrap(), &mut accepted.unwrap());
    }
}

/// A frame goes from one to the other.
pub(crate) fn exchange(from: &mut TcpLink, to: &mut TcpLink) {
    from.send(NOTE, b"all is well").unwrap();
    from.flush().unwrap();
    let mut heard = Vec::new();
    until(|now| {
        from.progress(now).unwrap();
        to.progress(now).unwrap();
        let taken = to.receive(1, |frame| {
            heard = frame.payload.to_vec();
            Disposition::Taken
        });
        (taken.unwrap() > 0).then_some(())
    });
    assert_eq!(heard, b"all is well");
}

type Met = (Result<TcpLink, ConnectError>, Result<TcpLink, ConnectError>);

/// Both sides' word on one handshake.
pub(crate) fn meet(listener: &TcpListener, config: &TcpConfig) -> Met {
    let address = listener.address();
    let mut dialing =
        TcpDialing::new(address, identity("dialler"), Exports::new(), config.clone(), Time::ZERO).unwrap();
    let mut accepting = None;
    let (mut dialled, mut accepted) = (None, None);
    until(|_| {
        if dialled.is_none() {
            dialled = dialing.poll(Time::ZERO).transpose();
        }
        match &mut accepting {
            None => accepting = listener.accept(Time::ZERO).unwrap(),
            Some(accepting) if accepted.is_none() => accepted = accepting.poll(Time::ZERO).transpose(),
            Some(_) => {}
        }
        (dialled.is_some() && accepted.is_some()).then_some(())
    });
    (dialled.unwrap(), accepted.unwrap())
}
