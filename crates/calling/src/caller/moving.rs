//! Calls that go on at another site than they began, because their slot has moved.

use outboard_contract::{FrameSendError, Link, RemoteMemory};
use outboard_steering::Site;
use outboard_wire::calling::{CallFailure, Moving, RECALL, RECALL_MAX, RESUME, Recall};
use outboard_wire::{FrameHead, mutant};

use super::elsewhere::ORDER;
use super::flight::{bit, patience_us};
use super::{CallPlacement, Dispatcher, TellEnded};
use crate::{CallFault, Recalled, Submitted};

/// What became of a call that was to go on somewhere.
enum Passed {
    Taken,
    NotYet,
    Failed(CallFailure),
}

impl<L: Link + RemoteMemory, A: Link> Dispatcher<L, A> {
    /// Asks for calls back whose slots are elsewhere now. What a site does not give back ends there.
    pub(super) fn recall(&mut self) {
        if self.placement != CallPlacement::Steered {
            return;
        }
        let mut wanted: [Vec<u64>; 3] = Default::default();
        let table = self.table;
        for (call, flight) in self.calls.all() {
            let to = table.site(flight.slot);
            if to != flight.site && flight.tried & bit(to) == 0 {
                wanted[flight.site as usize].push(call);
            }
        }
        if let Some(agent) = &mut self.agent {
            for calls in wanted[Site::Agent as usize].chunks(RECALL_MAX) {
                let recall = Recall { calls: calls.to_vec() };
                // Without room for it there they go on where they are.
                let _ = agent.send(FrameHead::new(RECALL), &recall.encode());
            }
        }
        let Self { here, again, moving, calls, .. } = self;
        here.recall(&wanted[Site::Application as usize], |recalled| match recalled {
            Recalled::Waiting(call) => again.push_back((call, Some(CallFailure::Recalled))),
            Recalled::Suspended(suspended) => {
                if let Some(flight) = calls.get_mut(suspended.call) {
                    flight.tried = bit(Site::Application);
                }
                let mut bytes = Vec::with_capacity(suspended.encoded_len());
                suspended.encode(&mut bytes);
                moving.push_back(bytes);
            }
        });
    }

    /// Has calls go on that were given back.
    pub(super) fn pass_on(&mut self, tell: &mut TellEnded<'_>) {
        while let Some(returned) = self.heard(Site::Agent).and_then(|heard| heard.returned.pop_front()) {
            let call = Moving::decode(&returned).map(|moving| moving.call);
            let flight = call.as_ref().ok().copied().and_then(|call| self.calls.get_mut(call));
            // Otherwise it was begun again elsewhere meanwhile, or is not waited for.
            if let Some(flight) = flight.filter(|flight| flight.site == Site::Agent) {
                flight.tried = bit(Site::Agent);
                match call {
                    Ok(call) if mutant("calling.returned-begins-anew") => {
                        self.again.push_back((call, Some(CallFailure::Recalled)));
                    }
                    _ => self.moving.push_back(returned),
                }
            }
        }
        for _ in 0..self.moving.len() {
            let Some(bytes) = self.moving.pop_front() else { break };
            let Ok(moving) = Moving::decode(&bytes) else { continue };
            match self.pass_on_one(&moving) {
                Passed::Taken => {}
                Passed::NotYet => self.moving.push_back(bytes),
                Passed::Failed(failure) => self.give_up(moving.call, CallFault::Failed(failure), tell),
            }
        }
    }

    fn pass_on_one(&mut self, moving: &Moving<'_>) -> Passed {
        // It may not be waited for any more.
        let Some(flight) = self.calls.get_mut(moving.call) else { return Passed::Taken };
        let (from, tried, handle, slot) = (flight.site, flight.tried, flight.handle, flight.slot);
        let only_reads = self.functions[handle as usize].only_reads;
        if !only_reads {
            // It has run in part, and must not begin again.
            self.spare.extend(flight.arguments.take());
        }
        // It may have gone on as another function meanwhile.
        let handle = moving.handle;
        let is_fresh = |site: &Site| tried & bit(*site) == 0;
        let meant = std::iter::once(self.table.site(slot)).chain(ORDER);
        let Some(to) = meant.filter(is_fresh).find(|site| self.is_usable(*site, handle)) else {
            let may_come = |site: Site| self.lost_of(site).is_none() && self.knows(site, handle);
            let is_hopeless = !ORDER.into_iter().filter(is_fresh).any(may_come);
            return if is_hopeless { Passed::Failed(CallFailure::NotResumed) } else { Passed::NotYet };
        };
        // No site goes on with it by its former number; see `begin_again`.
        let fresh = if only_reads { None } else { self.calls.next_for(moving.call) };
        let number = fresh.unwrap_or(moving.call);
        let left = self.calls.until(moving.call).map(|until| until.since(self.now));
        let moving_on = Moving { call: number, patience_us: patience_us(left), ..*moving };
        let mut bytes = Vec::with_capacity(moving_on.encoded_len());
        moving_on.encode(&mut bytes);
        let head = FrameHead::new(RESUME).with_tag(number as u32);
        let sent = match (to, &mut self.agent) {
            (Site::Server, _) => self.server.send(head, &bytes),
            (Site::Agent, Some(agent)) => agent.send(head, &bytes),
            _ => match self.here.resume(self.now, &moving_on) {
                Submitted::Taken => Ok(()),
                Submitted::Full => Err(FrameSendError::Full),
                Submitted::Failed(failure) => return Passed::Failed(failure),
            },
        };
        match sent {
            Ok(()) => {
                self.watch.ended(from, moving.call, None);
                self.watch.begun(to, number);
                self.moved_total += 1;
                if number != moving.call {
                    self.calls.renumber(moving.call, number);
                }
                if let Some(flight) = self.calls.get_mut(number) {
                    (flight.site, flight.tried) = (to, tried | bit(to));
                    flight.travelled = (!only_reads).then_some(bytes);
                }
                Passed::Taken
            }
            Err(FrameSendError::Full) => Passed::NotYet,
            // Another site may be found.
            Err(FrameSendError::Lost(_)) => Passed::NotYet,
            Err(FrameSendError::TooLong { .. }) => Passed::Failed(CallFailure::NotResumed),
        }
    }
}
