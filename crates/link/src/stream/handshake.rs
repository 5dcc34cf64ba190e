//! The first message of each side, and the link that comes of it.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use outboard_wire::{
    DecodeError, HANDSHAKE_LEN, HandshakeAnswer, Hello, Introduction, Refusal, RefusalReason, Time, Versions,
    Welcome,
};
use rustix::io::Errno;

use super::bytes::{Arrival, ByteStream};
use super::config::{PAYLOAD_MIN, StreamConfig};
use super::link::{Queues, StreamLink};
use crate::hello::{check_hello, hear_answer, refuse, wait};
use crate::patience::Patience;
use crate::shortage::no_room;
use crate::tcp::Distrust;
use crate::{ConnectError, Exports, Identity, Loss, Peer};

/// How an alert of TLS begins.
const TLS_ALERT: [u8; 2] = [21, 3];

/// How many answers are heard in one look; more than one only if the other side asks to wait.
const ANSWERS_PER_LOOK: usize = 16;

/// The settings and identity from which every link of this process starts.
#[derive(Clone)]
pub(crate) struct Setup {
    /// The other side's.
    pub(crate) address: String,
    pub(crate) identity: Identity,
    pub(crate) exports: Arc<Exports>,
    pub(crate) terms: StreamConfig,
}

impl Setup {
    fn lost(&self, loss: Loss) -> ConnectError {
        let address = self.address.clone();
        match loss {
            Loss::System { call, source } => ConnectError::System { call, address, source },
            Loss::Broke(source) => ConnectError::Violation { address, source },
            Loss::Untrusted(source) => ConnectError::Untrusted { address, source },
            _ => ConnectError::HungUp { address },
        }
    }

    fn hung_up(&self) -> ConnectError {
        ConnectError::HungUp { address: self.address.clone() }
    }

    /// A peer that hangs up after an alert of TLS had expected TLS.
    fn hung_up_after(&self, heard: &[u8]) -> ConnectError {
        match heard.starts_with(&TLS_ALERT) {
            true => ConnectError::Untrusted { address: self.address.clone(), source: Distrust::WantsTls },
            false => self.hung_up(),
        }
    }

    /// Whether both sides know whom they are talking to.
    fn secure(
        &self,
        stream: &mut impl ByteStream,
        now: Time,
        patience: &mut Patience,
    ) -> Result<bool, ConnectError> {
        match stream.secure().map_err(|loss| self.lost(loss))? {
            false if patience.is_over(now) => Err(patience.timed_out(self.address.clone())),
            is_secure => Ok(is_secure),
        }
    }

    fn link<S: ByteStream>(
        &self,
        mut stream: S,
        queues: Queues,
        (intro, version): (Introduction, u16),
        terms: &StreamConfig,
    ) -> StreamLink<S> {
        stream.begin_records(terms.deadline);
        StreamLink::new(stream, queues, Peer::new(intro, version, self.address.clone()), terms)
    }
}

/// One handshake message on its way in, read exactly to its end: what follows belongs to the link.
struct Incoming {
    bytes: [u8; HANDSHAKE_LEN],
    len: usize,
    patience: Patience,
}

impl Incoming {
    fn new(setup: &Setup, now: Time) -> Self {
        let patience = Patience::new(setup.terms.handshake_timeout, now);
        Self { bytes: [0; HANDSHAKE_LEN], len: 0, patience }
    }

    /// Reads on; true once the message is whole, or so wrong that the rest is not worth waiting for.
    fn poll(
        &mut self,
        stream: &mut impl ByteStream,
        setup: &Setup,
        now: Time,
        is_hopeless: impl Fn(&[u8]) -> bool,
    ) -> Result<bool, ConnectError> {
        while self.len < HANDSHAKE_LEN {
            let arrival = stream.receive(now, &mut self.bytes[self.len..]);
            match arrival.map_err(|loss| setup.lost(loss))? {
                Arrival::Bytes(len) => self.len += len,
                Arrival::End => return Err(setup.hung_up_after(&self.bytes[..self.len])),
                Arrival::Nothing if self.patience.is_over(now) => {
                    return Err(self.patience.timed_out(setup.address.clone()));
                }
                Arrival::Nothing => return Ok(false),
            }
            if self.len >= size_of::<u64>() && is_hopeless(&self.bytes) {
                return Ok(true);
            }
        }
        Ok(true)
    }
}

/// A connection that someone made to us and whose handshake is not finished.
pub struct Accepting<S: ByteStream> {
    stream: Option<S>,
    incoming: Incoming,
    /// The hello of the other side, and the version to speak.
    heard: Option<(Hello, u16)>,
    setup: Setup,
}

impl<S: ByteStream> Accepting<S> {
    pub(crate) fn start(stream: S, setup: Setup, now: Time) -> Self {
        let incoming = Incoming::new(&setup, now);
        Self { stream: Some(stream), incoming, heard: None, setup }
    }

    /// Becomes readable when [`poll`](Accepting::poll) can go on.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.stream.as_ref().and_then(S::descriptor)
    }

    /// Whether the other side reads a refusal though it has said nothing yet: not before an encrypted connection is secure.
    pub fn hears_refusals(&self) -> bool {
        self.stream.as_ref().is_none_or(S::is_secure)
    }

    /// When to look again at the latest, if nothing arrives.
    pub fn next_look(&self) -> Time {
        self.incoming.patience.next_look()
    }

    /// Goes on with the handshake; `None` means not yet.
    pub fn poll(&mut self, now: Time) -> Result<Option<StreamLink<S>>, ConnectError> {
        match self.hear(now)? {
            true => self.greet(now).map(Some),
            false => Ok(None),
        }
    }

    /// Listens; true once the other side has said who it is, and may be [greeted](Accepting::greet). Costs little.
    pub fn hear(&mut self, now: Time) -> Result<bool, ConnectError> {
        if self.heard.is_some() {
            return Ok(true);
        }
        let Some(stream) = &mut self.stream else { return Err(self.setup.hung_up()) };
        let is_hopeless = |bytes: &[u8]| matches!(Hello::decode(bytes), Err(DecodeError::NotOutboard { .. }));
        if !self.setup.secure(stream, now, &mut self.incoming.patience)?
            || !self.incoming.poll(stream, &self.setup, now, is_hopeless)?
        {
            return Ok(false);
        }
        match check_stream_hello(&self.incoming.bytes, self.setup.identity.versions) {
            Ok(heard) => {
                self.heard = Some(heard);
                Ok(true)
            }
            Err(refusal) => Err(self.refuse(refusal, now)),
        }
    }

    /// Tells a peer that has been heard and has to wait that its turn will come.
    pub fn reassure(&mut self, now: Time) -> Result<(), ConnectError> {
        match (&mut self.stream, self.heard.and_then(|(_, version)| wait(version))) {
            (Some(stream), Some(wait)) => send_whole(stream, &self.setup, now, &wait),
            _ => Ok(()),
        }
    }

    /// Says that there is no room because `call` has failed, and ends the connection.
    pub fn turn_away(&mut self, (call, source): (&'static str, Errno), now: Time) -> ConnectError {
        self.refuse(no_room(&self.setup.identity, call, source), now)
    }

    fn refuse(&mut self, refusal: Box<Refusal>, now: Time) -> ConnectError {
        // The stream is given away with a link only: until then its descriptor may be watched.
        if let Some(stream) = &mut self.stream {
            // If it is gone already, our own error says enough.
            let _ = stream.send(now, &refusal.encode());
            stream.finish();
        }
        ConnectError::TurnedAway { address: self.setup.address.clone(), refusal }
    }

    /// Makes the link and welcomes the other side, or tells it why not.
    pub fn greet(&mut self, now: Time) -> Result<StreamLink<S>, ConnectError> {
        let (Some(stream), Some((hello, version))) = (&mut self.stream, self.heard) else {
            return Err(self.setup.hung_up());
        };
        let terms = &self.setup.terms;
        // Before the welcome: what fails afterwards cannot be told any more.
        let queues = Queues::new::<S>(&hello.intro, Arc::clone(&self.setup.exports), terms);
        let queues = match queues {
            Ok(queues) => queues,
            Err(source) => return Err(self.turn_away(("mmap", source), now)),
        };
        let welcome = Welcome {
            version,
            intro: self.setup.identity.introduction(terms.max_payload() as u32),
            ring_bytes: 0,
            heartbeat_ms: terms.heartbeat.as_millis() as u32,
            deadline_ms: terms.deadline.as_millis() as u32,
        };
        send_whole(stream, &self.setup, now, &welcome.encode())?;
        let Some(stream) = self.stream.take() else { return Err(self.setup.hung_up()) };
        Ok(self.setup.link(stream, queues, (hello.intro, version), terms))
    }
}

/// Sends a handshake message, for which a new stream always has room.
fn send_whole(
    stream: &mut impl ByteStream,
    setup: &Setup,
    now: Time,
    message: &[u8; HANDSHAKE_LEN],
) -> Result<(), ConnectError> {
    match stream.send(now, message) {
        Ok(HANDSHAKE_LEN) => Ok(()),
        Ok(_) => Err(setup.hung_up()),
        Err(loss) => Err(setup.lost(loss)),
    }
}

/// The hello and the version to speak, or why not. A peer that takes no frames worth sending is refused too.
fn check_stream_hello(bytes: &[u8; HANDSHAKE_LEN], ours: Versions) -> Result<(Hello, u16), Box<Refusal>> {
    let (hello, version) = check_hello(bytes, ours)?;
    if hello.intro.max_payload < PAYLOAD_MIN {
        let detail =
            format!("max_payload {} is less than the smallest, {PAYLOAD_MIN}", hello.intro.max_payload);
        return refuse(RefusalReason::Malformed, &detail);
    }
    Ok((hello, version))
}

/// A connection that we make and whose handshake is not finished.
pub struct Dialing<S: ByteStream> {
    stream: Option<S>,
    hello: [u8; HANDSHAKE_LEN],
    is_connected: bool,
    has_sent: bool,
    incoming: Incoming,
    setup: Setup,
}

impl<S: ByteStream> Dialing<S> {
    pub(crate) fn start(stream: S, setup: Setup, now: Time) -> Self {
        let hello = setup.identity.hello(setup.terms.max_payload() as u32).encode();
        let incoming = Incoming::new(&setup, now);
        Self { stream: Some(stream), hello, is_connected: false, has_sent: false, incoming, setup }
    }

    /// Says something else than the right hello: for tests of the other side.
    #[doc(hidden)]
    pub fn with_hello(self, hello: [u8; HANDSHAKE_LEN]) -> Self {
        Self { hello, ..self }
    }

    /// Becomes readable when [`poll`](Dialing::poll) can go on, or writable until
    /// [`is_connected`](Dialing::is_connected).
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.stream.as_ref().and_then(S::descriptor)
    }

    /// Whether the connection stands and the handshake has begun.
    pub fn is_connected(&self) -> bool {
        self.is_connected
    }

    /// When to look again at the latest, if nothing arrives.
    pub fn next_look(&self) -> Time {
        self.incoming.patience.next_look()
    }

    /// Goes on with the handshake; `None` means not yet.
    pub fn poll(&mut self, now: Time) -> Result<Option<StreamLink<S>>, ConnectError> {
        let Some(stream) = &mut self.stream else { return Err(self.setup.hung_up()) };
        if !self.is_connected {
            match stream.is_connected() {
                Ok(true) => self.is_connected = true,
                Ok(false) if self.incoming.patience.is_over(now) => {
                    return Err(self.incoming.patience.timed_out(self.setup.address.clone()));
                }
                Ok(false) => return Ok(None),
                Err(source) => {
                    return Err(ConnectError::Unreachable { address: self.setup.address.clone(), source });
                }
            }
        }
        if !self.has_sent {
            if !self.setup.secure(stream, now, &mut self.incoming.patience)? {
                return Ok(None);
            }
            match send_whole(stream, &self.setup, now, &self.hello) {
                // It may have said why.
                Ok(()) | Err(ConnectError::HungUp { .. }) => self.has_sent = true,
                Err(error) => return Err(error),
            }
        }
        let is_hopeless =
            |bytes: &[u8]| matches!(HandshakeAnswer::decode(bytes), Err(DecodeError::NotOutboard { .. }));
        for _ in 0..ANSWERS_PER_LOOK {
            let Some(stream) = &mut self.stream else { break };
            if !self.incoming.poll(stream, &self.setup, now, is_hopeless)? {
                break;
            }
            if let Some(link) = self.hear(now)? {
                return Ok(Some(link));
            }
        }
        Ok(None)
    }

    /// Hears an answer that is here as a whole; `None` means that another will follow.
    fn hear(&mut self, now: Time) -> Result<Option<StreamLink<S>>, ConnectError> {
        let address = || self.setup.address.clone();
        let us = (&self.setup.identity, self.setup.address.as_str());
        let answer = HandshakeAnswer::decode(&self.incoming.bytes);
        let Some(welcome) = hear_answer(answer, us, &mut self.incoming.patience, now)? else {
            self.incoming.len = 0;
            return Ok(None);
        };
        let mut terms = self.setup.terms.clone();
        check_welcome(&welcome)
            .and_then(|()| terms.adopt(welcome.heartbeat_ms, welcome.deadline_ms))
            .map_err(|source| ConnectError::Garbage { address: address(), source })?;
        let queues = Queues::new::<S>(&welcome.intro, Arc::clone(&self.setup.exports), &terms)
            .map_err(|source| ConnectError::System { call: "mmap", address: address(), source })?;
        let Some(stream) = self.stream.take() else { return Err(self.setup.hung_up()) };
        Ok(Some(self.setup.link(stream, queues, (welcome.intro, welcome.version), &terms)))
    }
}

fn check_welcome(welcome: &Welcome) -> Result<(), DecodeError> {
    let wrong = |what, value: u32| Err(DecodeError::BadValue { what, value: value.into() });
    if welcome.intro.max_payload < PAYLOAD_MIN {
        return wrong("max_payload", welcome.intro.max_payload);
    }
    if welcome.ring_bytes != 0 {
        return wrong("ring size on a stream", welcome.ring_bytes);
    }
    Ok(())
}
