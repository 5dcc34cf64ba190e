//! Until when there is nothing to do.

use std::time::Duration;

use outboard_link::{Link, LinkError, RemoteMemory, WaitOn, sleep_on};
use outboard_wire::Time;

use super::Dispatcher;
use super::prepare::LOOK_AGAIN;
use super::silence::Silence;

impl<L: Link + RemoteMemory + Send> Dispatcher<L> {
    /// Sleeps until there may be something to do, at most until `limit`.
    pub fn sleep(&mut self, limit: Time) -> Result<(), LinkError> {
        let limit = limit.since(self.waiter.clock.now());
        let Some(span) = self.prepare_to_sleep(limit) else { return Ok(()) };
        sleep_on(self.wait_on(), span)
            .map_err(|loss| LinkError { peer: self.server.link.peer().clone(), loss })
    }

    /// For how long to sleep on what [`wait_on`](Self::wait_on) names, at most for `limit`. Nothing, if there is something to
    /// do now.
    pub fn prepare_to_sleep(&mut self, limit: Duration) -> Option<Duration> {
        let queues = [self.again.is_empty(), self.moving.is_empty(), self.leaving.is_empty()];
        if !self.here.is_idle() || queues.contains(&false) {
            return None;
        }
        let now = self.waiter.clock.now();
        let prepared = self.preparing.as_ref().map(|_| now + LOOK_AGAIN);
        let (calls, watch) = (self.calls.next_deadline(), self.watch.next_deadline());
        let mut due = vec![calls, watch, prepared];
        due.extend(self.silences.each_ref().map(Silence::next_deadline));
        if let Some(agent) = self.agent.as_mut().filter(|agent| agent.lost().is_none()) {
            if !agent.prepare_to_wait() {
                return None;
            }
            due.extend([agent.next_deadline(), self.reminder.next_deadline()]);
        }
        if self.server.lost.is_none() {
            if !self.server.link.prepare_to_wait() {
                return None;
            }
            due.push(self.server.link.next_deadline());
        }
        Some(due.into_iter().flatten().fold(now + limit, Time::min).since(now))
    }

    /// What there is to sleep on. A link that is gone says no more.
    pub fn wait_on(&self) -> impl Iterator<Item = WaitOn<'_>> {
        let server = self.server.lost.is_none().then(|| self.server.link.wait_on()).flatten();
        let agent = self.agent.as_ref().filter(|agent| agent.lost().is_none());
        server.into_iter().chain(agent.and_then(|agent| agent.wait_on()))
    }
}
