//! What came out, for people and for programs.

use std::time::Duration;

use outboard_messages::{Figure, Report};
use serde_json::{Map, Value, json};

use crate::{numbers, terminal};

/// A table.
pub(super) fn to_table(report: &Report) -> String {
    let ranks = if report.ranks == 1 { "1 rank".to_owned() } else { format!("{} ranks", report.ranks) };
    let mut table = terminal::table([report.app.as_str(), &ranks]);
    let seconds = |seconds| numbers::time(Duration::from_secs_f64(seconds));
    table.add_row(["time", &seconds(report.seconds)]);
    table.add_row([format!("{}/s", report.unit), millions(report.rate())]);
    table.add_row([report.unit.clone(), report.work.to_string()]);
    for Figure { name, value } in report.figures.iter().chain(&report.efforts) {
        table.add_row([name.clone(), value.to_string()]);
    }
    let sent = format!("{} in {} bundles", numbers::bytes(report.bytes), report.bundles);
    table.add_row(["sent", &sent]);
    table.add_row(["average bundle", &numbers::bytes(report.bundle_bytes() as u64)]);
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

/// A rate: `12.3 M`.
fn millions(rate: f64) -> String {
    match rate {
        1e6.. => format!("{:.1} M", rate / 1e6),
        1e3.. => format!("{:.1} k", rate / 1e3),
        _ => format!("{rate:.1}"),
    }
}

/// One object in one line.
pub(super) fn to_json(report: &Report) -> String {
    let named = |figures: &[Figure]| -> Map<String, Value> {
        figures.iter().map(|Figure { name, value }| (name.replace(' ', "_"), json!(value))).collect()
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
        "bytes_sent": report.bytes,
        "bundles_sent": report.bundles,
        "bundle_bytes_average": report.bundle_bytes(),
        "full": report.full,
        "violation": report.violation,
        "check": check,
    })
    .to_string()
}
