//! Until when there is nothing to do.

use std::time::Duration;

use outboard_contract::{Link, RemoteMemory, WaitOn};
use outboard_wire::Time;

use super::Dispatcher;
use super::silence::Silence;

impl<L: Link + RemoteMemory, A: Link> Dispatcher<L, A> {
    /// For how long to sleep on what [`wait_on`](Self::wait_on) names, at most for `limit`. Nothing, if there is something to
    /// do now.
    pub fn prepare_to_sleep(&mut self, now: Time, limit: Duration) -> Option<Duration> {
        let queues = [self.again.is_empty(), self.moving.is_empty(), self.leaving.is_empty()];
        if !self.here.is_idle() || queues.contains(&false) {
            return None;
        }
        let (calls, watch) = (self.calls.next_deadline(), self.watch.next_deadline());
        let mut due = vec![calls, watch, self.registration_deadline()];
        due.extend(self.silences.each_ref().map(Silence::next_deadline));
        if let Some(agent) = self.agent.as_mut().filter(|agent| agent.lost.is_none()) {
            if !agent.link.prepare_to_wait() {
                return None;
            }
            let reminder = self.reminder.next_deadline().filter(|_| self.registration.is_none());
            due.extend([agent.link.next_deadline(), reminder]);
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
        let agent = self.agent.as_ref().filter(|agent| agent.lost.is_none());
        server.into_iter().chain(agent.and_then(|agent| agent.link.wait_on()))
    }
}
