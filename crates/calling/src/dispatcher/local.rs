//! The caller's own thread as a site.

use std::sync::Arc;

use outboard_contract::{Completion, RemoteMemory};
use outboard_wire::Time;
use outboard_wire::calling::{Allowed, Call, CallerId, Continue, Moving};

use super::site_link::Said;
use crate::desk::Regions;
use crate::remote::{RemoteAccess, RemoteRegion};
use crate::{
    Ambient, Binding, Client, Executor, ExecutorConfig, Function, Outcome, Recalled, Refused, Submitted,
    WINDOW,
};

/// How much fuel is spent on calls in one turn: some tens of microseconds.
const FUEL_PER_TURN: u64 = 50_000;

/// Runs calls in the thread of whoever makes them, on regions that a link reaches.
pub(super) struct LocalSite {
    executor: Executor<RemoteRegion>,
    client: Client,
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
        crate::desk::find_all(CallerId([0; 16]), allowed, &mut self.access)
    }

    /// From now on `handle` means this.
    pub(super) fn bind(
        &mut self,
        handle: u32,
        function: Arc<Function>,
        regions: Regions<RemoteRegion>,
        (fuel, reply_max): (u64, u32),
    ) {
        // Nobody has called it before.
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
        // A loss is seen by whoever listens to the link.
        let mut moved = access.work(link).unwrap_or(false);
        access.refused(|ticket, answered| executor.complete(ticket, answered));
        if !executor.is_idle() {
            moved = true;
            executor.run(now, &mut access.site(link), FUEL_PER_TURN, |Outcome { call, result, .. }| {
                tell(call, result);
            });
            access.refused(|ticket, answered| executor.complete(ticket, answered));
        }
        moved
    }

    /// Whether nothing can be done until the link brings something.
    pub(super) fn is_idle(&self) -> bool {
        self.executor.is_idle()
    }
}
