//! What a caller tells its memory server of the sites, and hears of where slots are.

use std::time::Duration;

use outboard_contract::{Link, RemoteMemory};
use outboard_steering::Site;
use outboard_wire::calling::{ASK, Ask, OBSERVED, Observed};
use outboard_wire::{Flow, FrameHead, Time};

use super::{Dispatcher, Placement};
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

impl Reporter {
    pub(super) fn is_open_here(&self) -> bool {
        self.is_open_here
    }
}

impl<L: Link + RemoteMemory, A: Link> Dispatcher<L, A> {
    /// Lets the server move calls here as well, to whoever calls.
    pub fn open_here(&mut self) {
        self.reporter.is_open_here = true;
    }

    /// Takes over a table that has come, asks for one that was heard of, and says what it sees of sites when it is time.
    pub(super) fn talk_of_sites(&mut self) {
        if self.placement != Placement::Steered {
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
        let ask = Ask { epoch: self.table.epoch() };
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
}
