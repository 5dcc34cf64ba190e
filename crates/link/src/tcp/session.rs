//! One encrypted connection: records on the side of the socket, the link's bytes on the other.
//!
//! The library that encrypts does no I/O. It is handed what arrived and says what to do: send something, take
//! plain bytes, or wait for more. Nothing here says goodbye in TLS's own way: a link has its own goodbye, inside, and
//! one that ends without it was lost, whichever process cut it off.

use std::os::fd::OwnedFd;

use rustls::Error;
use rustls::client::UnbufferedClientConnection;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus};

use super::Distrust;
use super::distrust::distrust_of;
use super::records::{Departing, Encrypt, Sealed, Source};
use super::trust::Trust;
use crate::Loss;
use crate::stream::Arrival;

/// The state of an encrypted connection.
pub(super) struct Session {
    connection: Connection,
    sealed: Sealed,
    /// Bytes that are decrypted and have not been taken, from `opened_at` on.
    opened: Vec<u8>,
    opened_at: usize,
    departing: Departing,
    /// Both sides have shown who they are.
    is_open: bool,
    has_ended: bool,
    failed: Option<Loss>,
}

enum Connection {
    Client(UnbufferedClientConnection),
    Server(UnbufferedServerConnection),
}

/// The step that the library wants next.
enum Step {
    /// Something is to be sent.
    Sent,
    /// Plain bytes were handed out.
    Opened,
    /// There is no whole record.
    Blocked,
    /// The peer will not send any more.
    Ended,
}

/// The treatment of plain bytes, and of leave to send some.
struct Hands<'a> {
    open: &'a mut dyn FnMut(&[u8]),
    seal: Option<Seal<'a>>,
}

type Seal<'a> = &'a mut dyn FnMut(&mut Departing, Encrypt<'_, EncryptError>) -> Result<(), EncryptError>;

impl Connection {
    fn is_handshaking(&self) -> bool {
        match self {
            Self::Client(client) => client.is_handshaking(),
            Self::Server(server) => server.is_handshaking(),
        }
    }

    /// Whether something of its own waits to be sent.
    fn wants_write(&self) -> bool {
        match self {
            Self::Client(client) => client.wants_write(),
            Self::Server(server) => server.wants_write(),
        }
    }

    /// One step, and how many bytes of `sealed` are dealt with.
    fn step(
        &mut self,
        sealed: &mut [u8],
        departing: &mut Departing,
        hands: Hands<'_>,
    ) -> (usize, Result<Step, Error>) {
        match self {
            Self::Client(client) => take_step(client.process_tls_records(sealed), departing, hands),
            Self::Server(server) => take_step(server.process_tls_records(sealed), departing, hands),
        }
    }
}

fn take_step<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    departing: &mut Departing,
    mut hands: Hands<'_>,
) -> (usize, Result<Step, Error>) {
    let mut discard = status.discard;
    let step = status.state.and_then(|state| match state {
        ConnectionState::ReadTraffic(mut traffic) => {
            while let Some(record) = traffic.next_record() {
                let record = record?;
                discard += record.discard;
                (hands.open)(record.payload);
            }
            Ok(Step::Opened)
        }
        ConnectionState::EncodeTlsData(mut message) => {
            let len = match message.encode(&mut []) {
                Err(EncodeError::InsufficientSize(needed)) => needed.required_size,
                _ => 0,
            };
            let appended = departing.append(len, |room| message.encode(room));
            appended.map(|()| Step::Sent).map_err(|error| Error::General(error.to_string()))
        }
        ConnectionState::TransmitTlsData(message) => {
            // It is kept until the socket takes it.
            message.done();
            Ok(Step::Sent)
        }
        ConnectionState::WriteTraffic(mut traffic) => {
            if let Some(seal) = &mut hands.seal {
                seal(departing, &mut |plain, into| traffic.encrypt(plain, into))
                    .map_err(|error| Error::General(error.to_string()))?;
            }
            Ok(Step::Blocked)
        }
        ConnectionState::PeerClosed | ConnectionState::Closed => Ok(Step::Ended),
        // Nothing is sent early here, and what is new to us is not used.
        _ => Ok(Step::Blocked),
    });
    (discard, step)
}

impl Session {
    /// The side that connects.
    pub(super) fn dial(trust: &Trust) -> Result<Self, Error> {
        let client = UnbufferedClientConnection::new(trust.client.clone(), trust.name.clone())?;
        Ok(Self::new(Connection::Client(client)))
    }

    /// The side that is connected to.
    pub(super) fn accept(trust: &Trust) -> Result<Self, Error> {
        let server = UnbufferedServerConnection::new(trust.server.clone())?;
        Ok(Self::new(Connection::Server(server)))
    }

    fn new(connection: Connection) -> Self {
        Self {
            connection,
            sealed: Sealed::new(),
            opened: Vec::new(),
            opened_at: 0,
            departing: Departing::new(),
            is_open: false,
            has_ended: false,
            failed: None,
        }
    }

    /// Gives the connection up, with a word to the peer why.
    #[cold]
    fn fail(&mut self, socket: &OwnedFd, error: &Error) -> Loss {
        while self.connection.wants_write() {
            let hands = Hands { open: &mut |_| {}, seal: None };
            let _ = self.connection.step(self.sealed.bytes_mut(), &mut self.departing, hands);
        }
        // If that cannot leave, the end of the connection says enough.
        let _ = self.departing.flush(socket);
        self.give_up(Loss::Untrusted(distrust_of(error, self.is_open)))
    }

    fn give_up(&mut self, loss: Loss) -> Loss {
        self.failed = Some(loss.clone());
        loss
    }

    fn check(&self) -> Result<(), Loss> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    /// Lets the library do one step.
    fn step(&mut self, socket: &OwnedFd, hands: Hands<'_>) -> Result<Step, Loss> {
        let (discard, step) = self.connection.step(self.sealed.bytes_mut(), &mut self.departing, hands);
        self.sealed.discard(discard);
        step.map_err(|error| self.fail(socket, &error))
    }

    /// Takes what the socket has.
    fn fill(&mut self, socket: &OwnedFd) -> Result<Arrival, Loss> {
        let loss = match self.sealed.fill(socket) {
            Ok(Some(arrival)) => return Ok(arrival),
            Ok(None) => {
                Loss::Untrusted(Distrust::Broken { what: "a message that is far too long".to_owned() })
            }
            Err(loss) => loss,
        };
        Err(self.give_up(loss))
    }

    /// Goes on with the handshake; true once both sides have shown who they are.
    pub(super) fn secure(&mut self, socket: &OwnedFd) -> Result<bool, Loss> {
        self.check()?;
        while !self.is_open {
            self.departing.flush(socket)?;
            if !self.departing.is_empty() {
                return Ok(false);
            }
            let mut opened = std::mem::take(&mut self.opened);
            let hands = Hands { open: &mut |bytes| opened.extend_from_slice(bytes), seal: None };
            let step = self.step(socket, hands);
            self.opened = opened;
            match step? {
                Step::Sent => {}
                Step::Ended => return Err(Loss::Gone),
                Step::Opened | Step::Blocked if !self.connection.is_handshaking() => {
                    self.sealed.widen();
                    self.is_open = true;
                }
                Step::Opened | Step::Blocked => match self.fill(socket)? {
                    Arrival::Bytes(_) => {}
                    Arrival::Nothing => return Ok(false),
                    Arrival::End => return Err(Loss::Gone),
                },
            }
        }
        Ok(true)
    }

    /// Whether both sides have shown who they are.
    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Sends some of what the link presents, of which the beginning may be under way already.
    pub(super) fn send(&mut self, socket: &OwnedFd, source: &Source<'_>) -> Result<usize, Loss> {
        self.check()?;
        let mut taken = 0;
        loop {
            taken += match self.departing.flush(socket) {
                Ok(taken) => taken,
                Err(Loss::Gone) => return Err(self.last_words(socket)),
                Err(loss) => return Err(loss),
            };
            if !self.departing.is_empty() || taken >= source.len() {
                return Ok(taken);
            }
            self.seal(socket, source, taken)?;
        }
    }

    /// Encrypts some of what comes from `at` on.
    fn seal(&mut self, socket: &OwnedFd, source: &Source<'_>, at: usize) -> Result<(), Loss> {
        let mut opened = std::mem::take(&mut self.opened);
        let result = loop {
            let mut seal = |departing: &mut Departing, encrypt: Encrypt<'_, EncryptError>| {
                departing.seal(source, at, encrypt)
            };
            // The library's rules want bytes that have arrived meanwhile read first; `receive` finds them here.
            let hands = Hands { open: &mut |bytes| opened.extend_from_slice(bytes), seal: Some(&mut seal) };
            match self.step(socket, hands) {
                Ok(Step::Blocked) => break Ok(()),
                // Told once by a peer that stops sending; again, when this side may not send either.
                Ok(Step::Ended) if self.has_ended => break Err(Loss::Gone),
                Ok(Step::Ended) => self.has_ended = true,
                Ok(Step::Sent | Step::Opened) => {}
                Err(loss) => break Err(loss),
            }
        };
        self.opened = opened;
        result
    }

    /// Why the peer took no more: it may have said so before it hung up.
    #[cold]
    fn last_words(&mut self, socket: &OwnedFd) -> Loss {
        let mut heard = |_: &[u8]| {};
        while let Ok(Arrival::Bytes(_)) = self.fill(socket) {}
        loop {
            match self.step(socket, Hands { open: &mut heard, seal: None }) {
                Ok(Step::Sent | Step::Opened) => {}
                Err(Loss::Untrusted(distrust)) => return Loss::Untrusted(distrust),
                _ => return Loss::Gone,
            }
        }
    }

    /// Hands out plain bytes, `asked` at most: `put` is told where they belong.
    pub(super) fn receive(
        &mut self,
        socket: &OwnedFd,
        asked: usize,
        mut put: impl FnMut(usize, &[u8]),
    ) -> Result<Arrival, Loss> {
        self.check()?;
        let mut filled = self.hand_out(asked, &mut put);
        let mut is_drained = false;
        while filled < asked && !self.has_ended {
            match self.open(socket, asked, &mut filled, &mut put) {
                Ok(Step::Sent | Step::Opened) => {}
                Ok(Step::Ended) => self.has_ended = true,
                Ok(Step::Blocked) if is_drained => break,
                Ok(Step::Blocked) => {
                    match self.fill(socket) {
                        Ok(Arrival::Bytes(_)) => {}
                        Ok(Arrival::Nothing) => break,
                        Ok(Arrival::End) => self.has_ended = true,
                        Err(_) if filled > 0 => break,
                        Err(loss) => return Err(loss),
                    }
                    is_drained = self.sealed.is_drained;
                }
                // Bytes that came before it are right, and are handed out first; the next call tells this again.
                Err(_) if filled > 0 => break,
                Err(loss) => return Err(loss),
            }
        }
        Ok(match filled {
            0 if self.has_ended => Arrival::End,
            0 => Arrival::Nothing,
            len => Arrival::Bytes(len),
        })
    }

    /// Hands out what was decrypted before.
    fn hand_out(&mut self, asked: usize, put: &mut impl FnMut(usize, &[u8])) -> usize {
        let waiting = &self.opened[self.opened_at..];
        let len = waiting.len().min(asked);
        if len > 0 {
            put(0, &waiting[..len]);
            self.opened_at += len;
            if self.opened_at == self.opened.len() {
                self.opened.clear();
                self.opened_at = 0;
            }
        }
        len
    }

    /// Decrypts a record straight to where it belongs; what there is no room for is kept.
    fn open(
        &mut self,
        socket: &OwnedFd,
        asked: usize,
        filled: &mut usize,
        put: &mut impl FnMut(usize, &[u8]),
    ) -> Result<Step, Loss> {
        let mut opened = std::mem::take(&mut self.opened);
        let mut open = |bytes: &[u8]| {
            let (now, later) = bytes.split_at(bytes.len().min(asked - *filled));
            put(*filled, now);
            *filled += now.len();
            opened.extend_from_slice(later);
        };
        let step = self.step(socket, Hands { open: &mut open, seal: None });
        self.opened = opened;
        step
    }

    /// Whether bytes have left the socket and were not taken.
    pub(super) fn holds_back(&self) -> bool {
        self.opened.len() > self.opened_at || self.sealed.has_record()
    }

    /// Whether the last attempt to receive took all there was.
    pub(super) fn is_drained(&self) -> bool {
        self.sealed.is_drained && !self.holds_back()
    }
}
