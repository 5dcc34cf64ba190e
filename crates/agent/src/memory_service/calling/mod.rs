//! Calls of functions, run by the workers that their links belong to.

mod site;

use std::sync::{Arc, Weak};

use outboard_calling::{CallingDesk, FindRegion, Refused, ServerDesk};
use outboard_driver::LinkId;
use outboard_link::{Disposition, Frame};
use outboard_wire::calling::{Allowed, CallerId, RegisterRefusal};
use outboard_wire::{Rights, Role, Time};

use super::write_backs::Gates;
use super::{MemoryService, SharedStore};
use crate::calling::ambient;
use crate::store::Gate;
use site::ServerSite;

/// What one worker does about calls.
pub(super) struct Calling {
    pub(super) desk: ServerDesk<Weak<Gate>>,
    site: ServerSite,
}

impl Calling {
    pub(super) fn new(store: &SharedStore) -> Self {
        let desk = CallingDesk::new(Arc::clone(&store.calling.calls), store.calling.config);
        let desk = ServerDesk::new(desk, Arc::clone(&store.steering.controller));
        store.steering.add_worker(desk.meter());
        Self { desk, site: ServerSite::new(ambient()) }
    }
}

/// Finds regions in the store.
struct StoreRegions<'a> {
    gates: &'a mut Gates,
    store: &'a SharedStore,
}

impl FindRegion for StoreRegions<'_> {
    type Region = Weak<Gate>;

    fn find(&mut self, _by: CallerId, allowed: &Allowed) -> Result<Option<Weak<Gate>>, Refused> {
        let region = allowed.region;
        let gate = self.gates.find(region, self.store);
        let held = gate.as_ref().and_then(|gate| gate.rights(allowed.generation, &allowed.key));
        let (Some(gate), Some(held)) = (gate, held) else {
            return Err((RegisterRefusal::NoRegion, format!("no {region} with this generation and key")));
        };
        let wanted = allowed.rights.and(Rights::CALL);
        if !held.includes(wanted) {
            let detail = format!("the key to {region} allows {held}, and {wanted} is needed");
            return Err((RegisterRefusal::NoRight, detail));
        }
        // Whoever reaches it from afar believes what is said of its size.
        let size = gate.size();
        if allowed.size > size {
            return Err((
                RegisterRefusal::NoRegion,
                format!("{region} has {size} bytes, not {}", allowed.size),
            ));
        }
        Ok(Some(Arc::downgrade(&gate)))
    }
}

impl MemoryService {
    /// Does what a frame about calls asks.
    pub(super) fn on_calling(&mut self, link: LinkId, frame: Frame<'_>, now: Time) -> Disposition {
        let is_agent = || self.peers.get(&link).is_some_and(|peer| peer.intro().role == Role::Agent);
        let regions = &mut StoreRegions { gates: &mut self.gates, store: &self.store };
        self.calling.desk.on_frame((link, frame, now), is_agent, regions, &mut self.outbox)
    }

    /// Runs calls for a while. Returns whether there were any.
    pub(super) fn run_calls(&mut self, now: Time) -> bool {
        let Calling { desk, site } = &mut self.calling;
        let moved = desk.run(now, site, &mut self.outbox);
        site.leave();
        self.store.calling.counts.add(desk.take_counts(), &self.counts);
        moved
    }
}
