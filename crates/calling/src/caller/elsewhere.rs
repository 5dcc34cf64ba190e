//! Where a call goes if nothing comes of the site that was meant.

use std::time::Duration;

use outboard_contract::{Link, LinkError, Loss, Peer, RemoteMemory};
use outboard_steering::Site;
use outboard_wire::FrameHead;
use outboard_wire::calling::{Call, CallFailure, Continue, TrapReason};
use outboard_wire::trial::ECHO;

use super::flight::{Flight, bit, patience_us, recycle};
use super::register::Known;
use super::silence::{FAR, Verdict, place_of};
use super::{CallBeginError, CallPlacement, Dispatcher, NoRoom, SiteLink, TellEnded};
use crate::CallFault;

/// In which order sites are tried when the one that was meant cannot be used.
pub(super) const ORDER: [Site; 3] = [Site::Server, Site::Agent, Site::Application];

/// Whether a call that failed so can go on at another site: it did not run there, or it only reads. Otherwise, how it ends.
pub(super) fn verdict(functions: &[Known], flight: &Flight, failure: CallFailure) -> Result<(), CallFault> {
    let only_reads = functions.get(flight.handle as usize).is_some_and(|function| function.only_reads);
    let (is_kept, has_travelled) = (flight.arguments.is_some(), flight.travelled.is_some());
    match failure {
        CallFailure::NoFunction | CallFailure::Recalled if is_kept => Ok(()),
        CallFailure::NotResumed if has_travelled || only_reads && is_kept => Ok(()),
        CallFailure::Trapped { reason: TrapReason::NotReached, .. } if only_reads && is_kept => Ok(()),
        // It has run in part at another site.
        CallFailure::Expired if has_travelled => Err(CallFault::Late { at: flight.site, may_have_run: true }),
        failure => Err(fault(failure, flight.site)),
    }
}

/// How a call ends that has failed so at a site and cannot go on elsewhere.
fn fault(failure: CallFailure, site: Site) -> CallFault {
    match failure {
        // An agent knows no function that it has known because it has lost its memory server.
        CallFailure::NoFunction if site == Site::Agent => CallFault::Lost { may_have_run: false },
        CallFailure::Recalled => CallFault::Lost { may_have_run: false },
        CallFailure::Expired => CallFault::Late { at: site, may_have_run: false },
        CallFailure::Trapped { reason: TrapReason::NotReached, .. } => CallFault::Lost { may_have_run: true },
        failure => CallFault::Failed(failure),
    }
}

impl<L: Link + RemoteMemory, A: Link> Dispatcher<L, A> {
    /// Where a call goes if not where it is meant to.
    #[cold]
    pub(super) fn choose_another(&self, wanted: Site, handle: u32) -> Result<Site, CallBeginError> {
        let is_free = self.placement.is_free();
        if is_free && let Some(site) = ORDER.into_iter().find(|site| self.is_usable(*site, handle)) {
            return Ok(site);
        }
        // A silent site may answer after all.
        let left = if is_free { ORDER.as_slice() } else { &[wanted] };
        match left.iter().find(|site| self.lost_of(**site).is_none() && self.knows(**site, handle)) {
            Some(site) => Ok(*site),
            None => Err(match self.lost_of(wanted).or(self.lost_of(Site::Server)) {
                Some(lost) => CallBeginError::Lost(lost.clone()),
                None if wanted == Site::Agent && self.reminder.is_needed => {
                    CallBeginError::Full(NoRoom::Learning)
                }
                None => CallBeginError::NoFunction,
            }),
        }
    }

    /// Why a site is gone, if it is.
    pub(super) fn lost_of(&self, site: Site) -> Option<&LinkError> {
        match site {
            Site::Agent => self.agent.as_ref()?.lost.as_ref(),
            // From here regions are reached by the link to the server.
            Site::Server | Site::Application => self.server.lost.as_ref(),
        }
    }

    /// Whether a call may have to begin again elsewhere, so that its arguments are kept. At the server this is so only for
    /// what reads, elsewhere also for what finds that the site has forgotten its function.
    #[inline]
    pub(super) fn may_begin_again(&self, handle: u32, site: Site) -> bool {
        if !self.placement.is_free() {
            return false;
        }
        let function = &self.functions[handle as usize];
        function.only_reads || site != Site::Server
    }

    /// Looks whether sites are silent or gone, and has calls begin again elsewhere that may.
    pub(super) fn look_after_sites(&mut self, tell: &mut TellEnded<'_>) {
        let silent = self.watch.look(self.now);
        for site in Site::ALL {
            if self.watch.under_way(site) > 0 && self.lost_of(site).is_some() {
                self.leave(site, true, tell);
            } else if silent[site as usize] {
                self.leave(site, false, tell);
            }
        }
        for (place, site) in FAR.into_iter().enumerate() {
            let under_way = self.watch.under_way(site);
            if self.heard(site).is_some_and(|heard| std::mem::take(&mut heard.has_echoed)) {
                self.silences[place].broken(self.now);
            }
            match self.silences[place].look(self.now, under_way) {
                Verdict::Wait => {}
                Verdict::Ask => {
                    // A site that takes no more frames does not answer either.
                    let _ = self.send(site, FrameHead::new(ECHO), &[]);
                }
                Verdict::GiveUp { silent } => self.forsake(site, silent, tell),
            }
        }
        self.pass_on(tell);
        for _ in 0..self.again.len() {
            let Some((call, failure)) = self.again.pop_front() else { break };
            self.begin_again(call, failure, tell);
        }
    }

    /// Leaves a site: calls that only read begin again elsewhere. If it is gone, the others have no answer.
    #[cold]
    fn leave(&mut self, site: Site, is_gone: bool, tell: &mut TellEnded<'_>) {
        let mut hopeless = Vec::new();
        self.is_wanted_here |= site != Site::Application;
        for (call, flight) in self.calls.all().filter(|(_, flight)| flight.site == site) {
            let only_reads = self.functions[flight.handle as usize].only_reads;
            if only_reads && flight.arguments.is_some() {
                self.again.push_back((call, None));
            } else if is_gone {
                hopeless.push(call);
            }
        }
        for call in hopeless {
            self.give_up(call, CallFault::Lost { may_have_run: true }, tell);
        }
    }

    /// Waits no longer for a site that lives and says nothing. The caller drops what it answers later.
    #[cold]
    fn forsake(&mut self, site: Site, silent: Duration, tell: &mut TellEnded<'_>) {
        let there = self.calls.all().filter(|(_, flight)| flight.site == site);
        let waiting: Vec<u64> = there.map(|(call, _)| call).collect();
        self.watch.given_up(site, self.now);
        self.server_given_up += u64::from(site == Site::Server);
        for call in waiting {
            self.give_up(call, CallFault::Lost { may_have_run: true }, tell);
        }
        let loss = Loss::Stalled { silent, awaited: "answers to calls" };
        self.lost = Some(LinkError { peer: self.peer_at(site).clone(), loss });
    }

    /// Whom calls at a site wait for: calls that run here wait for the memory server, which has their regions.
    pub fn peer_at(&self, site: Site) -> &Peer {
        match (site, &self.agent) {
            (Site::Agent, Some(agent)) => agent.link.peer(),
            _ => self.server.link.peer(),
        }
    }

    /// The longest payload that the link to a site carries, in bytes.
    pub(super) fn payload_max(&self, site: Site) -> usize {
        match (site, &self.agent) {
            (Site::Agent, Some(agent)) => agent.link.capabilities().max_payload,
            _ => self.server.link.capabilities().max_payload,
        }
    }

    /// Why a call has not begun at a site. One that takes no more and was given up is as good as gone until it is heard.
    #[cold]
    pub(super) fn refused(&mut self, site: Site, error: CallBeginError) -> CallBeginError {
        let (CallBeginError::Full(NoRoom::Site), Some(place)) = (&error, place_of(site)) else {
            return error;
        };
        match self.silences[place].blocked() {
            None => error,
            Some(silent) => {
                let loss = Loss::Stalled { silent, awaited: "room for calls" };
                CallBeginError::Lost(LinkError { peer: self.peer_at(site).clone(), loss })
            }
        }
    }

    /// How often the server itself was given up because it said nothing.
    pub fn server_given_up(&self) -> u64 {
        self.server_given_up
    }

    pub(super) fn give_up(&mut self, call: u64, fault: CallFault, tell: &mut TellEnded<'_>) {
        if let Some(flight) = self.calls.end(call) {
            self.watch.ended(flight.site, call, None);
            if matches!(fault, CallFault::Lost { .. }) {
                self.explain_loss(flight.site);
            }
            let (id, fault) = (flight.id, flight.in_the_end(fault));
            recycle(&mut self.spare, Some(flight));
            tell(id, Err(fault));
        }
    }

    /// Keeps why calls end at a site that cannot go on with them.
    #[cold]
    pub(super) fn explain_loss(&mut self, site: Site) {
        let cut = |agent: &SiteLink<A>| LinkError { peer: agent.link.peer().clone(), loss: Loss::Cut };
        let lost = self.lost_of(site).or(self.lost_of(Site::Server)).cloned();
        self.lost = lost.or_else(|| self.agent.as_ref().map(cut));
    }

    /// Begins a call at a site where it is not. If there is none, it ends with the failure that it had.
    fn begin_again(&mut self, call: u64, failure: Option<CallFailure>, tell: &mut TellEnded<'_>) {
        let Some(flight) = self.calls.get_mut(call) else { return };
        if failure == Some(CallFailure::NotResumed)
            && let Some(travelled) = flight.travelled.take()
        {
            return self.moving.push_back(travelled);
        }
        let (from, handle, slot) = (flight.site, flight.handle, flight.slot);
        let fuel = flight.past.as_ref().map(|past| past.fuel());
        let did_not_run = matches!(failure, Some(CallFailure::NoFunction | CallFailure::Recalled));
        if did_not_run && from != Site::Server {
            // It is nowhere, and may go anywhere else.
            flight.tried = bit(from);
        }
        let tried = flight.tried;
        let Some(arguments) = flight.arguments.take() else {
            // It has to stay where it is, and has failed there.
            if let Some(failure) = failure {
                self.give_up(call, fault(failure, from), tell);
            }
            return;
        };
        let found = self.find_another(handle, slot, tried, did_not_run);
        // Sites that have heard of many later calls would take it for one that has begun.
        let is_new = did_not_run && !self.functions[handle as usize].only_reads;
        let number = if is_new { self.calls.next_for(call).unwrap_or(call) } else { call };
        let left = self.calls.until(call).map(|until| until.since(self.now));
        let request = Call { call: number, handle, patience_us: patience_us(left) };
        let began = found.map(|to| match fuel {
            None => (to, self.begin_at(to, &request, slot, &arguments)),
            Some(fuel) => (to, self.continue_at(to, &Continue { call: request, fuel }, slot, &arguments)),
        });
        if let Some(flight) = self.calls.get_mut(call) {
            flight.arguments = Some(arguments);
            if let Some((to, Ok(()))) = began {
                (flight.site, flight.tried) = (to, tried | bit(to));
            }
        }
        match (began, failure) {
            (Some((_, Ok(()))), _) => {
                if failure.is_none() {
                    self.watch.left(from, self.now);
                }
                self.watch.ended(from, call, None);
                if number != call {
                    self.calls.renumber(call, number);
                }
            }
            // There is room later.
            (Some((_, Err(CallBeginError::Full(_)))), _) => self.again.push_back((call, failure)),
            (_, Some(failure)) => self.give_up(call, fault(failure, from), tell),
            (_, None) if self.lost_of(from).is_some() => {
                self.give_up(call, CallFault::Lost { may_have_run: true }, tell);
            }
            // A site that is only silent may still answer.
            (_, None) => {}
        }
    }

    /// Where a call can go that is not at one of those places: where its slot is, if that is possible. If it `must` go, also
    /// to a site that is silent, which may come back.
    fn find_another(&self, handle: u32, slot: u8, tried: u8, must: bool) -> Option<Site> {
        let is_fresh = |site: &Site| tried & bit(*site) == 0;
        let meant = (self.placement == CallPlacement::Steered).then(|| self.table.site(slot));
        let mut sites = meant.into_iter().chain(ORDER).filter(is_fresh);
        let usable = sites.clone().find(|site| self.is_usable(*site, handle));
        let may_come = |site: &Site| self.lost_of(*site).is_none() && self.knows(*site, handle);
        usable.or_else(|| must.then(|| sites.find(may_come)).flatten())
    }
}
