//! A writer with its links.

use std::time::Duration;

use outboard_contract::Redial;
use outboard_link::{AccessError, Clock, Link, LinkError, Loss, Peer, RemoteMemory, Waiter};
use outboard_wire::{Grant, Time};
use outboard_writing::{BeginError, Initiator, Write, WriteId, WritePath, WriterConfig};

use super::{LinkedWriter, draw_identity};
use crate::{AgentFinder, Tend};

/// How many frames are taken in one turn.
const FRAMES_PER_TURN: usize = 64;
/// The reason that both links are given in the end.
const DONE: &str = "the writer is done";
/// The longest sleep while there are two links to listen to.
const NAP: Duration = Duration::from_millis(1);

/// A writer with a link `L` to the memory server and perhaps a link `A` to an agent that drains.
pub struct WriterLinks<L, A> {
    initiator: Initiator,
    link: L,
    agent: Option<A>,
    waiter: Waiter,
    /// How an agent that drains is found again.
    finder: Option<AgentFinder<A>>,
    redial: Redial,
}

impl<L: Link + RemoteMemory, A: Link> WriterLinks<L, A> {
    /// A writer over `link`, whose unloaded writes go by `agent` as long as that is there.
    pub fn new(link: L, agent: Option<A>, config: WriterConfig) -> Self {
        let waiter = Waiter::new();
        let initiator = Initiator::new(&link, agent.is_some(), draw_identity, config, waiter.clock.now());
        let mut links = Self { initiator, link, agent, waiter, finder: None, redial: Redial::default() };
        links.send();
        links
    }

    /// From now on an agent that is not there is looked for again and again.
    pub fn redial(&mut self, finder: AgentFinder<A>) {
        self.finder = Some(finder);
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
        if path == WritePath::Unload {
            self.send();
        } else if self.initiator.is_look_due() {
            self.turn();
        }
        Ok(id)
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
        } else if initiator.has_relay_answered() {
            self.redial.answered();
        }
        initiator.collect(link);
        self.send();
        Ok(moved | heard.unwrap_or(true))
    }

    /// Sends what is due, as far as there is room. An agent that does not drain is told so, and the log once for each loss.
    fn send(&mut self) {
        let Self { initiator, link, agent, .. } = self;
        if let Some(agent) = agent {
            initiator.send_to_relay(agent);
        }
        if !initiator.has_relay()
            && let Some(mut agent) = agent.take()
        {
            tracing::warn!("the memory server drains what is unloaded, in place of the {}", agent.peer());
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

    /// Has the agent dialled when it is time for that, and has it drain again when it is there.
    #[cold]
    fn look_for_agent(&mut self, now: Time) {
        self.redial.on_absent(now);
        let Some(finder) = self.finder.as_mut().filter(|_| self.redial.is_dialling()) else { return };
        match finder.dial() {
            None => {}
            Some(None) => self.redial.failed(now),
            Some(Some(agent)) => {
                tracing::info!("the {} drains what is unloaded", agent.peer());
                self.redial.found();
                self.agent = Some(agent);
                self.initiator.drain_by(true);
                self.send();
            }
        }
    }
}

impl<L: Link + RemoteMemory, A: Link> LinkedWriter for WriterLinks<L, A> {
    fn open(&mut self, grant: &Grant, patience: Duration) -> Result<u32, AccessError> {
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

    fn close_region(&mut self, slot: u32) {
        self.initiator.close_region(&mut self.link, slot);
    }

    fn turn(&mut self) -> bool {
        if self.initiator.lost().is_some() {
            return false;
        }
        let now = self.waiter.clock.now();
        let moved = self.listen(now).unwrap_or_else(|error| {
            self.lose(error);
            true
        });
        if self.agent.is_none() && self.finder.is_some() {
            self.look_for_agent(now);
        }
        moved
    }

    fn sleep(&mut self, limit: Time) -> Result<(), LinkError> {
        let limit = if self.agent.is_some() { limit.min(self.clock().now() + NAP) } else { limit };
        let limit = self.initiator.next_deadline().map_or(limit, |due| limit.min(due));
        self.waiter.sleep(&mut self.link, limit)
    }

    fn clock(&self) -> Clock {
        self.waiter.clock
    }

    fn initiator(&self) -> &Initiator {
        &self.initiator
    }

    fn initiator_mut(&mut self) -> &mut Initiator {
        &mut self.initiator
    }

    fn drained_by(&self) -> &Peer {
        self.agent.as_ref().map_or(self.link.peer(), Link::peer)
    }

    fn awaited(&self) -> &Peer {
        if self.initiator.has_unloaded() { self.drained_by() } else { self.link.peer() }
    }

    fn close(&mut self) {
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

impl<L: Link + RemoteMemory + Send + 'static, A: Link + Send + 'static> Tend for WriterLinks<L, A> {
    fn tend(&mut self) -> Option<Duration> {
        self.turn();
        // A lost link has nothing to show, and no time for it.
        let due = self.link.next_deadline().filter(|_| self.initiator.lost().is_none())?;
        Some(due.since(self.waiter.clock.now()))
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
