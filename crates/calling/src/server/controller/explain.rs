//! What steers slots, in lines for people.

use std::fmt;
use std::time::Duration;

use outboard_steering::Site;
use outboard_wire::Time;

use super::Controller;

impl Controller {
    /// Where slots are, what calls cost there, and why the latest moves were made, for people.
    pub fn explain(&self, now: Time) -> Vec<String> {
        let mut lines = vec![format!("slots: {}, epoch {}", self.counts_text(), self.table.epoch())];
        for site in Site::ALL {
            let record = self.record(site);
            let slots = self.count(site);
            if record.is_usable || slots > 0 {
                lines.push(format!("calls at {site}: {}", self.site_text(site)));
            }
        }
        lines.extend(self.shifts.iter().map(|shift| shift.explain(now, &self.config)));
        lines
    }

    fn counts_text(&self) -> String {
        let counts = self.table.counts();
        let used = Site::ALL.into_iter().filter(|site| counts[*site as usize] > 0);
        let texts: Vec<String> = used.map(|site| format!("{} at {site}", counts[site as usize])).collect();
        texts.join(", ")
    }

    fn site_text(&self, site: Site) -> String {
        let record = self.record(site);
        let mut text = match record.recent_ns().zip(record.usual_ns()) {
            Some((recent, usual)) => format!("{} each, usually {}", Ns(recent), Ns(usual)),
            None => "no recent measurement".to_owned(),
        };
        text.push_str(&format!(", {:.0} a second", record.rate * 1e9));
        if let Some(work) = record.work {
            text.push_str(&format!(", {:.0} % busy", work.busy * 100.0));
        }
        let left = self.callers.left_total(site);
        if left > 0 {
            text.push_str(&format!(", {left} went elsewhere because it was silent"));
        }
        text
    }
}

/// A cost for people.
struct Ns(f64);

impl fmt::Display for Ns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1?}", Duration::from_nanos(self.0 as u64))
    }
}
