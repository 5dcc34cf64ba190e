//! Until when there is nothing to do.

use std::time::Duration;

use outboard_contract::{Link, RemoteMemory, WaitOn};
use outboard_wire::Time;

use super::Dispatcher;
use super::silence::Silence;

impl<L: Link + RemoteMemory, A: Link> Dispatcher<L, A> {
    /// When a turn is due though nothing is heard: at once, if there is something to do.
    pub fn next_deadline(&self) -> Option<Time> {
        let queues = [self.again.is_empty(), self.moving.is_empty(), self.leaving.is_empty()];
        if !self.here.is_idle() || queues.contains(&false) {
            return Some(self.now);
        }
        let has_agent = self.agent.as_ref().is_some_and(|agent| agent.lost.is_none());
        let may_remind = has_agent && self.registration.is_none();
        let reminder = self.reminder.next_deadline().filter(|_| may_remind);
        let silences = self.silences.each_ref().map(Silence::next_deadline);
        [self.calls.next_deadline(), self.watch.next_deadline(), self.registration_deadline(), reminder]
            .into_iter()
            .chain(silences)
            .flatten()
            .min()
    }

    /// For how long to sleep on what [`wait_on`](Self::wait_on) names, at most for `limit`. Nothing, if there is something to
    /// do now.
    pub fn prepare_to_sleep(&mut self, now: Time, limit: Duration) -> Option<Duration> {
        let mut due = self.next_deadline();
        if due.is_some_and(|due| due <= now) {
            return None;
        }
        if let Some(agent) = self.agent.as_mut().filter(|agent| agent.lost.is_none()) {
            if !agent.link.prepare_to_wait() {
                return None;
            }
            due = due.into_iter().chain(agent.link.next_deadline()).min();
        }
        if self.server.lost.is_none() {
            if !self.server.link.prepare_to_wait() {
                return None;
            }
            due = due.into_iter().chain(self.server.link.next_deadline()).min();
        }
        Some(due.into_iter().fold(now + limit, Time::min).since(now))
    }

    /// What there is to sleep on. A link that is gone says no more.
    pub fn wait_on(&self) -> impl Iterator<Item = WaitOn<'_>> {
        let server = self.server.lost.is_none().then(|| self.server.link.wait_on()).flatten();
        let agent = self.agent.as_ref().filter(|agent| agent.lost.is_none());
        server.into_iter().chain(agent.and_then(|agent| agent.link.wait_on()))
    }
}
