//! A writer with its links.

use std::time::Duration;

use outboard_link::{AccessError, Clock, Link, LinkError, Loss, Peer, RemoteMemory, Waiter};
use outboard_wire::{Grant, Time};
use outboard_writing::{BeginError, Initiator, Path, Write, WriteId, WriterConfig};

use super::draw_identity;

/// How many frames are taken in one turn.
const FRAMES_PER_TURN: usize = 64;
/// What both links are told in the end.
const DONE: &str = "the writer is done";
/// The longest sleep while there are two links to listen to.
const NAP: Duration = Duration::from_millis(1);

/// A writer with a link `L` to the memory server and perhaps a link `A` to an agent that drains.
pub struct WriterLinks<L, A> {
    initiator: Initiator,
    link: L,
    agent: Option<A>,
    waiter: Waiter,
}

impl<L: Link + RemoteMemory, A: Link> WriterLinks<L, A> {
    /// A writer over `link`, whose unloaded writes go by `agent` as long as that is there.
    pub fn new(link: L, agent: Option<A>, config: WriterConfig) -> Self {
        let waiter = Waiter::new();
        let initiator = Initiator::new(&link, agent.is_some(), draw_identity, config, waiter.clock.now());
        let mut links = Self { initiator, link, agent, waiter };
        links.send();
        links
    }

    /// Opens a region, to write as far as the grant allows it, and returns the slot that stands for it.
    pub fn open(&mut self, grant: &Grant, patience: Duration) -> Result<u32, AccessError> {
        self.initiator.open(&mut self.link, grant)?;
        let limit = self.clock().now() + patience;
        loop {
            self.turn();
            if let Some(opened) = self.initiator.opened(&mut self.link) {
                self.send();
                return opened;
            }
            if let Some(lost) = self.initiator.lost() {
                return Err(AccessError::Lost(lost.clone()));
            }
            if self.clock().now() >= limit {
                let loss = Loss::Stalled { silent: patience, awaited: "a region to open" };
                return Err(AccessError::Lost(LinkError { peer: self.link.peer().clone(), loss }));
            }
            self.sleep(limit)?;
        }
    }

    /// Gives a region back. Writes to it must have ended.
    pub fn close_region(&mut self, slot: u32) {
        self.initiator.close_region(&mut self.link, slot);
    }

    /// Begins a write.
    #[inline]
    pub fn begin(&mut self, write: &Write<'_>) -> Result<WriteId, BeginError> {
        if let Some((id, is_turn_due)) = self.initiator.begin_in_passing(&mut self.link, write) {
            if is_turn_due {
                self.turn();
            }
            return Ok(id);
        }
        // By value, so that it need not be in memory where it is not needed.
        self.begin_with_care(*write)
    }

    #[inline(never)]
    fn begin_with_care(&mut self, write: Write<'_>) -> Result<WriteId, BeginError> {
        if self.initiator.wants_turn() {
            self.turn();
        }
        let clock = self.waiter.clock;
        let (id, path) = self.initiator.begin(&mut self.link, &write, || clock.now())?;
        if path == Path::Unload {
            self.send();
        } else if self.initiator.is_look_due() {
            self.turn();
        }
        Ok(id)
    }

    /// Does what there is to do now. Returns whether anything moved.
    pub fn turn(&mut self) -> bool {
        if self.initiator.lost().is_some() {
            return false;
        }
        let now = self.clock().now();
        self.listen(now).unwrap_or_else(|error| {
            self.lose(error);
            true
        })
    }

    fn listen(&mut self, now: Time) -> Result<bool, LinkError> {
        let Self { initiator, link, agent, .. } = self;
        let mut moved = link.progress(now)?;
        moved |= link.receive(FRAMES_PER_TURN, |frame| initiator.on_server_frame(&frame))? > 0;
        let heard = match agent {
            Some(agent) => hear(agent, initiator, now),
            None => Ok(false),
        };
        link.flush()?;
        initiator.conclude(now)?;
        if heard.is_err() {
            initiator.relay_lost();
        }
        initiator.collect(link);
        self.send();
        Ok(moved | heard.unwrap_or(true))
    }

    /// Sends what is due, as far as there is room.
    fn send(&mut self) {
        let Self { initiator, link, agent, .. } = self;
        if let Some(agent) = agent {
            initiator.send_to_relay(agent);
        }
        if !initiator.has_relay()
            && let Some(mut agent) = agent.take()
        {
            agent.close(DONE);
        }
        if let Err(error) = initiator.send_to_server(link) {
            self.lose(error);
        }
    }

    fn lose(&mut self, error: LinkError) {
        self.initiator.collect(&mut self.link);
        self.initiator.server_lost(error);
    }

    /// Has unloaded writes go by another agent from now on.
    pub fn drain_by(&mut self, agent: A) {
        if let Some(mut former) = self.agent.replace(agent) {
            former.close(DONE);
        }
        self.initiator.drain_by(true);
        self.send();
    }

    /// Sleeps until there may be something to do, at most until `limit`.
    pub fn sleep(&mut self, limit: Time) -> Result<(), LinkError> {
        let limit = if self.agent.is_some() { limit.min(self.clock().now() + NAP) } else { limit };
        let limit = self.initiator.next_deadline().map_or(limit, |due| limit.min(due));
        self.waiter.sleep(&mut self.link, limit)
    }

    /// The clock that it goes by.
    pub fn clock(&self) -> Clock {
        self.waiter.clock
    }

    /// The protocol's state.
    #[inline]
    pub fn initiator(&self) -> &Initiator {
        &self.initiator
    }

    /// The same, to change it.
    #[inline]
    pub fn initiator_mut(&mut self) -> &mut Initiator {
        &mut self.initiator
    }

    /// Who drains what is unloaded at present: an agent, or the server itself.
    pub fn drained_by(&self) -> &Peer {
        self.agent.as_ref().map_or(self.link.peer(), Link::peer)
    }

    /// Who is awaited when something takes long.
    pub fn awaited(&self) -> &Peer {
        if self.initiator.has_unloaded() { self.drained_by() } else { self.link.peer() }
    }

    /// Says goodbye. Writes that are under way may be lost.
    pub fn close(&mut self) {
        match &mut self.agent {
            Some(agent) => self.initiator.leave(agent),
            None => self.initiator.leave(&mut self.link),
        }
        if let Some(mut agent) = self.agent.take() {
            agent.close(DONE);
        }
        self.link.close(DONE);
    }
}

/// Takes what an agent has said.
fn hear<K: Link>(link: &mut K, initiator: &mut Initiator, now: Time) -> Result<bool, LinkError> {
    let moved = link.progress(now)?;
    let taken = link.receive(FRAMES_PER_TURN, |frame| initiator.on_relay_frame(&frame))?;
    link.flush()?;
    Ok(moved | (taken > 0))
}

#[cfg(test)]
mod tests;
