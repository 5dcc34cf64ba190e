//! Calls that go on at another memory server, and that come from one.

use std::collections::VecDeque;

use outboard_contract::{FrameSendError, Link, RemoteMemory};
use outboard_steering::Site;
use outboard_wire::calling::{CONTINUE, Call, CallFailure, Continue, Forwarded, HOP_FUEL, TrapReason};
use outboard_wire::{Flow, FrameHead, Time, mutant};

use super::flight::{Flight, bit, patience_us, recycle};
use super::register::Known;
use super::{CallBeginError, Dispatcher, NoRoom};
use crate::{CallFault, Calls, Submitted};

/// A call that has ended at one memory server and goes on at another of the same caller.
#[derive(Debug)]
pub struct Leaving {
    /// Its name, as its caller knows it.
    pub id: u64,
    /// At which of the caller's servers it goes on.
    pub server: u32,
    /// As which function there.
    handle: u32,
    slot: u8,
    /// Until when it is waited for, by the clock of whom it leaves.
    pub until: Option<Time>,
    arguments: Vec<u8>,
    past: Box<Past>,
}

/// What a call has done at other memory servers.
#[derive(Debug)]
pub(super) struct Past {
    /// What it has replied there.
    reply: Vec<u8>,
    /// What they have left of its fuel.
    fuel: u64,
    /// The instruction that sent it on.
    index: u32,
}

impl Past {
    /// What a call has done that goes on so, of a function that may, or may not, and that began with so much fuel. A site is
    /// not believed that a call goes on if its function cannot, nor that this cost nothing.
    fn with(
        before: Option<Box<Self>>,
        (may_forward, began_with): (bool, u64),
        forwarded: &Forwarded<'_>,
    ) -> Result<Box<Self>, CallFault> {
        let had = before.as_ref().map_or(began_with, |before| before.fuel);
        let mut past = before.unwrap_or_else(|| Box::new(Self { reply: Vec::new(), fuel: 0, index: 0 }));
        past.index = forwarded.index;
        if !may_forward {
            return Err(past.trapped(TrapReason::Site));
        }
        let left = had.checked_sub(HOP_FUEL).ok_or_else(|| past.trapped(TrapReason::OutOfFuel))?;
        past.fuel = forwarded.fuel.min(left);
        if !mutant("calling.forward-loses-reply") {
            past.reply.extend_from_slice(forwarded.reply);
        }
        Ok(past)
    }

    pub(super) fn fuel(&self) -> u64 {
        self.fuel
    }

    /// What the call has replied, with the rest of it.
    pub(super) fn whole_reply(mut self, rest: &[u8]) -> Vec<u8> {
        self.reply.extend_from_slice(rest);
        self.reply
    }

    fn trapped(&self, reason: TrapReason) -> CallFault {
        CallFault::Failed(CallFailure::Trapped { index: self.index, reason, address: 0 })
    }

    /// How a call ends that has run elsewhere before, so that no user takes it for one that did not run.
    fn in_the_end(&self, fault: CallFault) -> CallFault {
        match fault {
            CallFault::Failed(
                CallFailure::NoFunction | CallFailure::Recalled | CallFailure::ArgumentsTooLong { .. },
            ) => self.trapped(TrapReason::NoForward),
            CallFault::Late { at, .. } => CallFault::Late { at, may_have_run: true },
            CallFault::Lost { .. } => {
                CallFault::Lost { may_have_run: !mutant("calling.forward-denies-running") }
            }
            fault => fault,
        }
    }
}

impl Flight {
    /// How it ends with such a fault, considering what it has done before.
    pub(super) fn in_the_end(&self, fault: CallFault) -> CallFault {
        self.past.as_ref().map_or(fault, |past| past.in_the_end(fault))
    }
}

impl Leaving {
    /// A flight that has ended so at its site.
    fn new(
        flight: &mut Flight,
        functions: &[Known],
        forwarded: &Forwarded<'_>,
        until: Option<Time>,
    ) -> Result<Self, CallFault> {
        let function = &functions[flight.handle as usize];
        let known = (function.may_forward, function.wanted().fuel);
        let past = Past::with(flight.past.take(), known, forwarded)?;
        let (id, slot, arguments) = (flight.id, flight.slot, forwarded.arguments.to_vec());
        Ok(Self { id, server: forwarded.server, handle: forwarded.handle, slot, until, arguments, past })
    }

    /// How it ends if it cannot go on because of this, if ever.
    pub fn fault(&self, error: &CallBeginError) -> Option<CallFault> {
        match error {
            CallBeginError::Full(_) => None,
            CallBeginError::TooLong { .. } | CallBeginError::NoFunction => {
                Some(self.past.trapped(TrapReason::NoForward))
            }
            CallBeginError::Lost(_) => Some(CallFault::Lost { may_have_run: true }),
        }
    }

    /// How it ends if its caller has no such server.
    pub fn without_server(&self) -> CallFault {
        self.past.trapped(TrapReason::NoServer)
    }
}

/// A call leaves its server. If it cannot, that is how it ends.
pub(super) fn depart(
    calls: &mut Calls<Flight>,
    functions: &[Known],
    forwarded: &Forwarded<'_>,
    (leaving, spare): (&mut VecDeque<Leaving>, &mut Vec<Vec<u8>>),
) -> Result<(), CallFault> {
    let until = calls.until(forwarded.call);
    let Some(mut flight) = calls.end(forwarded.call) else { return Ok(()) };
    let left = Leaving::new(&mut flight, functions, forwarded, until);
    recycle(spare, Some(flight));
    leaving.push_back(left?);
    Ok(())
}

impl<L: Link + RemoteMemory, A: Link> Dispatcher<L, A> {
    /// Has names of calls begin there: for callers who have several and must tell their calls apart.
    pub fn with_first_id(mut self, first_id: u64) -> Self {
        self.first_id = first_id;
        self
    }

    /// The next call that goes on at another memory server.
    #[inline]
    pub fn next_leaving(&mut self) -> Option<Leaving> {
        self.leaving.pop_front()
    }

    /// Goes on with a call that has left another memory server, for as long as it is waited for by the clock here. It is
    /// given back if it cannot.
    pub fn take_over(
        &mut self,
        leaving: Leaving,
        until: Option<Time>,
        now: Time,
    ) -> Result<(), (Leaving, CallBeginError)> {
        self.now = now;
        match self.begin_rest(&leaving, until) {
            Err(error) => Err((leaving, error)),
            Ok((number, site)) => {
                let Leaving { id, handle, slot, arguments, past, .. } = leaving;
                let arguments = self.may_begin_again(handle, site).then_some(arguments);
                let (tried, past) = (bit(site), Some(past));
                let flight = Flight { id, site, tried, handle, slot, arguments, travelled: None, past };
                self.calls.begin(number, until, flight);
                Ok(())
            }
        }
    }

    fn begin_rest(&mut self, leaving: &Leaving, until: Option<Time>) -> Result<(u64, Site), CallBeginError> {
        let Leaving { handle, slot, arguments, past, .. } = leaving;
        let number = self.calls.next().ok_or(CallBeginError::Full(NoRoom::UnderWay))?;
        let site = self.choose(*handle, *slot)?;
        let patience_us = patience_us(until.map(|until| until.since(self.now)));
        let call = Call { call: number, handle: *handle, patience_us };
        self.continue_at(site, &Continue { call, fuel: past.fuel }, *slot, arguments)?;
        Ok((number, site))
    }

    /// Gives a call that has begun at another memory server to a site.
    pub(super) fn continue_at(
        &mut self,
        site: Site,
        rest: &Continue,
        slot: u8,
        arguments: &[u8],
    ) -> Result<(), CallBeginError> {
        let head = FrameHead::new(CONTINUE).with_tag(rest.call.call as u32).with_flow(Flow(slot.into()));
        let payload = [rest.encode().as_slice(), arguments].concat();
        let sent = match (site, &mut self.agent) {
            (Site::Server, _) => self.server.send(head, &payload),
            (Site::Agent, Some(agent)) => agent.send(head, &payload),
            (Site::Agent, None) | (Site::Application, _) => {
                match self.here.submit_rest(self.now, rest, arguments) {
                    Submitted::Taken => Ok(()),
                    Submitted::Full => Err(FrameSendError::Full),
                    Submitted::Failed(CallFailure::ArgumentsTooLong { max }) => {
                        return Err(CallBeginError::TooLong { max: max as usize });
                    }
                    Submitted::Failed(_) => return Err(CallBeginError::NoFunction),
                }
            }
        };
        sent.map_err(|error| match error {
            FrameSendError::Full => CallBeginError::Full(NoRoom::Site),
            FrameSendError::TooLong { max, .. } => CallBeginError::TooLong { max },
            FrameSendError::Lost(error) => CallBeginError::Lost(error),
        })?;
        self.watch.begun(site, rest.call.call);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORWARDED: Forwarded<'_> =
        Forwarded { call: 1, server: 1, handle: 2, index: 7, fuel: 1 << 40, reply: b"so", arguments: &[] };

    fn trapped(reason: TrapReason) -> CallFault {
        CallFault::Failed(CallFailure::Trapped { index: 7, reason, address: 0 })
    }

    #[test]
    fn sites_that_say_a_call_costs_nothing_do_not_keep_it_going() {
        let known = (true, 10 * HOP_FUEL + 1);
        let mut past = None;
        for hop in 1..=10 {
            let next = Past::with(past, known, &FORWARDED).unwrap();
            assert_eq!((next.fuel, next.reply.len()), (known.1 - hop * HOP_FUEL, 2 * hop as usize));
            past = Some(next);
        }
        assert_eq!(Past::with(past, known, &FORWARDED).unwrap_err(), trapped(TrapReason::OutOfFuel));
        let honest = Past::with(None, known, &Forwarded { fuel: 5, ..FORWARDED }).unwrap();
        assert_eq!((honest.fuel, honest.whole_reply(b" far")), (5, b"so far".to_vec()));
    }

    #[test]
    fn a_function_that_cannot_go_on_does_not_whatever_its_site_says() {
        assert_eq!(Past::with(None, (false, 1 << 40), &FORWARDED).unwrap_err(), trapped(TrapReason::Site));
    }

    #[test]
    fn whatever_ends_a_call_behind_a_hop_it_may_have_run() {
        let past = Past::with(None, (true, 1 << 40), &FORWARDED).unwrap();
        let not_there = trapped(TrapReason::NoForward);
        let lost = CallFault::Lost { may_have_run: true };
        let late = |may_have_run| CallFault::Late { at: Site::Agent, may_have_run };
        for (fault, in_the_end) in [
            (CallFault::Failed(CallFailure::NoFunction), not_there),
            (CallFault::Failed(CallFailure::Recalled), not_there),
            (CallFault::Failed(CallFailure::ArgumentsTooLong { max: 8 }), not_there),
            (late(false), late(true)),
            (late(true), late(true)),
            (CallFault::Lost { may_have_run: false }, lost),
            (CallFault::Failed(CallFailure::Repeated), CallFault::Failed(CallFailure::Repeated)),
            (CallFault::Failed(CallFailure::NotResumed), CallFault::Failed(CallFailure::NotResumed)),
        ] {
            assert_eq!(past.in_the_end(fault), in_the_end);
            assert!(in_the_end.may_have_run());
        }
    }
}
