//! The application's half: a writer that goes on as its links let it.
//!
//! It has no link of its own. Its owner hands it the link to the memory server, and where an agent drains, the link to the
//! agent; passes on what arrives by each; and in every turn lets it [conclude](Initiator::conclude) and send.

mod beginning;
mod draining_by;
mod slot;

use std::time::Duration;

use outboard_contract::{
    AccessError, AccessOutcome, Completion, Disposition, Frame, FrameSendError, Link, LinkError, Loss,
    OneSided, Peer, RemoteMemory, Token, Violation,
};
use outboard_wire::writing::{
    ATTACH, BATCH, Batch, DRAINED, Drained, LEAVE, Leave, PRESENT, REFUSED, WriterId,
};
use outboard_wire::{DecodeError, FrameHead, Grant, Rights, Time};

use crate::{
    EndedWrite, NotYet, PolicyExplanation, WriteFault, WriteId, WritePath, WriteSequencer, WriterConfig,
    WriterStats,
};
use slot::{Slot, fault_of};

/// The name of an opening; those of writes have their place in the lower half.
const OPENING: Token = Token(u64::MAX);
/// The name of writes that were over when they were begun and of which nothing is remembered.
const PASSED: Token = Token(u64::MAX - 1);

/// How long a writer that the server has no room for waits before it asks once more.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// How long an agent that drains is awaited by default.
const RELAY_PATIENCE: Duration = Duration::from_secs(2);

/// Why a write did not begin. Nothing was done.
#[derive(Clone, Debug)]
pub enum BeginError {
    /// It can later: make a turn, and try again.
    NotYet(NotYet),
    /// It never can.
    Access(AccessError),
}

/// A write that has ended.
#[derive(Clone, Debug)]
pub struct Completed {
    /// Which.
    pub id: WriteId,
    /// By which path it went.
    pub path: WritePath,
    /// Visible at the target, or why not.
    pub result: Result<(), AccessError>,
}

/// A writer between its links to the memory server and perhaps to an agent that drains.
pub struct Initiator {
    writer: WriteSequencer,
    identity: WriterId,
    /// Draws a name that no process can guess.
    draw: Box<dyn FnMut() -> WriterId + Send>,
    server: Peer,
    slots: Vec<Option<Slot>>,
    longest: usize,
    is_mapped: bool,
    /// Whether writes end at once and the link keeps their completions for a while.
    lets_pass: bool,
    /// Whether an agent drains.
    has_relay: bool,
    /// Whether that agent has settled a write.
    has_relay_answered: bool,
    relay_patience: Duration,
    /// Since when the agent has been awaited.
    awaited_since: Option<Time>,
    /// Whether the latest attachment and all regions have been sent: they go before any batch.
    is_introduced: bool,
    /// What the server is to hear of a name that is not used any more.
    leaving: Option<Leave>,
    lost: Option<LinkError>,
    unheard: u32,
    /// The number of the write before which the initiator looks at the link, if it has not done so earlier.
    look_at: u64,
    /// When a stranded writer may attach again.
    attach_after: Time,
    /// The region that is being opened, and how that ended.
    opening: Option<(Grant, Rights)>,
    opened: Option<Result<AccessOutcome, AccessError>>,
    server_said: Said,
    relay_said: Said,
    now: Time,
}

/// What one end has said since the last conclusion.
#[derive(Default)]
pub(super) struct Said {
    answers: Vec<Drained>,
    refused: bool,
    unreadable: Option<DecodeError>,
}

impl Said {
    /// Takes a frame. What is said to another writer, or to an earlier attempt of this one, does not matter any more.
    fn take(&mut self, frame: &Frame<'_>, identity: WriterId, attempt: u32) -> Disposition {
        match frame.head.kind {
            DRAINED => match Drained::decode(&frame.payload.to_vec()) {
                Ok(drained) if drained.writer == identity => self.answers.push(drained),
                Ok(_) => {}
                Err(error) => self.unreadable = Some(error),
            },
            REFUSED => match Leave::decode(&frame.payload.to_vec()) {
                // An agent that has never heard of the writer knows no attempt.
                Ok(Leave { writer, attempt: to }) if writer == identity => {
                    self.refused |= to == attempt || to == 0
                }
                Ok(_) => {}
                Err(error) => self.unreadable = Some(error),
            },
            _ => {}
        }
        Disposition::Taken
    }
}

impl Initiator {
    /// A writer whose unloaded writes go by an agent if it `has_relay`, and otherwise by `link`, the one to the server. `draw`
    /// draws names that no process can guess.
    pub fn new<L: Link>(
        link: &L,
        has_relay: bool,
        mut draw: impl FnMut() -> WriterId + Send + 'static,
        config: WriterConfig,
        now: Time,
    ) -> Self {
        let (server, capabilities) = (link.peer().clone(), *link.capabilities());
        let fits = capabilities.max_payload.min(capabilities.max_access).saturating_sub(Batch::LEN + 32);
        let ring_bytes = config.ring_bytes.min(2 * fits);
        let batch_bytes = config.batch_bytes.min(fits);
        let identity = draw();
        let mut writer =
            WriteSequencer::new(identity, WriterConfig { ring_bytes, batch_bytes, ..config }, now);
        writer.attach(server.incarnation());
        let is_mapped = capabilities.one_sided == OneSided::Mapped;
        Self {
            longest: writer.longest(),
            is_mapped,
            lets_pass: is_mapped && capabilities.max_operations as u64 >= 4 * beginning::UNCOLLECTED_MAX,
            writer,
            identity,
            draw: Box::new(draw),
            server,
            slots: Vec::new(),
            has_relay,
            has_relay_answered: false,
            relay_patience: RELAY_PATIENCE,
            awaited_since: None,
            is_introduced: false,
            leaving: None,
            lost: None,
            unheard: 0,
            look_at: 0,
            attach_after: now,
            opening: None,
            opened: None,
            server_said: Said::default(),
            relay_said: Said::default(),
            now,
        }
    }

    /// A one-sided operation on the server's link has ended.
    #[inline]
    pub fn on_completion(&mut self, completion: Completion) {
        match completion.token {
            OPENING => self.opened = Some(completion.result),
            PASSED => {}
            token => {
                let result = completion.result.map(drop).map_err(|error| fault_of(&error));
                self.writer.offloaded(self.now, token.0, result);
            }
        }
    }

    /// Takes what the server's link has completed.
    #[inline]
    pub fn collect<L: RemoteMemory>(&mut self, link: &mut L) {
        link.completions(|completion| self.on_completion(completion));
    }

    /// The server has said something.
    pub fn on_server_frame(&mut self, frame: &Frame<'_>) -> Disposition {
        self.server_said.take(frame, self.identity, self.writer.attempt())
    }

    /// The agent that drains has said something.
    pub fn on_relay_frame(&mut self, frame: &Frame<'_>) -> Disposition {
        self.relay_said.take(frame, self.identity, self.writer.attempt())
    }

    /// Acts on what was said, and on what was not said for too long.
    ///
    /// # Errors
    /// If the server breaks the protocol: it is not to be talked to any more.
    pub fn conclude(&mut self, now: Time) -> Result<(), LinkError> {
        self.now = now;
        self.look_at = self.writer.next_id().0 + beginning::UNLOOKED_MAX;
        let server = std::mem::take(&mut self.server_said);
        self.hear_server(server)?;
        let relay = std::mem::take(&mut self.relay_said);
        let is_silent = self.is_relay_silent(!relay.answers.is_empty());
        // What cannot be true comes from an agent that is not to be believed at all.
        let is_true = relay.answers.iter().all(|answer| self.writer.drained(now, answer).is_ok());
        if relay.refused || relay.unreadable.is_some() || is_silent || !is_true {
            self.relay_lost();
        } else {
            self.has_relay_answered |= !relay.answers.is_empty();
        }
        Ok(())
    }

    fn hear_server(&mut self, said: Said) -> Result<(), LinkError> {
        if let Some(error) = said.unreadable {
            return Err(self.broke(error));
        }
        for answer in said.answers {
            if self.writer.drained(self.now, &answer).is_ok() {
                continue;
            }
            if self.writer.is_attached() {
                let what = "number of writes that are settled";
                return Err(self.broke(DecodeError::BadValue { what, value: answer.through }));
            }
            // It has forgotten the writer, and knows another one by its name now.
            self.strand(Duration::ZERO);
        }
        if said.refused {
            self.strand(ASK_AGAIN);
        }
        Ok(())
    }

    fn broke(&self, error: DecodeError) -> LinkError {
        LinkError { peer: self.server.clone(), loss: Loss::Broke(Violation::Nonsense(error)) }
    }

    /// Sends to the server what is for it, as far as there is room. Returns whether anything was sent.
    pub fn send_to_server<L: Link + RemoteMemory>(&mut self, link: &mut L) -> Result<bool, LinkError> {
        let moved = self.go_ashore(link);
        if self.has_relay {
            return Ok(moved);
        }
        match self.send(link) {
            Ok(sent) => Ok(moved | sent),
            Err(FrameSendError::Lost(error)) => Err(error),
            // The ring is no longer than what the link carries.
            Err(FrameSendError::Full | FrameSendError::TooLong { .. }) => Ok(moved),
        }
    }

    /// Sends to the agent what is for it, as far as there is room. Returns whether anything was sent.
    pub fn send_to_relay<R: Link>(&mut self, link: &mut R) -> bool {
        if !self.has_relay {
            return false;
        }
        self.send(link).unwrap_or_else(|error| {
            if !matches!(error, FrameSendError::Full) {
                self.relay_lost();
            }
            false
        })
    }

    /// Introduces the writer if that is due, and sends batches.
    fn send<K: Link>(&mut self, link: &mut K) -> Result<bool, FrameSendError> {
        if let Some(leave) = self.leaving.take() {
            // Without room for it the server forgets the old name later, when it needs the place.
            let _ = send(link, FrameHead::new(LEAVE), &[&leave.encode()]);
        }
        let mut sent = false;
        // A stranded writer waits before it attaches again, under another name and with all regions that it has then.
        if !self.is_introduced && !self.writer.is_stranded() {
            self.introduce(link)?;
            (self.is_introduced, sent) = (true, true);
        }
        while let Some(batch) = self.writer.next_batch() {
            let head = batch.head.encode();
            send(link, FrameHead::new(BATCH), &[&head, self.writer.entries(&batch)])?;
            self.writer.batch_sent(&batch);
            sent = true;
        }
        Ok(sent)
    }

    /// Attaches and presents all regions; sent twice it does no harm.
    fn introduce<K: Link>(&self, link: &mut K) -> Result<(), FrameSendError> {
        let attach = self.writer.attachment(self.server.incarnation());
        send(link, FrameHead::new(ATTACH), &[&attach.encode()])?;
        for (at, slot) in self.slots.iter().enumerate() {
            if let Some(slot) = slot {
                let present = slot.present(self.identity, attach.attempt, at as u32);
                send(link, FrameHead::new(PRESENT), &[&present.encode()])?;
            }
        }
        Ok(())
    }

    /// The server is gone for good. What its link had completed before has been told.
    pub fn server_lost(&mut self, error: LinkError) {
        self.lost = Some(error);
        self.writer.lost(self.now);
        if self.is_mapped {
            // They ended without a word of the server.
            self.writer.doubt_offloaded();
        }
    }

    /// The next write that has ended and is to be told.
    #[inline]
    pub fn next_completed(&mut self) -> Option<Completed> {
        let EndedWrite { id, span, path, result } = self.writer.next_ended()?;
        let result = result.map_err(|fault| match (fault, &self.lost) {
            (WriteFault::Lost, Some(lost)) => AccessError::Lost(lost.clone()),
            (WriteFault::Refused(status), _) => match self.slots.get(span.slot as usize) {
                Some(Some(slot)) => slot.refusal(status, &span),
                _ => AccessError::NotOpen,
            },
            (WriteFault::Lost, None) => AccessError::Lost(self.forgotten()),
        });
        Some(Completed { id, path, result })
    }

    /// Why the writer cannot know what became of a write although the server is there.
    fn forgotten(&self) -> LinkError {
        let reason = "it has forgotten this writer, and what became of a write; the region is gone since";
        LinkError { peer: self.server.clone(), loss: Loss::GivenUp { reason: reason.to_owned() } }
    }

    /// How many completions may wait to be asked for before no other write begins.
    pub fn set_untold_max(&mut self, most: usize) {
        self.writer.set_untold_max(most);
    }

    /// How long an agent that drains may let the writer wait before the server is asked directly.
    pub fn set_relay_patience(&mut self, patience: Duration) {
        self.relay_patience = patience;
    }

    /// Writes from now on begin when all before have ended.
    pub fn fence(&mut self) {
        self.writer.fence();
    }

    /// The longest write, by either path, in bytes.
    pub fn longest(&self) -> usize {
        self.longest
    }

    /// Whether an agent drains.
    pub fn has_relay(&self) -> bool {
        self.has_relay
    }

    /// Whether the agent that drains has settled a write since it began to drain.
    pub fn has_relay_answered(&self) -> bool {
        self.has_relay_answered
    }

    /// Why the server is gone, if it is.
    pub fn lost(&self) -> Option<&LinkError> {
        self.lost.as_ref()
    }

    /// Whether nothing is under way.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.writer.is_idle()
    }

    /// Whether something is unloaded and not settled.
    pub fn has_unloaded(&self) -> bool {
        self.writer.has_unloaded()
    }

    /// Whether the server takes nothing that is unloaded at present.
    pub fn is_stranded(&self) -> bool {
        self.writer.is_stranded()
    }

    /// What was done so far.
    pub fn counts(&self) -> WriterStats {
        self.writer.counts()
    }

    /// How paths are chosen, and why.
    pub fn explain(&self, now: Time) -> PolicyExplanation {
        self.writer.policy().explain(now)
    }
}

/// Sends one frame that is made of parts, and lets the peer see it.
fn send<K: Link>(link: &mut K, head: FrameHead, parts: &[&[u8]]) -> Result<(), FrameSendError> {
    let len = parts.iter().map(|part| part.len()).sum();
    let mut window = link.reserve(head, len)?;
    let mut at = 0;
    for part in parts {
        window.write(at, part);
        at += part.len();
    }
    link.commit(len);
    link.flush()?;
    Ok(())
}
