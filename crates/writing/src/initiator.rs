//! The application's half: a writer that goes on as its links let it.
//!
//! It has no link of its own. Its owner hands it the link to the memory server, and where an agent drains, the link to the
//! agent; passes on what arrives by each; and in every turn lets it [conclude](Initiator::conclude) and send.

mod beginning;
mod hearing;
mod slot;

use std::time::Duration;

use outboard_contract::{
    AccessError, Completion, Link, LinkError, Loss, OneSided, Outcome, Peer, RemoteMemory, SendError, Token,
};
use outboard_wire::writing::{ATTACH, BATCH, Batch, LEAVE, Leave, PRESENT, SLOTS_MAX, WriterId};
use outboard_wire::{FrameHead, Grant, Rights, Time};

use crate::{Ended, Fault, NotYet, Path, PolicyExplanation, WriteId, Writer, WriterConfig, WriterCounts};
use hearing::Said;
use slot::{Slot, fault_of};

/// The name of an opening; those of writes have their place in the lower half.
const OPENING: Token = Token(u64::MAX);
/// The name of writes that were over when they were begun and of which nothing is remembered.
const PASSED: Token = Token(u64::MAX - 1);

/// How long an agent that drains is awaited, unless somebody says otherwise.
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
    pub path: Path,
    /// Visible at the target, or why not.
    pub result: Result<(), AccessError>,
}

/// A writer between its links to the memory server and perhaps to an agent that drains.
pub struct Initiator {
    writer: Writer,
    identity: WriterId,
    /// Draws a name that nobody can guess.
    draw: Box<dyn FnMut() -> WriterId + Send>,
    server: Peer,
    slots: Vec<Option<Slot>>,
    longest: usize,
    is_mapped: bool,
    /// Whether writes end at once and the link keeps their completions for a while.
    lets_pass: bool,
    /// Whether an agent drains.
    has_relay: bool,
    relay_patience: Duration,
    /// Since when the agent has been awaited.
    awaited_since: Option<Time>,
    /// Whether the latest attachment and all regions have been sent: they go before any batch.
    is_introduced: bool,
    /// What the server is to hear of a name that is not used any more.
    leaving: Option<Leave>,
    lost: Option<LinkError>,
    unheard: u32,
    /// The number of the write before which the link is looked at, if nobody does earlier.
    look_at: u64,
    /// When a stranded writer may attach again.
    attach_after: Time,
    /// The region that is being opened, and how that ended.
    opening: Option<(Grant, Rights)>,
    opened: Option<Result<Outcome, AccessError>>,
    server_said: Said,
    relay_said: Said,
    now: Time,
}

impl Initiator {
    /// A writer whose unloaded writes go by an agent if it `has_relay`, and otherwise by `link`, the one to the server. `draw`
    /// draws names that nobody can guess.
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
        let mut writer = Writer::new(identity, WriterConfig { ring_bytes, batch_bytes, ..config }, now);
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

    /// Asks the server for a region, to write as far as the grant allows it. [`opened`](Self::opened) tells what came of it.
    pub fn open<L: RemoteMemory>(&mut self, link: &mut L, grant: &Grant) -> Result<(), AccessError> {
        let wanted = if self.is_mapped { Rights::READ.and(Rights::WRITE) } else { Rights::WRITE };
        let rights = if grant.rights.includes(wanted) { wanted } else { Rights::READ };
        self.opened = None;
        link.open(grant, rights, OPENING)?;
        self.opening = Some((*grant, rights));
        Ok(())
    }

    /// The slot that stands for the region that was asked for, or why there is none. Nothing while the server has not answered.
    pub fn opened<L: RemoteMemory>(&mut self, link: &mut L) -> Option<Result<u32, AccessError>> {
        let outcome = self.opened.take()?;
        let (grant, rights) = self.opening.take()?;
        Some(outcome.and_then(|outcome| {
            let Outcome::Opened(open) = outcome else { return Err(AccessError::NotOpen) };
            let free = self.slots.iter().position(Option::is_none).unwrap_or(self.slots.len());
            if free >= SLOTS_MAX as usize {
                link.close_region(open);
                return Err(AccessError::Busy);
            }
            if free == self.slots.len() {
                self.slots.push(None);
            }
            self.slots[free] = Some(Slot { open, grant, rights });
            // Regions are presented with an attachment; one that comes later needs a word of its own.
            self.is_introduced = false;
            Ok(free as u32)
        }))
    }

    /// Gives a region back. Writes to it must have ended.
    pub fn close_region<L: RemoteMemory>(&mut self, link: &mut L, slot: u32) {
        if let Some(slot) = self.slots.get_mut(slot as usize).and_then(Option::take) {
            link.close_region(slot.open);
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

    /// Sends to the server what is for it, as far as there is room. Returns whether anything was sent.
    pub fn send_to_server<L: Link + RemoteMemory>(&mut self, link: &mut L) -> Result<bool, LinkError> {
        let moved = self.go_ashore(link);
        if self.has_relay {
            return Ok(moved);
        }
        match self.send(link) {
            Ok(sent) => Ok(moved | sent),
            Err(SendError::Lost(error)) => Err(error),
            // The ring is no longer than what the link carries.
            Err(SendError::Full | SendError::TooLong { .. }) => Ok(moved),
        }
    }

    /// Sends to the agent what is for it, as far as there is room. Returns whether anything was sent.
    pub fn send_to_relay<R: Link>(&mut self, link: &mut R) -> bool {
        if !self.has_relay {
            return false;
        }
        self.send(link).unwrap_or_else(|error| {
            if !matches!(error, SendError::Full) {
                self.relay_lost();
            }
            false
        })
    }

    /// Introduces the writer if that is due, and sends batches.
    fn send<K: Link>(&mut self, link: &mut K) -> Result<bool, SendError> {
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
    fn introduce<K: Link>(&self, link: &mut K) -> Result<(), SendError> {
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

    /// Tells whoever drains that the writer is done, if it is.
    pub fn leave<K: Link>(&self, link: &mut K) {
        if self.lost.is_none() && self.writer.is_idle() {
            let leave = Leave { writer: self.identity, attempt: self.writer.attempt() };
            // A server that does not hear it forgets the writer later.
            let _ = send(link, FrameHead::new(LEAVE), &[&leave.encode()]);
        }
    }

    /// The next write that has ended and is to be told.
    #[inline]
    pub fn next_completed(&mut self) -> Option<Completed> {
        let Ended { id, span, path, result } = self.writer.next_ended()?;
        let result = result.map_err(|fault| match (fault, &self.lost) {
            (Fault::Lost, Some(lost)) => AccessError::Lost(lost.clone()),
            (Fault::Refused(status), _) => match self.slots.get(span.slot as usize) {
                Some(Some(slot)) => slot.refusal(status, &span),
                _ => AccessError::NotOpen,
            },
            (Fault::Lost, None) => AccessError::Lost(self.forgotten()),
        });
        Some(Completed { id, path, result })
    }

    /// Why nobody knows what became of a write although the server is there.
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
    pub fn counts(&self) -> WriterCounts {
        self.writer.counts()
    }

    /// How paths are chosen, and why.
    pub fn explain(&self, now: Time) -> PolicyExplanation {
        self.writer.policy().explain(now)
    }
}

/// Sends one frame that is made of parts, and lets the peer see it.
fn send<K: Link>(link: &mut K, head: FrameHead, parts: &[&[u8]]) -> Result<(), SendError> {
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
