//! The reports of ranks about themselves.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value};

/// No report is longer.
const REPORT_MAX: u64 = 1 << 16;

/// The report of one rank; besides this it has a pair of numbers for each hop.
#[derive(Deserialize)]
struct RankReport {
    placement: String,
    seconds: f64,
    bytes_sent: u64,
    bytes_handled: u64,
    waited_seconds: f64,
    #[serde(flatten)]
    others: Map<String, Value>,
}

/// Bundles that went one way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Hop {
    pub(super) bundles: u64,
    pub(super) bytes: u64,
}

impl Hop {
    /// Bytes of a bundle.
    pub(super) fn average(self) -> u64 {
        self.bytes / self.bundles.max(1)
    }
}

/// The reports of all ranks of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Summary {
    /// How many ranks there were.
    pub(super) ranks: usize,
    /// The process that moved messages, as the program says.
    pub(super) placement: String,
    /// How long the slowest was at it.
    pub(super) seconds: f64,
    pub(super) bytes_sent: u64,
    pub(super) bytes_handled: u64,
    /// The share of their time in which ranks had nothing to do.
    pub(super) waited: f64,
    /// By name: `own`, `direct` and whatever else there is.
    pub(super) hops: BTreeMap<String, Hop>,
}

impl Summary {
    /// Bytes of messages that were handled in a second.
    pub(super) fn rate(&self) -> f64 {
        self.bytes_handled as f64 / self.seconds.max(1e-9)
    }

    /// Reads the reports in a folder; none if there are none.
    pub(super) fn read(folder: &Path) -> Option<Self> {
        let mut reports = Vec::new();
        for entry in fs::read_dir(folder).ok()?.flatten() {
            let name = entry.file_name();
            let is_report =
                name.to_str().is_some_and(|name| name.starts_with("rank-") && name.ends_with(".json"));
            reports.extend(is_report.then(|| parse(&entry.path())).flatten());
        }
        Self::of(&reports)
    }

    fn of(reports: &[RankReport]) -> Option<Self> {
        let first = reports.first()?;
        let mut hops = BTreeMap::<String, Hop>::new();
        let number = |value: Option<&Value>| value.and_then(Value::as_u64).unwrap_or(0);
        for RankReport { others, .. } in reports {
            for (name, bundles) in others.iter() {
                let Some(name) = name.strip_suffix("_bundles") else { continue };
                let hop = hops.entry(name.to_owned()).or_default();
                hop.bundles += number(Some(bundles));
                hop.bytes += number(others.get(&format!("{name}_bytes")));
            }
        }
        let all: f64 = reports.iter().map(|report| report.seconds).sum();
        let waited: f64 = reports.iter().map(|report| report.waited_seconds).sum();
        Some(Self {
            ranks: reports.len(),
            placement: first.placement.clone(),
            seconds: reports.iter().map(|report| report.seconds).fold(0.0, f64::max),
            bytes_sent: reports.iter().map(|report| report.bytes_sent).sum(),
            bytes_handled: reports.iter().map(|report| report.bytes_handled).sum(),
            waited: waited / all.max(1e-9),
            hops,
        })
    }
}

/// The size of its memory, as the program itself or its user knows it.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub(super) struct Traffic {
    pub(super) memory_to_communication: Option<f64>,
    pub(super) memory_is_measured: Option<bool>,
    pub(super) network_utilisation: Option<f64>,
}

/// The size of memory that the folder says.
pub(super) fn traffic(folder: &Path) -> Option<Traffic> {
    parse(&folder.join("traffic.json"))
}

fn parse<T: for<'de> Deserialize<'de>>(path: &Path) -> Option<T> {
    let mut text = String::new();
    File::open(path).ok()?.take(REPORT_MAX).read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(seconds: f64, bytes: u64) -> RankReport {
        let text = format!(
            r#"{{"rank":0,"ranks":2,"placement":"inline","is_over":true,"seconds":{seconds},"bytes_sent":{bytes},
                "bytes_handled":{bytes},"own_bundles":1,"own_bytes":{bytes},"direct_bundles":2,"direct_bytes":600,
                "full":1,"waited_seconds":1.0}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn ranks_are_added_up() {
        assert_eq!(Summary::of(&[]), None);
        let summary = Summary::of(&[report(3.0, 100), report(5.0, 200)]).unwrap();
        assert_eq!((summary.ranks, summary.seconds, summary.rate()), (2, 5.0, 60.0));
        assert_eq!((summary.waited, summary.bytes_sent), (0.25, 300));
        assert_eq!(summary.hops["direct"], Hop { bundles: 4, bytes: 1200 });
        assert_eq!((summary.hops["direct"].average(), summary.hops["own"].average()), (300, 150));
        assert_eq!(summary.hops.len(), 2);
    }
}
