//! The first message of each side, and the link that comes of it.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use outboard_wire::{
    Answer, DecodeError, HANDSHAKE_LEN, Hello, Introduction, Refusal, RefusalReason, Time, Versions, Welcome,
};

use super::bytes::{Arrival, ByteStream};
use super::link::StreamLink;
use super::terms::{PAYLOAD_MIN, Terms};
use crate::hello::{check_hello, refuse};
use crate::tcp::Distrust;
use crate::{ConnectError, Exports, Identity, Loss, Peer};

/// How an alert of TLS begins.
const TLS_ALERT: [u8; 2] = [21, 3];

/// What every link of this process starts from.
#[derive(Clone)]
pub(crate) struct Setup {
    /// The other side's.
    pub(crate) address: String,
    pub(crate) identity: Identity,
    pub(crate) exports: Arc<Exports>,
    pub(crate) terms: Terms,
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

    /// Who hangs up after an alert of TLS had expected TLS.
    fn hung_up_after(&self, heard: &[u8]) -> ConnectError {
        match heard.starts_with(&TLS_ALERT) {
            true => ConnectError::Untrusted { address: self.address.clone(), source: Distrust::WantsTls },
            false => self.hung_up(),
        }
    }

    fn timed_out(&self) -> ConnectError {
        ConnectError::TimedOut { address: self.address.clone(), waited: self.terms.handshake_timeout }
    }

    /// Whether both sides know whom they are talking to.
    fn secure(&self, stream: &mut impl ByteStream, now: Time, deadline: Time) -> Result<bool, ConnectError> {
        match stream.secure().map_err(|loss| self.lost(loss))? {
            false if now >= deadline => Err(self.timed_out()),
            is_secure => Ok(is_secure),
        }
    }

    fn link<S: ByteStream>(
        &self,
        mut stream: S,
        intro: Introduction,
        terms: &Terms,
    ) -> Result<StreamLink<S>, ConnectError> {
        stream.begin_records(terms.deadline);
        let peer = Peer::new(intro, self.address.clone());
        StreamLink::new(stream, peer, Arc::clone(&self.exports), terms)
            .map_err(|source| ConnectError::System { call: "mmap", address: self.address.clone(), source })
    }
}

/// One handshake message on its way in, read exactly to its end: what follows belongs to the link.
struct Incoming {
    bytes: [u8; HANDSHAKE_LEN],
    len: usize,
    deadline: Time,
}

impl Incoming {
    fn new(deadline: Time) -> Self {
        Self { bytes: [0; HANDSHAKE_LEN], len: 0, deadline }
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
                Arrival::Nothing if now >= self.deadline => return Err(setup.timed_out()),
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
    setup: Setup,
}

impl<S: ByteStream> Accepting<S> {
    pub(crate) fn start(stream: S, setup: Setup, now: Time) -> Self {
        let deadline = now + setup.terms.handshake_timeout;
        Self { stream: Some(stream), incoming: Incoming::new(deadline), setup }
    }

    /// Becomes readable when [`poll`](Accepting::poll) can go on.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.stream.as_ref().and_then(S::descriptor)
    }

    /// When [`poll`](Accepting::poll) gives up.
    pub fn deadline(&self) -> Time {
        self.incoming.deadline
    }

    /// Goes on with the handshake; `None` means not yet.
    pub fn poll(&mut self, now: Time) -> Result<Option<StreamLink<S>>, ConnectError> {
        let Some(stream) = &mut self.stream else { return Err(self.setup.hung_up()) };
        let is_hopeless = |bytes: &[u8]| matches!(Hello::decode(bytes), Err(DecodeError::NotOutboard { .. }));
        if !self.setup.secure(stream, now, self.incoming.deadline)? {
            return Ok(None);
        }
        if !self.incoming.poll(stream, &self.setup, now, is_hopeless)? {
            return Ok(None);
        }
        self.greet(now).map(Some)
    }

    /// Answers the hello. The stream is given away with the link only: until then its descriptor may be watched.
    fn greet(&mut self, now: Time) -> Result<StreamLink<S>, ConnectError> {
        let Some(stream) = &mut self.stream else { return Err(self.setup.hung_up()) };
        let (hello, version) = check_stream_hello(&self.incoming.bytes).map_err(|refusal| {
            // If it is gone already, our own error says enough.
            let _ = stream.send(now, &refusal.encode());
            stream.finish();
            ConnectError::TurnedAway { address: self.setup.address.clone(), refusal }
        })?;
        let terms = &self.setup.terms;
        let welcome = Welcome {
            version,
            intro: self.setup.identity.introduction(terms.max_payload() as u32),
            ring_bytes: 0,
            heartbeat_ms: terms.heartbeat.as_millis() as u32,
            deadline_ms: terms.deadline.as_millis() as u32,
        };
        send_whole(stream, &self.setup, now, &welcome.encode())?;
        let Some(stream) = self.stream.take() else { return Err(self.setup.hung_up()) };
        self.setup.link(stream, hello.intro, terms)
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
fn check_stream_hello(bytes: &[u8; HANDSHAKE_LEN]) -> Result<(Hello, u16), Box<Refusal>> {
    let (hello, version) = check_hello(bytes)?;
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
        let deadline = now + setup.terms.handshake_timeout;
        let hello = setup.identity.hello(setup.terms.max_payload() as u32).encode();
        let incoming = Incoming::new(deadline);
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

    /// When [`poll`](Dialing::poll) gives up.
    pub fn deadline(&self) -> Time {
        self.incoming.deadline
    }

    /// Goes on with the handshake; `None` means not yet.
    pub fn poll(&mut self, now: Time) -> Result<Option<StreamLink<S>>, ConnectError> {
        let Some(stream) = &mut self.stream else { return Err(self.setup.hung_up()) };
        if !self.is_connected {
            match stream.is_connected() {
                Ok(true) => self.is_connected = true,
                Ok(false) if now < self.incoming.deadline => return Ok(None),
                Ok(false) => return Err(self.setup.timed_out()),
                Err(source) => {
                    return Err(ConnectError::Unreachable { address: self.setup.address.clone(), source });
                }
            }
        }
        if !self.has_sent {
            if !self.setup.secure(stream, now, self.incoming.deadline)? {
                return Ok(None);
            }
            send_whole(stream, &self.setup, now, &self.hello)?;
            self.has_sent = true;
        }
        let is_hopeless =
            |bytes: &[u8]| matches!(Answer::decode(bytes), Err(DecodeError::NotOutboard { .. }));
        if !self.incoming.poll(stream, &self.setup, now, is_hopeless)? {
            return Ok(None);
        }
        self.hear().map(Some)
    }

    fn hear(&mut self) -> Result<StreamLink<S>, ConnectError> {
        let Some(stream) = self.stream.take() else { return Err(self.setup.hung_up()) };
        let address = || self.setup.address.clone();
        let welcome = match Answer::decode(&self.incoming.bytes) {
            Ok(Answer::Welcome(welcome)) => welcome,
            Ok(Answer::Refusal(refusal)) => {
                return Err(ConnectError::Refused { address: address(), refusal: Box::new(refusal) });
            }
            Err(source) => return Err(ConnectError::Garbage { address: address(), source }),
        };
        let mut terms = self.setup.terms.clone();
        check_welcome(&welcome)
            .and_then(|()| terms.adopt(welcome.heartbeat_ms, welcome.deadline_ms))
            .map_err(|source| ConnectError::Garbage { address: address(), source })?;
        self.setup.link(stream, welcome.intro, &terms)
    }
}

fn check_welcome(welcome: &Welcome) -> Result<(), DecodeError> {
    let wrong = |what, value: u32| Err(DecodeError::BadValue { what, value: value.into() });
    if Versions::OURS.common(Versions { min: welcome.version, max: welcome.version }).is_none() {
        return wrong("agreed version", welcome.version.into());
    }
    if welcome.intro.max_payload < PAYLOAD_MIN {
        return wrong("max_payload", welcome.intro.max_payload);
    }
    if welcome.ring_bytes != 0 {
        return wrong("ring size on a stream", welcome.ring_bytes);
    }
    Ok(())
}
