//! The caller's own thread as a site, and the functions that are to run there.
//!
//! Looking at one takes long, and calls go on meanwhile: the owner of the dispatcher looks at the one that
//! [`Dispatcher::unprepared`] names, in whichever thread it has for that, and hands the result to [`Dispatcher::prepared`].

use std::sync::Arc;

use outboard_contract::{Completion, Link, RemoteMemory};
use outboard_steering::Site;
use outboard_wire::Time;
use outboard_wire::calling::{Allowed, Call, CallerId, Continue, FunctionName, Moving};

use super::Dispatcher;
use super::register::{FunctionNeeds, Known};
use super::site_link::Said;
use crate::site::{Regions, find_all};
use crate::{
    Ambient, Binding, ExecutionOutcome, Executor, ExecutorClient, ExecutorConfig, FunctionImage,
    PreparedFunction, Recalled, Refused, RemoteAccess, RemoteRegion, Submitted, WINDOW,
};

/// How much fuel is spent on calls in one turn: some tens of microseconds.
const FUEL_PER_TURN: u64 = 50_000;

/// Runs calls in the caller's own thread, on regions that a link reaches.
pub(super) struct LocalSite {
    executor: Executor<RemoteRegion>,
    client: ExecutorClient,
    access: RemoteAccess,
}

impl LocalSite {
    pub(super) fn new(ambient: Ambient) -> Self {
        let calls = WINDOW as usize;
        let config = ExecutorConfig {
            calls_per_client: calls,
            calls_per_function: calls,
            bytes_per_client: usize::MAX,
            ..ExecutorConfig::default()
        };
        let mut executor = Executor::new(config);
        let client = executor.open(Arc::default());
        Self { executor, client, access: RemoteAccess::new(ambient, false) }
    }

    /// The regions of a function, when all are open.
    pub(super) fn find(&mut self, allowed: &[Allowed]) -> Result<Option<Regions<RemoteRegion>>, Refused> {
        find_all(CallerId([0; 16]), allowed, &mut self.access)
    }

    /// From now on `handle` means this.
    pub(super) fn bind(
        &mut self,
        handle: u32,
        function: Arc<PreparedFunction>,
        regions: Regions<RemoteRegion>,
        (fuel, reply_max): (u64, u32),
    ) {
        // It has not been called before.
        self.executor.bind(self.client, handle, Binding { function, regions, fuel, reply_max });
    }

    #[inline]
    pub(super) fn submit(&mut self, now: Time, call: &Call, arguments: &[u8]) -> Submitted {
        let fill = |buffer: &mut [u8]| buffer.copy_from_slice(arguments);
        self.executor.submit(now, self.client, call, (arguments.len(), fill))
    }

    /// Takes a call that has begun at another memory server.
    pub(super) fn submit_rest(&mut self, now: Time, rest: &Continue, arguments: &[u8]) -> Submitted {
        self.executor.submit_rest(now, self.client, rest, arguments)
    }

    /// Gives calls up that can go on elsewhere.
    pub(super) fn recall(&mut self, calls: &[u64], give: impl FnMut(Recalled<'_>)) {
        self.executor.recall(self.client, calls, give);
    }

    /// Takes a call that has begun elsewhere.
    pub(super) fn resume(&mut self, now: Time, moving: &Moving<'_>) -> Submitted {
        self.executor.admit(now, self.client, moving)
    }

    /// An operation that this site has begun on the link has ended.
    pub(super) fn on_completion(&mut self, completion: &Completion) {
        let Self { executor, access, .. } = self;
        access.on_completion(completion, |ticket, answered| executor.complete(ticket, answered));
    }

    /// Runs calls for a while. Returns whether anything moved.
    pub(super) fn run<L: RemoteMemory>(
        &mut self,
        now: Time,
        link: &mut L,
        mut tell: impl FnMut(u64, Said<'_>),
    ) -> bool {
        let Self { executor, access, .. } = self;
        // The owner of the link sees its loss.
        let mut moved = access.work(link).unwrap_or(false);
        access.refused(|ticket, answered| executor.complete(ticket, answered));
        if !executor.is_idle() {
            moved = true;
            executor.run(
                now,
                &mut access.site(link),
                FUEL_PER_TURN,
                |ExecutionOutcome { call, result, .. }| {
                    tell(call, result);
                },
            );
            access.refused(|ticket, answered| executor.complete(ticket, answered));
        }
        moved
    }

    /// Whether nothing can be done until the link brings something.
    pub(super) fn is_idle(&self) -> bool {
        self.executor.is_idle()
    }
}

impl<L: Link + RemoteMemory, A: Link> Dispatcher<L, A> {
    /// Has functions run here too if calls are to come here, one after the other.
    #[inline]
    pub(super) fn introduce_here(&mut self) {
        if self.is_wanted_here && self.unprepared.is_none() && self.placement.is_free() {
            let awaited = |known: &Known| !known.is_at(Site::Application) && known.not_here.is_none();
            match self.functions.iter().position(awaited) {
                Some(handle) => {
                    let handle = handle as u32;
                    self.unprepared = self.regions_here(handle).map(|_| handle);
                }
                None => self.is_wanted_here = false,
            }
        }
    }

    /// The function that is to be looked at.
    #[inline]
    pub fn unprepared(&self) -> Option<&FunctionImage> {
        self.unprepared.map(|handle| self.functions[handle as usize].image())
    }

    /// What came of looking at a function that was [to be looked at](Self::unprepared). It may be forgotten meanwhile.
    pub fn prepared(&mut self, name: FunctionName, prepared: Result<PreparedFunction, Refused>) {
        let functions = &self.functions;
        let is_it = |handle: &mut u32| functions[*handle as usize].image().name() == name;
        let Some(handle) = self.unprepared.take_if(is_it) else { return };
        if let Some(regions) = self.regions_here(handle) {
            self.bind_here(handle, prepared, regions);
        }
    }

    /// The regions of a function, once all of them are open here.
    pub(super) fn regions_here(&mut self, handle: u32) -> Option<Regions<RemoteRegion>> {
        let known = &mut self.functions[handle as usize];
        let found = self.here.find(&known.wanted().regions);
        found.unwrap_or_else(|refused| {
            known.not_here = Some(refused);
            None
        })
    }

    pub(super) fn bind_here(
        &mut self,
        handle: u32,
        prepared: Result<PreparedFunction, Refused>,
        regions: Regions<RemoteRegion>,
    ) {
        let known = &mut self.functions[handle as usize];
        let FunctionNeeds { fuel, reply_max, .. } = *known.wanted();
        match prepared {
            Ok(function) => {
                self.here.bind(handle, Arc::new(function), regions, (fuel, reply_max));
                known.set_at(Site::Application, true);
            }
            Err(refused) => known.not_here = Some(refused),
        }
    }
}
