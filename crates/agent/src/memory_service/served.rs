//! What this server's processors do for those who do not reach its memory by themselves.

use std::collections::HashMap;

use outboard_driver::LinkId;
use outboard_link::{Link, OneSided};

use crate::status::{Gauge, StatusPage};

/// Openings, reads, writes and atomics that were served over all links.
pub(super) struct ServedCount(Gauge);

impl ServedCount {
    pub(super) fn new(page: &StatusPage) -> Self {
        Self(page.gauge("accesses_served_total"))
    }
}

/// What was counted already, of the links of one worker.
#[derive(Default)]
pub(super) struct Served(HashMap<LinkId, u64>);

impl Served {
    /// Counts what a link has served since it was last looked at.
    #[inline]
    pub(super) fn look<L: Link>(&mut self, id: LinkId, link: &L, count: &ServedCount) {
        // Where memory is mapped, opening it is all that is ever asked for, and no access should pay for counting that.
        if link.capabilities().one_sided == OneSided::Mapped {
            return;
        }
        let (served, seen) = (link.counters().accesses_served, self.0.entry(id).or_default());
        if served != *seen {
            count.0.add(served - *seen);
            *seen = served;
        }
    }

    pub(super) fn forget(&mut self, id: LinkId) {
        self.0.remove(&id);
    }
}
