//! A writer with its links.

mod beginning;
mod hearing;

use std::time::Duration;

use outboard_link::{
    AccessError, Clock, Completion, Link, LinkError, Loss, OneSided, Outcome, RemoteMemory, SendError, Token,
    Waiter,
};
use outboard_wire::writing::{BATCH, Batch, LEAVE, Leave, PRESENT, WriterId};
use outboard_wire::{FrameHead, Grant, Rights, Time, writing};
use outboard_writing::{
    Ended, Fault, NotYet, Path, PolicyExplanation, WriteId, Writer, WriterConfig, WriterCounts,
};

use super::regions::{Slot, fault_of};
use super::relay::{Relay, send};

/// The name of an opening; those of writes have their place in the lower half.
const OPENING: Token = Token(u64::MAX);
/// The name of writes that were over when they were begun and of which nothing is remembered.
const PASSED: Token = Token(u64::MAX - 1);
/// How many frames are taken in one turn.
const FRAMES_PER_TURN: usize = 64;
/// The longest sleep while there are two links to listen to.
const NAP: Duration = Duration::from_millis(1);

/// How long whoever passes on is awaited, unless somebody says otherwise.
const RELAY_PATIENCE: Duration = Duration::from_secs(2);

/// Why a write did not begin. Nothing was done.
#[derive(Clone, Debug)]
pub enum BeginError {
    /// It can later: make [a turn](Initiator::turn), and try again.
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

/// A writer with a link to the memory server and perhaps one to an agent that drains.
pub struct Initiator<L> {
    link: L,
    relay: Option<Relay>,
    writer: Writer,
    identity: WriterId,
    slots: Vec<Option<Slot>>,
    waiter: Waiter,
    now: Time,
    longest: usize,
    is_mapped: bool,
    /// Whether writes end at once and the link keeps their completions for a while.
    lets_pass: bool,
    /// Messages that have to go before any batch: they did not fit before.
    is_introduced: bool,
    lost: Option<LinkError>,
    unheard: u32,
    /// The number of the write before which the link is looked at, if nobody does earlier.
    look_at: u64,
    /// Since when whoever passes on has been awaited.
    awaited_since: Option<Time>,
    relay_patience: Duration,
    /// When a stranded writer may attach again.
    attach_after: Time,
    /// How the latest opening ended.
    opened: Option<Result<Outcome, AccessError>>,
}

impl<L: Link + RemoteMemory> Initiator<L> {
    /// A writer over `link`, whose unloaded writes go by `relay` as long as that is there.
    pub fn new(link: L, relay: Option<Relay>, identity: WriterId, config: WriterConfig) -> Self {
        let capabilities = *link.capabilities();
        let waiter = Waiter::new();
        let now = waiter.clock.now();
        let fits = capabilities.max_payload.min(capabilities.max_access).saturating_sub(Batch::LEN + 32);
        let ring_bytes = config.ring_bytes.min(2 * fits);
        let batch_bytes = config.batch_bytes.min(fits);
        let writer = Writer::new(identity, WriterConfig { ring_bytes, batch_bytes, ..config }, now);
        let mut initiator = Self {
            longest: writer.longest(),
            is_mapped: capabilities.one_sided == OneSided::Mapped,
            lets_pass: capabilities.one_sided == OneSided::Mapped
                && capabilities.max_operations as u64 >= 4 * beginning::UNCOLLECTED_MAX,
            link,
            relay,
            writer,
            identity,
            slots: Vec::new(),
            waiter,
            now,
            is_introduced: false,
            lost: None,
            unheard: 0,
            look_at: 0,
            awaited_since: None,
            relay_patience: RELAY_PATIENCE,
            attach_after: now,
            opened: None,
        };
        initiator.writer.attach(initiator.link.peer().incarnation());
        initiator.send();
        initiator
    }

    /// Opens a region, to write as far as the grant allows it, and returns the slot that stands for it.
    pub fn open(&mut self, grant: &Grant, patience: Duration) -> Result<u32, AccessError> {
        let wanted = if self.is_mapped { Rights::READ.and(Rights::WRITE) } else { Rights::WRITE };
        let rights = if grant.rights.includes(wanted) { wanted } else { Rights::READ };
        self.opened = None;
        self.link.open(grant, rights, OPENING)?;
        let limit = self.clock().now() + patience;
        let opened = loop {
            self.turn();
            if let Some(opened) = self.opened.take() {
                break opened?;
            }
            if let Some(lost) = &self.lost {
                return Err(AccessError::Lost(lost.clone()));
            }
            if self.clock().now() >= limit {
                let loss = Loss::Stalled { silent: patience, awaited: "a region to open" };
                return Err(AccessError::Lost(LinkError { peer: self.link.peer().clone(), loss }));
            }
            self.sleep(limit)?;
        };
        let Outcome::Opened(open) = opened else { return Err(AccessError::NotOpen) };
        let free = self.slots.iter().position(Option::is_none).unwrap_or(self.slots.len());
        if free >= writing::SLOTS_MAX as usize {
            self.link.close_region(open);
            return Err(AccessError::Busy);
        }
        if free == self.slots.len() {
            self.slots.push(None);
        }
        self.slots[free] = Some(Slot { open, grant: *grant, rights });
        // Regions are presented with an attachment; one that comes later needs a word of its own.
        self.is_introduced = false;
        self.send();
        Ok(free as u32)
    }

    /// Gives a region back. Writes to it must have ended.
    pub fn close_region(&mut self, slot: u32) {
        if let Some(slot) = self.slots.get_mut(slot as usize).and_then(Option::take) {
            self.link.close_region(slot.open);
        }
    }

    /// The longest write, by either path, in bytes.
    pub fn longest(&self) -> usize {
        self.longest
    }

    /// Takes what the link has completed.
    #[inline]
    fn collect(&mut self) {
        let Self { link, writer, opened, now, .. } = self;
        link.completions(|completion| match completion.token {
            OPENING => *opened = Some(completion.result),
            PASSED => {}
            _ => end(writer, *now, &completion),
        });
    }

    /// Does what there is to do now. Returns whether anything moved.
    pub fn turn(&mut self) -> bool {
        if self.lost.is_some() {
            return false;
        }
        self.now = self.waiter.clock.now();
        self.look_at = self.writer.next_id().0 + beginning::UNLOOKED_MAX;
        match self.listen() {
            Ok(moved) => {
                self.collect();
                self.send();
                moved
            }
            Err(error) => {
                self.lose(error);
                true
            }
        }
    }

    /// Has unloaded writes go by another agent from now on, or by the server's own link.
    pub fn drain_by(&mut self, relay: Option<Relay>) {
        if let Some(mut former) = std::mem::replace(&mut self.relay, relay) {
            former.close();
        }
        self.awaited_since = None;
        self.attach();
    }

    /// Sends what is due, as far as there is room.
    fn send(&mut self) {
        match self.try_send() {
            Ok(()) | Err(SendError::Full) => {}
            Err(_) if self.relay.is_some() => self.drainer_gone(),
            Err(SendError::Lost(error)) => self.lose(error),
            // The ring is no longer than what the link carries.
            Err(SendError::TooLong { .. }) => {}
        }
    }

    fn try_send(&mut self) -> Result<(), SendError> {
        // A stranded writer waits before it attaches again, under another name and with all regions that it has then.
        if !self.is_introduced && !self.writer.is_stranded() {
            self.introduce()?;
            self.is_introduced = true;
        }
        while let Some(batch) = self.writer.next_batch() {
            let head = batch.head.encode();
            let parts = [head.as_slice(), self.writer.entries(&batch)];
            match &mut self.relay {
                Some(relay) => relay.send(FrameHead::new(BATCH), &parts)?,
                None => send(&mut self.link, FrameHead::new(BATCH), &parts)?,
            }
            self.writer.batch_sent(&batch);
        }
        Ok(())
    }

    /// Attaches and presents all regions; sent twice it does no harm.
    fn introduce(&mut self) -> Result<(), SendError> {
        let attempt = self.writer.attempt();
        let attach = self.writer.attachment(self.link.peer().incarnation()).encode();
        let presents = self.slots.iter().enumerate().filter_map(|(at, slot)| {
            slot.as_ref().map(|slot| slot.present(self.identity, attempt, at as u32).encode())
        });
        let mut frames = vec![(FrameHead::new(writing::ATTACH), attach.to_vec())];
        frames.extend(presents.map(|present| (FrameHead::new(PRESENT), present.to_vec())));
        for (head, payload) in frames {
            match &mut self.relay {
                Some(relay) => relay.send(head, &[&payload])?,
                None => send(&mut self.link, head, &[&payload])?,
            }
        }
        Ok(())
    }

    fn lose(&mut self, error: LinkError) {
        self.lost = Some(error);
        let Self { link, writer, now, .. } = self;
        link.completions(|completion| end(writer, *now, &completion));
        self.writer.lost(self.now);
        if self.is_mapped {
            // They ended without a word of the server.
            self.writer.doubt_offloaded();
        }
    }

    /// How many completions may wait to be asked for before no other write begins.
    pub fn set_untold_max(&mut self, most: usize) {
        self.writer.set_untold_max(most);
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
            (Fault::Lost, None) => AccessError::NotOpen,
        });
        Some(Completed { id, path, result })
    }

    /// Sleeps until there may be something to do, at most until `limit`.
    pub fn sleep(&mut self, limit: Time) -> Result<(), LinkError> {
        let limit = if self.relay.is_some() { limit.min(self.clock().now() + NAP) } else { limit };
        let limit = self.due().map_or(limit, |due| limit.min(due));
        self.waiter.sleep(&mut self.link, limit)
    }

    /// The clock that it goes by.
    pub fn clock(&self) -> Clock {
        self.waiter.clock
    }

    /// What the link is, for those who ask who is at its other end.
    pub fn link(&self) -> &L {
        &self.link
    }

    /// By whom unloaded writes are drained at present, if not by the server itself.
    pub fn relay(&self) -> Option<&Relay> {
        self.relay.as_ref()
    }

    /// Why the server is gone, if it is.
    pub fn lost(&self) -> Option<&LinkError> {
        self.lost.as_ref()
    }

    /// Writes from now on begin when all before have ended.
    pub fn fence(&mut self) {
        self.writer.fence();
    }

    /// Whether nothing is under way.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.writer.is_idle()
    }

    /// What was done so far.
    pub fn counts(&self) -> WriterCounts {
        self.writer.counts()
    }

    /// How paths are chosen, and why.
    pub fn explain(&self) -> PolicyExplanation {
        self.writer.policy().explain(self.waiter.clock.now())
    }

    /// Says goodbye. Writes that are under way may be lost.
    pub fn close(&mut self) {
        if self.lost.is_none() && self.writer.is_idle() {
            let leave = Leave { writer: self.identity, attempt: self.writer.attempt() }.encode();
            // A server that does not hear it forgets the writer later.
            let _ = match &mut self.relay {
                Some(relay) => relay.send(FrameHead::new(LEAVE), &[&leave]),
                None => send(&mut self.link, FrameHead::new(LEAVE), &[&leave]),
            };
        }
        if let Some(relay) = &mut self.relay {
            relay.close();
        }
        self.link.close("the writer is done");
    }
}

/// Tells the writer of one completion.
#[inline]
fn end(writer: &mut Writer, now: Time, completion: &Completion) {
    let result = match &completion.result {
        Ok(_) => Ok(()),
        Err(error) => Err(fault_of(error)),
    };
    writer.offloaded(now, completion.token.0, result);
}

#[cfg(test)]
mod tests;
