//! Where a call goes, and where it goes if nothing comes of that.

use outboard_calling::Fault;
use outboard_link::{Link, LinkError, RemoteMemory};
use outboard_steering::Site;
use outboard_wire::calling::{Call, Failure, TrapReason};

use super::register::Known;
use super::{CallBeginError, CallOutcome, Dispatcher, Flight, Placement, SiteEnd};

/// In which order sites are tried when the one that was meant cannot be used.
pub(super) const ORDER: [Site; 3] = [Site::Server, Site::Agent, Site::Application];

/// Whether a call that failed so can be begun again at another site: it did not run, or it only reads.
pub(super) fn may_help(functions: &[Known], flight: &Flight, failure: Failure) -> bool {
    let only_reads = functions.get(flight.handle as usize).is_some_and(|function| function.only_reads);
    let is_its_fault = match failure {
        Failure::NoFunction | Failure::Recalled => true,
        Failure::NotResumed | Failure::Trapped { reason: TrapReason::NotReached, .. } => only_reads,
        _ => false,
    };
    is_its_fault && flight.arguments.is_some()
}

impl<L: Link + RemoteMemory + Send> Dispatcher<L> {
    /// Where a call goes.
    #[inline]
    pub(super) fn choose(&self, handle: u32, slot: u8) -> Result<Site, CallBeginError> {
        let wanted = match self.placement {
            Placement::Steered => self.table.site(slot),
            Placement::Hinted(site) | Placement::Fixed(site) => site,
        };
        if self.is_usable(wanted, handle) {
            return Ok(wanted);
        }
        self.choose_another(wanted, handle)
    }

    #[cold]
    fn choose_another(&self, wanted: Site, handle: u32) -> Result<Site, CallBeginError> {
        let is_free = self.placement.is_free();
        if is_free && let Some(site) = ORDER.into_iter().find(|site| self.is_usable(*site, handle)) {
            return Ok(site);
        }
        // Whoever is silent may answer after all.
        let left = if is_free { ORDER.as_slice() } else { &[wanted] };
        match left.iter().find(|site| self.lost_of(**site).is_none() && self.knows(**site, handle)) {
            Some(site) => Ok(*site),
            None => Err(match self.lost_of(wanted).or(self.lost_of(Site::Server)) {
                Some(lost) => CallBeginError::Lost(lost.clone()),
                None => CallBeginError::NoFunction,
            }),
        }
    }

    #[inline]
    pub(super) fn is_usable(&self, site: Site, handle: u32) -> bool {
        self.knows(site, handle) && !self.watch.is_silent(site) && self.lost_of(site).is_none()
    }

    #[inline]
    pub(super) fn knows(&self, site: Site, handle: u32) -> bool {
        self.functions.get(handle as usize).is_some_and(|function| function.is_at(site))
    }

    /// Why a site is gone, if it is.
    pub(super) fn lost_of(&self, site: Site) -> Option<&LinkError> {
        match site {
            Site::Agent => self.agent.as_ref()?.lost(),
            // From here regions are reached by the link to the server.
            Site::Server | Site::Application => self.server.lost(),
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
    pub(super) fn look_after_sites(&mut self, tell: &mut impl FnMut(u64, CallOutcome<'_>)) {
        let silent = self.watch.look(self.now);
        for site in Site::ALL {
            if self.watch.under_way(site) > 0 && self.lost_of(site).is_some() {
                self.leave(site, true, tell);
            } else if silent[site as usize] {
                self.leave(site, false, tell);
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
    fn leave(&mut self, site: Site, is_gone: bool, tell: &mut impl FnMut(u64, CallOutcome<'_>)) {
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
        if is_gone && let Some(lost) = self.lost_of(site) {
            self.lost = Some(lost.clone());
        }
        for call in hopeless {
            self.give_up(call, Fault::Lost, tell);
        }
    }

    pub(super) fn give_up(&mut self, call: u64, fault: Fault, tell: &mut impl FnMut(u64, CallOutcome<'_>)) {
        if let Some(flight) = self.calls.end(call) {
            self.watch.ended(flight.site, call, None);
            super::recycle(&mut self.spare, Some(flight));
            tell(call, Err(fault));
        }
    }

    /// Begins a call at a site where it has not been. If there is none, it ends with the failure that it had.
    fn begin_again(
        &mut self,
        call: u64,
        failure: Option<Failure>,
        tell: &mut impl FnMut(u64, CallOutcome<'_>),
    ) {
        let Some(flight) = self.calls.get_mut(call) else { return };
        let (from, tried, handle, slot) = (flight.site, flight.tried, flight.handle, flight.slot);
        let Some(arguments) = flight.arguments.take() else {
            // It has to stay where it is, and has failed there.
            if let Some(failure) = failure {
                self.give_up(call, Fault::Failed(failure), tell);
            }
            return;
        };
        let fresh = |site: &Site| tried & 1 << *site as u8 == 0 && self.is_usable(*site, handle);
        let found = ORDER.into_iter().find(fresh);
        let left = self.calls.until(call).map(|until| until.since(self.now));
        let request = Call { call, handle, patience_us: super::patience_us(left) };
        let began = found.map(|to| (to, self.begin_at(to, &request, slot, &arguments)));
        if let Some(flight) = self.calls.get_mut(call) {
            flight.arguments = Some(arguments);
            if let Some((to, Ok(()))) = began {
                (flight.site, flight.tried) = (to, tried | 1 << to as u8);
            }
        }
        match (began, failure) {
            (Some((_, Ok(()))), _) => self.watch.ended(from, call, None),
            // There is room later.
            (Some((_, Err(CallBeginError::Full))), _) => self.again.push_back((call, failure)),
            (_, Some(failure)) => self.give_up(call, Fault::Failed(failure), tell),
            (_, None) if self.lost_of(from).is_some() => self.give_up(call, Fault::Lost, tell),
            // Whoever is only silent may still answer.
            (_, None) => {}
        }
    }
}
