//! The results of a run, for people and for programs.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use comfy_table::Table;
use outboard_messages::{ApplicationReport, Category, NamedNumber};
use serde_json::{Map, Value, json};

use super::agents::{Crowd, Hop};
use crate::{numbers, terminal};

/// A table.
pub(super) fn to_table(report: &ApplicationReport, hops: &[Hop], crowd: Option<&Crowd>) -> String {
    let ranks = if report.ranks == 1 { "1 rank".to_owned() } else { format!("{} ranks", report.ranks) };
    let mut table = terminal::table([report.app.as_str(), &ranks]);
    let seconds = |seconds| numbers::time(Duration::from_secs_f64(seconds));
    table.add_row(["time", &seconds(report.seconds)]);
    table.add_row([format!("{}/s", report.unit), millions(report.rate())]);
    table.add_row([report.unit.clone(), report.work.to_string()]);
    for NamedNumber { name, value } in report.figures.iter().chain(&report.efforts) {
        table.add_row([name.clone(), value.to_string()]);
    }
    let sent = format!("{} in {} bundles", numbers::bytes(report.bytes), report.bundles);
    table.add_row(["sent", &sent]);
    table.add_row(["placement", &report.placement]);
    if let Some(crowd) = crowd {
        table.add_row(["agents", &crowd.to_string()]);
    }
    add_traffic(&mut table, report);
    for Hop { hop, bundles, bytes, average } in hops.iter().filter(|hop| hop.bundles > 0) {
        let [bytes, average] = [*bytes, *average as u64].map(numbers::bytes);
        table.add_row([hop.replace('_', " "), format!("{bytes} in {bundles}, {average} on average")]);
    }
    table.add_row(["waits for a bundle", &report.full.to_string()]);
    if report.violation.is_some() {
        table.add_row(["result", "IMPOSSIBLE"]);
    }
    if let Some(check) = &report.check {
        table.add_row(["serial time", &seconds(check.serial_seconds)]);
        let verdict = if check.difference.is_none() { "passed" } else { "FAILED" };
        table.add_row(["check", verdict]);
    }
    table.to_string()
}

/// The figures that decide whether communication should be done elsewhere.
fn add_traffic(table: &mut Table, report: &ApplicationReport) {
    let between = numbers::bytes(report.bytes_between);
    table.add_row(["between ranks", &format!("{between} in {} bundles", report.bundles_between)]);
    let averages = [report.bundle_bytes(), report.bundle_bytes_between()];
    let [sent, came] = averages.map(|average| numbers::bytes(average as u64));
    table.add_row(["average bundle", &format!("{sent} as sent, {came} from another rank")]);
    let second = Duration::from_secs(1);
    let speed = numbers::bandwidth(report.link_rate as u64, second);
    let share = report.utilisation() * 100.0;
    table.add_row(["network utilisation", &format!("{share:.1} % of {speed}, which all ranks copy at once")]);
    let ratio = match (report.memory_to_communication(), report.memory) {
        (Some(ratio), Some(memory)) => {
            let how = if memory.is_measured { "counted by the processor" } else { ESTIMATED };
            format!("{ratio:.2} ({}), {how}", Category::of(ratio).map_or(CACHED, Category::words))
        }
        _ => UNKNOWN.to_owned(),
    };
    table.add_row(["memory to communication", &ratio]);
}

/// The word in place of a category where there is none.
const CACHED: &str = "all within the caches";
const ESTIMATED: &str = "estimated from sizes: the processor's counters cannot be read here";
const UNKNOWN: &str = "not known: neither cache misses nor the size of the cache can be read here";

/// Leaves what decides about the placement where others look for it, if they do. See `outboard advise`.
pub(super) fn leave_traffic(report: &ApplicationReport, hops: &[Hop]) -> Result<()> {
    let Some(folder) = std::env::var_os("OUTBOARD_REPORT").filter(|folder| !folder.is_empty()) else {
        return Ok(());
    };
    let path = PathBuf::from(folder).join("traffic.json");
    std::fs::write(&path, traffic(report, hops).to_string())
        .with_context(|| format!("cannot write {}", path.display()))
}

/// The results for programs.
fn traffic(report: &ApplicationReport, by_agents: &[Hop]) -> Value {
    let ratio = report.memory_to_communication();
    let hop = |hop, bundles, bytes, average| Hop { hop, bundles, bytes, average };
    let sent = hop("sent", report.bundles, report.bytes, report.bundle_bytes());
    let between =
        hop("between_ranks", report.bundles_between, report.bytes_between, report.bundle_bytes_between());
    let hops: Vec<Hop> = [sent, between].iter().chain(by_agents).copied().collect();
    json!({
        "bytes_routed": report.bytes,
        "hops": hops,
        "link_bytes_per_second": report.link_rate,
        "network_utilisation": report.utilisation(),
        "memory_bytes": report.memory.map(|memory| memory.bytes),
        "memory_is_measured": report.memory.map(|memory| memory.is_measured),
        "memory_to_communication": ratio,
        "category": ratio.and_then(Category::of),
    })
}

/// A rate: `12.3 M`.
fn millions(rate: f64) -> String {
    match rate {
        1e6.. => format!("{:.1} M", rate / 1e6),
        1e3.. => format!("{:.1} k", rate / 1e3),
        _ => format!("{rate:.1}"),
    }
}

/// One object in one line.
pub(super) fn to_json(report: &ApplicationReport, hops: &[Hop], agents_share_processors: bool) -> String {
    let named = |figures: &[NamedNumber]| -> Map<String, Value> {
        figures.iter().map(|NamedNumber { name, value }| (name.replace(' ', "_"), json!(value))).collect()
    };
    let check = report.check.as_ref().map(|check| {
        json!({
            "passed": check.difference.is_none(), "difference": check.difference,
            "serial_seconds": check.serial_seconds,
        })
    });
    json!({
        "app": report.app,
        "ranks": report.ranks,
        "seconds": report.seconds,
        "unit": report.unit,
        "work": report.work,
        "rate": report.rate(),
        "figures": named(&report.figures),
        "efforts": named(&report.efforts),
        "placement": report.placement,
        "agents_share_processors": agents_share_processors,
        "bytes_sent": report.bytes,
        "bundles_sent": report.bundles,
        "bundle_bytes_average": report.bundle_bytes(),
        "traffic": traffic(report, hops),
        "full": report.full,
        "violation": report.violation,
        "check": check,
    })
    .to_string()
}
