//! The advice, for people and for programs.

use std::time::Duration;

use anyhow::Error;
use outboard_messages::Category;
use outboard_settings::MessagesPlacement;
use serde_json::{Value, json};

use super::reports::Summary;
use super::trial::{COMPARED, Tried};
use super::verdict::Verdict;
use crate::{numbers, terminal};

/// A table, and what to do.
pub(super) fn to_table(verdict: &Verdict, tried: &[Result<&Tried, &Error>]) -> String {
    let mut table = terminal::table(["placement", "handled", "waited", "average bundle", "network", "runs"]);
    for (placement, tried) in COMPARED.iter().zip(tried) {
        match tried {
            Ok(Tried { summary, runs, was_cut, utilisation, .. }) => table.add_row([
                placement.name().to_owned(),
                numbers::bandwidth(summary.rate() as u64, Duration::from_secs(1)),
                format!("{:.1} %", summary.waited * 100.0),
                bundles(summary),
                utilisation.map_or("–".to_owned(), |share| format!("{:.1} %", share * 100.0)),
                if *was_cut { format!("{runs}, ended before its time") } else { runs.to_string() },
            ]),
            Err(error) => table.add_row([placement.name(), &format!("no result: {error:#}")]),
        };
    }
    let memory = match verdict.ratio {
        Some((ratio, is_measured)) => {
            let how = if is_measured { "counted by the processor" } else { "estimated" };
            let category = verdict.category.map_or("all within the caches", Category::words);
            format!("memory to communication: {ratio:.2} ({category}), {how}")
        }
        None => "memory to communication: not known, the processor's counters cannot be read here".to_owned(),
    };
    format!("{table}\n{memory}\nuse {}: {}", verdict.placement.name(), verdict.why)
}

fn bundles(summary: &Summary) -> String {
    let used = summary.hops.iter().filter(|(_, hop)| hop.bundles > 0);
    let hops: Vec<_> = used.map(|(name, hop)| format!("{} {name}", numbers::bytes(hop.average()))).collect();
    hops.join(", ")
}

/// One object in one line.
pub(super) fn to_json(verdict: &Verdict, tried: &[Result<&Tried, &Error>]) -> String {
    let placements: Vec<Value> =
        COMPARED.iter().zip(tried).map(|(placement, tried)| one(*placement, tried)).collect();
    json!({
        "use": verdict.placement.name(),
        "why": verdict.why,
        "agent_over_inline": verdict.gain,
        "memory_to_communication": verdict.ratio.map(|(ratio, _)| ratio),
        "memory_is_measured": verdict.ratio.map(|(_, is_measured)| is_measured),
        "category": verdict.category,
        "placements": placements,
    })
    .to_string()
}

fn one(placement: MessagesPlacement, tried: &Result<&Tried, &Error>) -> Value {
    let Tried { summary, runs, was_cut, utilisation, .. } = match tried {
        Ok(tried) => tried,
        Err(error) => return json!({ "placement": placement.name(), "failure": format!("{error:#}") }),
    };
    let hop = |(name, hop): (&String, &super::reports::Hop)| json!({ "hop": name, "bundles": hop.bundles, "bytes": hop.bytes, "average": hop.average() });
    json!({
        "placement": placement.name(),
        "ranks": summary.ranks,
        "seconds": summary.seconds,
        "bytes_sent": summary.bytes_sent,
        "bytes_handled": summary.bytes_handled,
        "bytes_per_second": summary.rate(),
        "waited": summary.waited,
        "hops": summary.hops.iter().map(hop).collect::<Vec<_>>(),
        "network_utilisation": utilisation,
        "runs": runs,
        "was_cut": was_cut,
    })
}
