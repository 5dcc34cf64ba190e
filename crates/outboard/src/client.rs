//! One process's connection to a daemon.

mod error;

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use outboard_driver::{Connection, Over, Tend};
use outboard_link::memory::{Buffer, Window};
use outboard_link::{
    AccessError, AccessOutcome, Address, Capabilities, ConnectError, Disposition, FrameSendError, Identity,
    Link, LinkConfigs, LinkError, Loss, OpenRegion, Peer, RemoteMemory, Token, Waiter,
};
use outboard_settings::LinkSettings;
use outboard_wire::control::{ControlAnswer, Question};
use outboard_wire::{FrameHead, FrameKind, Grant, Rights, Room};

pub use self::error::AskError;

/// How much one transfer of a long read or write moves.
const PIECE: usize = 128 << 10;

/// A connection to a daemon, for one thread. Every wait ends within the client's deadline; a question waits at most
/// twice (for room, for the answer), a long read or write once for each 128 KiB.
pub struct Client {
    peer: Peer,
    link_name: &'static str,
    /// Only taken out, never locked: so threads may share what holds a client, though a link is for one of them.
    connection: Mutex<Connection<Asking>>,
    deadline: Duration,
    next_tag: u32,
    buffer: Option<Buffer>,
    /// How many regions of the daemon can be open at once.
    regions_max: usize,
    /// The longest payload of a frame.
    payload_max: usize,
    /// How it was connected, for a client that connects again.
    way: Way,
    /// How the link was lost, until there is another.
    lost: Option<LinkError>,
    /// How many links there have been before this one.
    former_links: u32,
}

/// How a client was connected.
struct Way {
    address: Address,
    identity: Identity,
    configs: LinkConfigs,
    /// Whether a call after a loss connects again.
    is_taken_again: bool,
}

impl Client {
    /// Connects to the daemon at `address`.
    pub fn connect(
        address: &Address,
        identity: Identity,
        settings: &LinkSettings,
    ) -> Result<Self, ConnectError> {
        let configs = settings.configs();
        let connection = Connection::open(address, identity.clone(), &configs, Asking)?;
        let (peer, Capabilities { name: link_name, max_payload: payload_max, .. }) =
            connection.client().other_end();
        let connection = Mutex::new(connection);
        let (deadline, regions_max) = (settings.deadline, configs.regions_max(address));
        let way = Way { address: address.clone(), identity, configs, is_taken_again: false };
        Ok(Self {
            peer,
            link_name,
            connection,
            deadline,
            next_tag: 1,
            buffer: None,
            regions_max,
            payload_max,
            way,
            lost: None,
            former_links: 0,
        })
    }

    /// From now on a call after one that has told of a loss connects to the daemon again, which may be another process then.
    pub(crate) fn connects_again(mut self) -> Self {
        self.way.is_taken_again = true;
        self
    }

    /// Connects again if the link was lost. While the daemon is not there the loss is told again.
    pub(crate) fn again(&mut self) -> Result<(), AskError> {
        let Some(lost) = self.lost.clone().filter(|_| self.way.is_taken_again) else { return Ok(()) };
        let Way { address, identity, configs, .. } = &self.way;
        let opened = Connection::open(address, identity.clone(), configs, Asking);
        let connection = opened.map_err(|error| {
            tracing::debug!("not connected again: {error}");
            AskError::Lost(lost)
        })?;
        let (peer, Capabilities { max_payload, .. }) = connection.client().other_end();
        *self.connection() = connection;
        (self.peer, self.payload_max, self.lost) = (peer, max_payload, None);
        self.former_links += 1;
        Ok(())
    }

    /// How many links there have been before this one. What was opened by them is not open by this one.
    #[inline]
    pub(crate) fn former_links(&self) -> u32 {
        self.former_links
    }

    /// Lets every call wait for `deadline` at most.
    pub fn with_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// The process at the other end.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Which kind of link this is.
    pub fn link_name(&self) -> &'static str {
        self.link_name
    }

    /// The longest payload of a frame.
    pub(crate) fn payload_max(&self) -> usize {
        self.payload_max
    }

    /// Asks a question and waits for its answer. A no is an error.
    pub fn ask(&mut self, question: &Question) -> Result<ControlAnswer, AskError> {
        self.ask_within(question, self.deadline)
    }

    /// Asks a question whose answer may take longer than the client's usual deadline.
    pub fn ask_within(&mut self, question: &Question, deadline: Duration) -> Result<ControlAnswer, AskError> {
        let mut payload = Vec::new();
        question.encode(&mut payload);
        let (kind, bytes) = self.exchange(FrameHead::new(question.kind()), &payload, deadline)?;
        let daemon = self.peer().clone();
        match ControlAnswer::decode(kind, &bytes) {
            Ok(ControlAnswer::Failed { failure, detail }) => {
                Err(AskError::Refused { daemon, failure, detail: detail.to_string() })
            }
            Ok(answer) => Ok(answer),
            Err(source) => Err(AskError::Unreadable { daemon, source }),
        }
    }

    /// Sends bytes there and back, checks that they are the same, and says how long it took.
    pub fn echo(&mut self, payload: &[u8]) -> Result<Duration, AskError> {
        let began = Instant::now();
        let head = FrameHead::new(FrameKind::new(Room::Trial, 0));
        let (_, bytes) = self.exchange(head, payload, self.deadline)?;
        let took = began.elapsed();
        if bytes == payload { Ok(took) } else { Err(AskError::Unexpected { daemon: self.peer().clone() }) }
    }

    /// Sends a frame of any kind and waits for the one that answers it.
    pub(crate) fn exchange_frame(
        &mut self,
        head: FrameHead,
        payload: &[u8],
    ) -> Result<(FrameKind, Vec<u8>), AskError> {
        self.exchange(head, payload, self.deadline)
    }

    fn exchange(
        &mut self,
        head: FrameHead,
        payload: &[u8],
        deadline: Duration,
    ) -> Result<(FrameKind, Vec<u8>), AskError> {
        self.again()?;
        let tag = self.next_tag;
        self.next_tag = self.next_tag.wrapping_add(1);
        let head = head.with_tag(tag);
        let exchanged = self.connection().client_mut().exchange(deadline, head, payload);
        exchanged.map_err(|error| self.told(error))
    }

    /// Opens a region that the daemon exports.
    pub fn open(&mut self, grant: &Grant, rights: Rights) -> Result<OpenRegion, AskError> {
        let outcome = self.operate("a region to open", Operation::Open(grant, rights));
        let daemon = self.peer().clone();
        match outcome {
            Ok(AccessOutcome::Opened(region)) => Ok(region),
            Ok(_) => Err(AskError::Unexpected { daemon }),
            // Nothing else is under way on this link, so it is regions that there is no room for.
            Err(AccessError::Full | AccessError::Busy) => {
                Err(AskError::TooManyRegions { daemon, most: self.regions_max })
            }
            Err(error) => Err(self.told(error)),
        }
    }

    /// Gives an open region back.
    pub fn close_region(&mut self, region: OpenRegion) {
        self.connection().client_mut().close_region(region);
    }

    /// Reads bytes of an open region.
    pub fn read(&mut self, region: OpenRegion, offset: u64, into: &mut [u8]) -> Result<(), AskError> {
        let buffer = self.buffer()?;
        let mut offset = offset;
        for piece in into.chunks_mut(PIECE) {
            self.access("a read", Operation::Read(region, offset, &buffer, piece.len()))?;
            buffer.window().read(0, piece);
            offset += piece.len() as u64;
        }
        Ok(())
    }

    /// Writes bytes of an open region; they are visible there when the call returns.
    pub fn write(&mut self, region: OpenRegion, offset: u64, from: &[u8]) -> Result<(), AskError> {
        let mut offset = offset;
        for piece in from.chunks(PIECE) {
            self.access("a write", Operation::Write(region, offset, piece))?;
            offset += piece.len() as u64;
        }
        Ok(())
    }

    /// Adds to a word of an open region and returns what it held before.
    pub fn fetch_add(&mut self, region: OpenRegion, offset: u64, addend: u64) -> Result<u64, AskError> {
        let outcome = self.access("a fetch-add", Operation::FetchAdd(region, offset, addend))?;
        self.old(outcome)
    }

    /// Replaces a word of an open region if it holds the first of `words`, by the second, and returns what it held before.
    pub fn compare_swap(
        &mut self,
        region: OpenRegion,
        offset: u64,
        words: (u64, u64),
    ) -> Result<u64, AskError> {
        let outcome = self.access("a compare-and-swap", Operation::CompareSwap(region, offset, words))?;
        self.old(outcome)
    }

    /// The value of a word before an atomic operation.
    fn old(&self, outcome: AccessOutcome) -> Result<u64, AskError> {
        match outcome {
            AccessOutcome::Old(old) => Ok(old),
            _ => Err(AskError::Unexpected { daemon: self.peer().clone() }),
        }
    }

    /// Reads a whole region that the daemon exports to the holders of its grant.
    pub fn read_region(&mut self, grant: &Grant) -> Result<Vec<u8>, AskError> {
        let region = self.open(grant, Rights::READ)?;
        let mut bytes = vec![0; grant.size as usize];
        let result = self.read(region, 0, &mut bytes);
        self.close_region(region);
        result.map(|()| bytes)
    }

    fn buffer(&mut self) -> Result<Buffer, AskError> {
        match &self.buffer {
            Some(buffer) => Ok(buffer.clone()),
            None => {
                let buffer =
                    Buffer::allocate(PIECE).map_err(|error| AskError::NoMemory(error.to_string()))?;
                self.buffer = Some(buffer.clone());
                Ok(buffer)
            }
        }
    }

    fn connection(&mut self) -> &mut Connection<Asking> {
        self.connection.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does one operation on an open region.
    fn access(&mut self, awaited: &'static str, operation: Operation<'_>) -> Result<AccessOutcome, AskError> {
        self.operate(awaited, operation).map_err(|error| self.told(error))
    }

    /// What the user is told of an error. A link that lives was not lost: its peer was too slow.
    fn told(&mut self, error: AccessError) -> AskError {
        match error {
            AccessError::Lost(LinkError {
                peer: daemon,
                loss: Loss::Stalled { silent: waited, awaited },
            }) if self.connection().client_mut().is_there() => AskError::Deadline { daemon, waited, awaited },
            AccessError::Lost(lost) => {
                self.lost = Some(lost.clone());
                AskError::Lost(lost)
            }
            error => error.into(),
        }
    }

    /// Begins one operation and waits for its end.
    fn operate(
        &mut self,
        awaited: &'static str,
        operation: Operation<'_>,
    ) -> Result<AccessOutcome, AccessError> {
        let token = Token(u64::from(self.next_tag));
        self.next_tag = self.next_tag.wrapping_add(1);
        let deadline = self.deadline;
        self.connection().client_mut().operate(operation, deadline, awaited, token)
    }

    /// Says goodbye with a reason. A client that is dropped says that it is done.
    pub fn close(mut self, reason: &str) {
        self.connection().client_mut().close(reason);
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.connection().client_mut().close("done");
    }
}

/// The makings of a client: nothing but its link.
struct Asking;

impl Over for Asking {
    type Client<L: Link + RemoteMemory + Send + 'static> = Asker<L>;
    type Any = dyn Asks;

    fn over<L: Link + RemoteMemory + Send + 'static>(self, link: L) -> Result<Asker<L>, ConnectError> {
        Ok(Asker { link, waiter: Waiter::new() })
    }

    fn any<L: Link + RemoteMemory + Send + 'static>(asker: &Asker<L>) -> &Self::Any {
        asker
    }

    fn any_mut<L: Link + RemoteMemory + Send + 'static>(asker: &mut Asker<L>) -> &mut Self::Any {
        asker
    }
}

/// One question or operation at a time, over a link of any kind.
trait Asks {
    /// The process at the other end, and what the link can do.
    fn other_end(&self) -> (Peer, Capabilities);

    /// Whether the link lives, as far as is known here.
    fn is_there(&mut self) -> bool;

    /// Sends a frame, and waits for the one that answers it.
    fn exchange(
        &mut self,
        patience: Duration,
        head: FrameHead,
        payload: &[u8],
    ) -> Result<(FrameKind, Vec<u8>), AccessError>;

    /// Begins a one-sided operation, and waits for its end.
    fn operate(
        &mut self,
        operation: Operation<'_>,
        patience: Duration,
        awaited: &'static str,
        token: Token,
    ) -> Result<AccessOutcome, AccessError>;

    /// Gives an open region back.
    fn close_region(&mut self, region: OpenRegion);

    /// Says goodbye.
    fn close(&mut self, reason: &str);
}

/// A one-sided operation on an open region.
#[derive(Clone, Copy)]
enum Operation<'a> {
    Open(&'a Grant, Rights),
    Read(OpenRegion, u64, &'a Buffer, usize),
    Write(OpenRegion, u64, &'a [u8]),
    FetchAdd(OpenRegion, u64, u64),
    /// The word that is expected, and the one that replaces it.
    CompareSwap(OpenRegion, u64, (u64, u64)),
}

/// Asks one question, or begins one operation, and waits for its end.
struct Asker<L> {
    link: L,
    waiter: Waiter,
}

impl<L: Link + Send + 'static> Tend for Asker<L> {
    fn tend(&mut self) -> Option<Duration> {
        let now = self.waiter.clock.now();
        // The next call reports a loss.
        let _ = self.link.progress(now);
        self.link.next_deadline().map(|due| due.since(now))
    }
}

impl<L: Link + RemoteMemory> Asks for Asker<L> {
    fn other_end(&self) -> (Peer, Capabilities) {
        (self.link.peer().clone(), *self.link.capabilities())
    }

    fn is_there(&mut self) -> bool {
        self.link.progress(self.waiter.clock.now()).is_ok()
    }

    fn close_region(&mut self, region: OpenRegion) {
        self.link.close_region(region);
    }

    fn close(&mut self, reason: &str) {
        self.link.close(reason);
    }

    fn exchange(
        &mut self,
        deadline: Duration,
        head: FrameHead,
        payload: &[u8],
    ) -> Result<(FrameKind, Vec<u8>), AccessError> {
        let Self { link, waiter } = self;
        waiter.until(link, deadline, "room for a question", |link| match link.send(head, payload) {
            Ok(()) => Ok(Some(Ok(()))),
            Err(FrameSendError::Full) => Ok(None),
            Err(FrameSendError::Lost(error)) => Err(error),
            Err(FrameSendError::TooLong { len, max }) => Ok(Some(Err(AccessError::TooLong { len, max }))),
        })??;
        link.flush()?;
        let mut answer = None;
        let arrived = waiter.until(link, deadline, "an answer", |link| {
            link.receive(1, |frame| {
                // Answers to questions that were given up may still come.
                if frame.head.tag == head.tag {
                    answer = Some((frame.head.kind, frame.payload.to_vec()));
                }
                Disposition::Taken
            })?;
            Ok(answer.take())
        })?;
        Ok(arrived)
    }

    fn operate(
        &mut self,
        operation: Operation<'_>,
        deadline: Duration,
        awaited: &'static str,
        token: Token,
    ) -> Result<AccessOutcome, AccessError> {
        let Self { link, waiter } = self;
        match operation {
            Operation::Open(grant, rights) => link.open(grant, rights, token),
            Operation::Read(region, offset, into, len) => link.read(region, offset, into, 0, len, token),
            Operation::Write(region, offset, from) => link.write(region, offset, Window::from(from), token),
            Operation::FetchAdd(region, offset, addend) => link.fetch_add(region, offset, addend, token),
            Operation::CompareSwap(region, offset, (expected, new)) => {
                link.compare_swap(region, offset, expected, new, token)
            }
        }?;
        // Where the peer's memory is mapped an operation ends without the peer, and would also after its death.
        link.progress(waiter.clock.now())?;
        link.flush()?;
        let completion = waiter.until(link, deadline, awaited, |link| {
            let mut found = None;
            link.completions(|completion| {
                if completion.token == token {
                    found = Some(completion);
                }
            });
            Ok(found)
        })?;
        completion.result
    }
}
