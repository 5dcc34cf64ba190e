//! What a caller tells its memory server of the sites, and hears of where slots are. What calls would cost at a site that has
//! none, a call shows now and then.

use std::time::Duration;

use outboard_contract::{Link, RemoteMemory};
use outboard_steering::Site;
use outboard_wire::calling::{ASK, Call, OBSERVED, Observed, SlotQuestion};
use outboard_wire::{Flow, FrameHead, Time};

use super::elsewhere::ORDER;
use super::flight::bit;
use super::{CallPlacement, Dispatcher};
use crate::SlotTable;

/// How often a caller says what it sees, while it calls.
const REPORT_EVERY: Duration = Duration::from_millis(1);

/// What was said, and asked.
#[derive(Debug, Default)]
pub(super) struct Reporter {
    reported_at: Time,
    /// The label of a newer table that was asked for.
    asked_for: Option<Flow>,
    is_introduced: bool,
    /// Calls may be moved here as well.
    is_open_here: bool,
}

impl<L: Link + RemoteMemory, A: Link> Dispatcher<L, A> {
    /// Lets the server move calls here as well, to the caller's own process.
    pub fn open_here(&mut self) {
        self.reporter.is_open_here = true;
    }

    /// Takes over a table that has come, asks for one that was heard of, and says what it sees of sites when it is time.
    pub(super) fn talk_of_sites(&mut self) {
        if self.placement != CallPlacement::Steered {
            return;
        }
        if let Some(table) = self.server.heard.table.take() {
            self.adopt(SlotTable::from_wire(&table));
        }
        if !self.reporter.is_introduced {
            self.reporter.is_introduced = self.ask();
        }
        let labels = [Some(self.server.heard.label), self.agent.as_ref().map(|agent| agent.heard.label)];
        let newer = labels.into_iter().flatten().find(|label| self.table.is_older_than(*label));
        if newer.is_some() && newer != self.reporter.asked_for && self.ask() {
            self.reporter.asked_for = newer;
        }
        if self.now - self.reporter.reported_at >= REPORT_EVERY {
            self.reporter.reported_at = self.now;
            self.report();
        }
    }

    fn ask(&mut self) -> bool {
        let ask = SlotQuestion { epoch: self.table.epoch() };
        // Where there is no room now, there is later.
        self.server.send(FrameHead::new(ASK), &ask.encode()).is_ok()
    }

    fn report(&mut self) {
        self.is_wanted_here |= self.reporter.is_open_here;
        let sites = Site::ALL.map(|site| {
            let is_here = match site {
                Site::Server => true,
                Site::Agent => self.agent.is_some(),
                Site::Application => self.reporter.is_open_here,
            };
            let is_known = self.functions.iter().any(|function| function.is_at(site));
            let is_usable =
                is_here && is_known && !self.watch.is_useless(site, self.now) && self.lost_of(site).is_none();
            self.watch.take_seen(site, is_usable, self.now)
        });
        if sites.iter().any(|seen| seen.calls > 0 || seen.left > 0 || seen.oldest_ns > 0) {
            // What is not said now is said the next time, of other calls.
            let _ = self.server.send(FrameHead::new(OBSERVED), &Observed { sites }.encode());
        }
    }

    /// A site other than the one that is meant that is to be probed by such a call.
    fn wants_probe(&self, meant: Site, handle: u32) -> Option<Site> {
        let only_reads = self.functions[handle as usize].only_reads;
        let is_wanted = |site: &Site| {
            *site != meant
                && (*site != Site::Application || self.reporter.is_open_here)
                && self.watch.wants_probe(*site, only_reads, self.now)
                && self.is_usable(*site, handle)
        };
        ORDER.into_iter().find(is_wanted)
    }

    /// Where a call goes that may be a probe: one that may write must not run twice, so it goes there instead.
    #[cold]
    pub(super) fn probe_instead(&mut self, meant: Site, handle: u32) -> Site {
        if self.placement != CallPlacement::Steered || self.functions[handle as usize].only_reads {
            return meant;
        }
        self.wants_probe(meant, handle).unwrap_or(meant)
    }

    /// Notes a probe that goes to another site than was meant, or sends a call that only reads to another site as well. The
    /// first answer counts. Returns where else it is under way, as in [`tried`](super::flight::Flight::tried).
    #[cold]
    pub(super) fn probe(
        &mut self,
        (meant, site): (Site, Site),
        call: &Call,
        (slot, arguments): (u8, &[u8]),
        clock: impl Fn() -> Time,
    ) -> u8 {
        self.watch.probes_done(self.now);
        if meant != site {
            self.watch.probe_begun(site, call.call, true, self.now);
            return 0;
        }
        let only_reads = self.functions[call.handle as usize].only_reads;
        if self.placement != CallPlacement::Steered || !only_reads {
            return 0;
        }
        match self.wants_probe(meant, call.handle) {
            Some(other) if self.send_to(other, call, slot, arguments).is_ok() => {
                self.watch.probe_begun(other, call.call, false, clock());
                bit(other)
            }
            // Without room for it there is another time.
            _ => 0,
        }
    }
}
