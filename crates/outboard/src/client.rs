//! One process's connection to a daemon.

mod error;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use outboard_link::memory::{Buffer, Window};
use outboard_link::{
    AccessError, Address, Completion, ConnectError, Disposition, Identity, Link, LinkError, OpenRegion,
    Outcome, Peer, RemoteMemory, SendError, Token, Waiter,
};
use outboard_settings::LinkSettings;
use outboard_wire::control::{ControlAnswer, Question};
use outboard_wire::{FrameHead, Grant, Kind, Rights, Room};

use crate::any_link::{AnyLink, on_link};

pub use self::error::AskError;

/// How much one transfer of a long read or write moves.
const PIECE: usize = 128 << 10;

/// A connection to a daemon, for one thread. Every wait ends within the client's patience; a question waits at most
/// twice (for room, for the answer), a long read or write once for each 128 KiB.
pub struct Client {
    peer: Peer,
    link_name: &'static str,
    /// Shared with the thread that shows that we live while the application computes.
    link: Arc<Mutex<AnyLink>>,
    waiter: Waiter,
    patience: Duration,
    next_tag: u32,
    buffer: Option<Buffer>,
    /// How many regions of the daemon can be open at once.
    regions_max: usize,
}

impl Client {
    /// Connects to the daemon at `address`.
    pub fn connect(
        address: &Address,
        identity: Identity,
        settings: &LinkSettings,
    ) -> Result<Self, ConnectError> {
        let link = AnyLink::connect(address, identity, settings)?;
        let (peer, link_name) = on_link!(&link, link => (link.peer().clone(), link.capabilities().name));
        let is_silent_between_calls = matches!(link, AnyLink::Tcp(_) | AnyLink::Ofi(_));
        let (link, waiter) = (Arc::new(Mutex::new(link)), Waiter::new());
        if is_silent_between_calls {
            keep_alive(&link, waiter, settings.heartbeat / 2);
        }
        let patience = settings.deadline;
        let regions_max = match address {
            Address::Tcp(_) => settings.tcp().regions_max,
            Address::Ofi(_) => settings.ofi().regions_max,
            Address::Path(_) | Address::Abstract(_) => settings.shm().regions_max,
        };
        Ok(Self { peer, link_name, link, waiter, patience, next_tag: 1, buffer: None, regions_max })
    }

    /// The same client, waiting for `patience` at most in every call.
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Who is at the other end.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Which kind of link this is.
    pub fn link_name(&self) -> &'static str {
        self.link_name
    }

    /// Asks a question and waits for its answer. A no is an error.
    pub fn ask(&mut self, question: &Question) -> Result<ControlAnswer, AskError> {
        self.ask_within(question, self.patience)
    }

    /// The same, for an answer that may take longer than the client's usual patience.
    pub fn ask_within(&mut self, question: &Question, patience: Duration) -> Result<ControlAnswer, AskError> {
        let mut payload = Vec::new();
        question.encode(&mut payload);
        let (kind, bytes) = self.exchange(FrameHead::new(question.kind()), &payload, patience)?;
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
        let head = FrameHead::new(Kind::new(Room::Trial, 0));
        let (_, bytes) = self.exchange(head, payload, self.patience)?;
        let took = began.elapsed();
        if bytes == payload { Ok(took) } else { Err(AskError::Unexpected { daemon: self.peer().clone() }) }
    }

    /// Sends a frame of any kind and waits for the one that answers it.
    pub(crate) fn exchange_frame(
        &mut self,
        head: FrameHead,
        payload: &[u8],
    ) -> Result<(Kind, Vec<u8>), AskError> {
        self.exchange(head, payload, self.patience)
    }

    fn exchange(
        &mut self,
        head: FrameHead,
        payload: &[u8],
        patience: Duration,
    ) -> Result<(Kind, Vec<u8>), AskError> {
        let tag = self.next_tag;
        self.next_tag = self.next_tag.wrapping_add(1);
        let waiter = self.waiter;
        let head = head.with_tag(tag);
        on_link!(&mut *lock(&self.link), link => exchange(link.as_mut(), waiter, patience, head, payload))
    }

    /// Opens a region that the daemon exports.
    pub fn open(&mut self, grant: &Grant, rights: Rights) -> Result<OpenRegion, AskError> {
        let outcome = self.operate("a region to open", |link, token| match link {
            AnyLink::Shm(link) => link.open(grant, rights, token),
            AnyLink::Tcp(link) => link.open(grant, rights, token),
            AnyLink::Ofi(link) => link.open(grant, rights, token),
        });
        let daemon = self.peer().clone();
        match outcome {
            Ok(Outcome::Opened(region)) => Ok(region),
            Ok(_) => Err(AskError::Unexpected { daemon }),
            // Nothing else is under way on this link, so it is regions that there is no room for.
            Err(AskError::Access(AccessError::Full | AccessError::Busy)) => {
                Err(AskError::TooManyRegions { daemon, most: self.regions_max })
            }
            Err(error) => Err(error),
        }
    }

    /// Gives an open region back.
    pub fn close_region(&mut self, region: OpenRegion) {
        on_link!(&mut *lock(&self.link), link => link.close_region(region));
    }

    /// Reads bytes of an open region.
    pub fn read(&mut self, region: OpenRegion, offset: u64, into: &mut [u8]) -> Result<(), AskError> {
        let buffer = self.buffer()?;
        let mut offset = offset;
        for piece in into.chunks_mut(PIECE) {
            self.operate("a read", |link, token| {
                on_link!(link, link => link.read(region, offset, &buffer, 0, piece.len(), token))
            })?;
            buffer.window().read(0, piece);
            offset += piece.len() as u64;
        }
        Ok(())
    }

    /// Writes bytes of an open region; they are visible there when the call returns.
    pub fn write(&mut self, region: OpenRegion, offset: u64, from: &[u8]) -> Result<(), AskError> {
        let mut offset = offset;
        for piece in from.chunks(PIECE) {
            self.operate(
                "a write",
                |link, token| on_link!(link, link => link.write(region, offset, Window::from(piece), token)),
            )?;
            offset += piece.len() as u64;
        }
        Ok(())
    }

    /// Adds to a word of an open region and returns what it held before.
    pub fn fetch_add(&mut self, region: OpenRegion, offset: u64, addend: u64) -> Result<u64, AskError> {
        let outcome = self.operate(
            "a fetch-add",
            |link, token| on_link!(link, link => link.fetch_add(region, offset, addend, token)),
        )?;
        match outcome {
            Outcome::Old(old) => Ok(old),
            _ => Err(AskError::Unexpected { daemon: self.peer().clone() }),
        }
    }

    /// Reads a whole region that the daemon exports to whoever holds its grant.
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

    /// Begins one operation and waits for its end.
    fn operate(
        &mut self,
        awaited: &'static str,
        begin: impl FnOnce(&mut AnyLink, Token) -> Result<(), AccessError>,
    ) -> Result<Outcome, AskError> {
        let token = Token(u64::from(self.next_tag));
        self.next_tag = self.next_tag.wrapping_add(1);
        begin(&mut lock(&self.link), token)?;
        let (waiter, patience) = (self.waiter, self.patience);
        let completion = on_link!(&mut *lock(&self.link), link => complete(link.as_mut(), waiter, patience, awaited, token))?;
        Ok(completion.result?)
    }

    /// Says goodbye with a reason. A client that is dropped says that it is done.
    pub fn close(self, reason: &str) {
        on_link!(&mut *lock(&self.link), link => link.close(reason));
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        on_link!(&mut *lock(&self.link), link => link.close("done"));
    }
}

fn lock(link: &Mutex<AnyLink>) -> MutexGuard<'_, AnyLink> {
    link.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The shortest pause between two signs of life.
const SIGN_OF_LIFE_MIN: Duration = Duration::from_millis(1);

/// Lets the link show that it lives while the application computes and makes no calls. Ends with the client.
fn keep_alive(link: &Arc<Mutex<AnyLink>>, waiter: Waiter, pause: Duration) {
    let link = Arc::downgrade(link);
    let beat = move || {
        while let Some(link) = link.upgrade() {
            let mut pause = pause;
            // Whoever holds the lock is in a call, and that shows that we live.
            if let Ok(mut link) = link.try_lock() {
                let now = waiter.clock.now();
                // The next call reports a loss.
                let _ = on_link!(&mut *link, link => link.progress(now));
                // The daemon's settings may want signs of life more often than ours.
                let due = on_link!(&*link, link => link.next_deadline());
                pause = due.map_or(pause, |due| due.since(now).min(pause).max(SIGN_OF_LIFE_MIN));
            }
            drop(link);
            std::thread::park_timeout(pause);
        }
    };
    // Without the thread the application must not be silent for as long as the deadline; it still works.
    if let Err(error) = std::thread::Builder::new().name("outboard-alive".to_owned()).spawn(beat) {
        tracing::warn!("no thread to keep links alive: {error}");
    }
}

fn exchange<L: Link>(
    link: &mut L,
    waiter: Waiter,
    patience: Duration,
    head: FrameHead,
    payload: &[u8],
) -> Result<(Kind, Vec<u8>), AskError> {
    waiter.until(link, patience, "room for a question", |link| match link.send(head, payload) {
        Ok(()) => Ok(Some(Ok(()))),
        Err(SendError::Full) => Ok(None),
        Err(SendError::Lost(error)) => Err(error),
        Err(SendError::TooLong { len, max }) => Ok(Some(Err(AccessError::TooLong { len, max }))),
    })??;
    link.flush()?;
    let mut answer = None;
    let arrived = waiter.until(link, patience, "an answer", |link| {
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

fn complete<L: Link + RemoteMemory>(
    link: &mut L,
    waiter: Waiter,
    patience: Duration,
    awaited: &'static str,
    token: Token,
) -> Result<Completion, LinkError> {
    // Where the peer's memory is mapped an operation ends without the peer, and would also after its death.
    link.progress(waiter.clock.now())?;
    link.flush()?;
    waiter.until(link, patience, awaited, |link| {
        let mut found = None;
        link.completions(|completion| {
            if completion.token == token {
                found = Some(completion);
            }
        });
        Ok(found)
    })
}
