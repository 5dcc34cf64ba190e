//! Where calls run and why, in lines for people.

use std::time::Duration;

use outboard_calling::{CallPlacement, NoRoom, SiteReport, slot_of};
use outboard_steering::Site;

use super::servers::Server;
use super::{Caller, NoRoomBecause};

impl Caller {
    /// How many of the 256 slots of the first memory server each site has, as far as this caller has heard, in the order of
    /// [`CallSite::ALL`](super::CallSite::ALL).
    pub fn slots(&self) -> [usize; 3] {
        self.site.first().client().table().counts()
    }

    /// At which site calls of a key run now that begin at the first memory server, and why, for people.
    pub fn explain_key(&self, key: &[u8]) -> Vec<String> {
        let server = self.site.first().client();
        let (slot, table) = (slot_of(key), server.table());
        let said = table.site(slot);
        let (wanted, why) = match server.placement() {
            CallPlacement::Fixed(site) => (site, "fixed by the caller".to_owned()),
            CallPlacement::Hinted(site) => (site, "hinted by the caller".to_owned()),
            CallPlacement::Steered => {
                (said, format!("slot {slot} is there by the server's table of epoch {}", table.epoch()))
            }
        };
        let report = server.sites()[wanted as usize];
        vec![match report.is_silent {
            true => format!("elsewhere than at {wanted}, which has fallen silent; {why}"),
            false => format!("{wanted}: {why}"),
        }]
    }

    /// Where slots are, and what this caller has seen of the sites, in lines for people.
    pub fn explain(&self) -> Vec<String> {
        let several = self.site.count() > 1;
        let numbered = self.site.all().iter().enumerate();
        let lines = numbered.flat_map(|(number, server)| {
            let head = several.then(|| format!("memory server {number}, {}:", server.client().peer()));
            let crossing = match self.site.waiting_for(number) {
                0 => None,
                calls => Some(format!("{calls} calls wait to go on here")),
            };
            head.into_iter().chain(explain(server)).chain(crossing)
        });
        lines.collect()
    }

    /// Why a call of that function, by its server and number, has not begun.
    pub(super) fn why(&self, (server, handle): (u8, u32), lacking: NoRoom) -> NoRoomBecause {
        if let Some((server, calls)) = self.site.crowded(server, handle) {
            return NoRoomBecause::Crossing { calls, server };
        }
        let reports = self.site.at(server).client().sites();
        let is_silent = |site: &Site| {
            let report = reports[*site as usize];
            report.is_silent && report.under_way > 0
        };
        match lacking {
            NoRoom::UnderWay => NoRoomBecause::UnderWay {
                calls: reports.iter().map(|report| report.under_way).sum(),
                silent: Site::ALL.into_iter().find(is_silent),
            },
            NoRoom::Site => NoRoomBecause::Site,
            NoRoom::Learning => NoRoomBecause::Learning,
        }
    }
}

fn explain(server: &Server) -> Vec<String> {
    let server = server.client();
    let table = server.table();
    let (counts, reports) = (table.counts(), server.sites());
    let line = |site: Site| {
        let (slots, report) = (counts[site as usize], reports[site as usize]);
        let is_used = slots > 0 || report.answered > 0 || report.under_way > 0;
        is_used.then(|| format!("{site}: {slots} slots, {}", seen(&report)))
    };
    let head = match server.placement() {
        CallPlacement::Steered => {
            format!("calls go where the server's table of epoch {} says", table.epoch())
        }
        CallPlacement::Hinted(site) => format!("calls go to the {site} while it answers, as hinted"),
        CallPlacement::Fixed(site) => format!("calls go to the {site} only, as fixed"),
    };
    std::iter::once(head).chain(Site::ALL.into_iter().filter_map(line)).collect()
}

fn seen(report: &SiteReport) -> String {
    let SiteReport { answered, under_way, round_trip, is_silent, detours, .. } = report;
    let took = match *round_trip {
        Duration::ZERO => String::new(),
        took => format!(", {took:.1?} each"),
    };
    let silent = if *is_silent { ", silent" } else { "" };
    let left = match detours {
        0 => String::new(),
        times => format!(", left {times} times because it was silent"),
    };
    format!("{answered} calls answered{took}, {under_way} under way{silent}{left}")
}
