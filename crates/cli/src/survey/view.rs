//! The states of daemons, for people and for programs.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use comfy_table::CellAlignment;
use outboard_agent::StatusView;
use serde_json::{Map, Value, json};

use super::{Sight, Sights};
use crate::daemon_ready::show;
use crate::{numbers, terminal};

/// A table for each daemon.
pub(crate) fn to_text(sights: &Sights) -> String {
    let failed =
        sights.failed.iter().map(|(address, error)| format!("{address}: {}", crate::failure::chain(error)));
    sights.seen.iter().map(table).chain(failed).collect::<Vec<_>>().join("\n\n")
}

/// The numbers whose changes are told in lines: who is there, how much is used, and errors.
const TOLD: [&str; 8] = [
    "clients",
    "memory_servers_connected",
    "peer_agents_connected",
    "routed_ranks",
    "regions",
    "used_bytes",
    "cache_used_bytes",
    "errors_total",
];

/// A line for each of these numbers that is not what it was; `known` is what it was.
pub(crate) fn changes(sights: &Sights, known: &mut BTreeMap<String, u64>) -> Vec<String> {
    let mut lines = Vec::new();
    for sight in &sights.seen {
        let entries = sight.view.entries.iter().filter(|(name, _)| TOLD.contains(&name.as_str()));
        for (name, value) in entries {
            let daemon = &sight.view.name;
            let before = known.insert(format!("{daemon}.{name}"), *value);
            if before.unwrap_or(0) != *value {
                lines.push(format!("{daemon}: {} {}", spoken(name), shown(name, *value)));
            }
        }
    }
    lines
}

/// An array with an object for each daemon.
pub(crate) fn to_json(sights: &Sights) -> String {
    Value::Array(sights.seen.iter().map(object).collect()).to_string()
}

fn table(sight: &Sight) -> String {
    let StatusView { role, name, pid, .. } = &sight.view;
    let (place, up) = (show(&sight.addresses), numbers::uptime(uptime(sight)));
    let mut table = terminal::table(["number", "now", "per second"]);
    for (index, (name, value)) in sight.view.entries.iter().enumerate() {
        let rate = sight.rates.as_ref().and_then(|rates| rates.get(index)).filter(|_| is_counter(name));
        let rate = rate.map(|rate| shown_rate(name, *rate)).unwrap_or_default();
        table.add_row([spoken(name), shown(name, *value), rate]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    if sight.rates.is_none()
        && let Some(rate) = table.column_mut(2)
    {
        rate.set_constraint(comfy_table::ColumnConstraint::Hidden);
    }
    let lines: String = sight.view.lines.iter().map(|line| format!("\n{line}")).collect();
    format!("{role} “{name}” (process {pid}) at {place}, up {up}\n{table}{lines}")
}

fn object(sight: &Sight) -> Value {
    let StatusView { role, name, pid, entries, .. } = &sight.view;
    let addresses: Vec<String> = sight.addresses.iter().map(ToString::to_string).collect();
    let counted: Map<String, Value> =
        entries.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    let mut object = json!({
        "role": role.to_string(), "name": name, "pid": pid, "addresses": addresses, "link": sight.link,
        "uptime_s": uptime(sight).as_secs_f64(), "numbers": counted, "lines": sight.view.lines,
    });
    if let Some(rates) = &sight.rates {
        let counters = entries.iter().zip(rates).filter(|((name, _), _)| is_counter(name));
        let rates: Map<String, Value> =
            counters.map(|((name, _), rate)| (name.clone(), json!(rate))).collect();
        object["per_second"] = Value::Object(rates);
    }
    object
}

pub(super) fn uptime(sight: &Sight) -> Duration {
    SystemTime::now().duration_since(sight.view.started).unwrap_or_default()
}

/// Whether it only grows.
pub(super) fn is_counter(name: &str) -> bool {
    name.ends_with("_total")
}

/// `clients_lost_total` as people say it; the unit stands beside the number.
pub(super) fn spoken(name: &str) -> String {
    let (name, ending) = match name.strip_suffix("_total") {
        Some(name) => (name, " so far"),
        None => (name, ""),
    };
    let name =
        ["_bytes", "_bytes_per_second"].iter().find_map(|unit| name.strip_suffix(unit)).unwrap_or(name);
    name.replace('_', " ") + ending
}

fn shown(name: &str, value: u64) -> String {
    if is_bytes(name) {
        numbers::bytes(value)
    } else if name.ends_with("_bytes_per_second") {
        numbers::bandwidth(value, Duration::from_secs(1))
    } else {
        value.to_string()
    }
}

/// How much a number grows in a second.
pub(super) fn shown_rate(name: &str, rate: f64) -> String {
    match is_bytes(name) && rate >= 0.5 {
        true => numbers::bandwidth(rate as u64, Duration::from_secs(1)),
        false => format!("{rate:.0}"),
    }
}

pub(super) fn is_bytes(name: &str) -> bool {
    name.ends_with("_bytes") || name.ends_with("_bytes_total")
}

#[cfg(test)]
mod tests {
    use outboard_wire::Role;

    use super::*;

    fn sight(rates: Option<Vec<f64>>) -> Sight {
        let entries = vec![("used_bytes".to_owned(), 3 << 20), ("echoes_total".to_owned(), 100)];
        let started = SystemTime::now() - Duration::from_secs(61);
        let lines = vec!["region 7: dynamic".to_owned()];
        let view = StatusView { role: Role::Agent, name: "node-7".into(), pid: 12, started, entries, lines };
        Sight { addresses: vec!["unix:@a".parse().unwrap()], link: "shm", view, rates }
    }

    #[test]
    fn people_see_numbers_with_units_and_rates_only_of_what_grows() {
        let text = table(&sight(Some(vec![9.0, 25.0])));
        assert!(text.starts_with("agent “node-7” (process 12) at unix:@a, up 1 min 1 s\n"), "{text}");
        assert!(text.contains("3 MiB") && text.contains("echoes so far") && text.contains("25"), "{text}");
        assert!(!text.contains(" 9 "), "{text}");
        assert!(text.ends_with("\nregion 7: dynamic"), "{text}");
        assert!(!table(&sight(None)).contains("per second"));
    }

    #[test]
    fn only_what_people_want_to_know_is_told_in_lines() {
        let mut sight = sight(None);
        let more = ["descriptors_max", "idle_client_max_bytes", "memory_left_bytes", "slots_server"];
        sight.view.entries.extend(more.map(|name| (name.to_owned(), 7)));
        let (mut known, sights) = (BTreeMap::new(), Sights { seen: vec![sight], failed: Vec::new() });
        assert_eq!(changes(&sights, &mut known), ["node-7: used 3 MiB"]);
        assert!(changes(&sights, &mut known).is_empty());
    }

    #[test]
    fn bytes_have_units_whatever_is_said_of_them() {
        let said = |name, value| format!("{}: {}", spoken(name), shown(name, value));
        assert_eq!(said("cache_bytes", 8 << 20), "cache: 8 MiB");
        assert_eq!(said("read_from_servers_bytes_total", 3 << 29), "read from servers so far: 1.50 GiB");
        assert_eq!(said("net_bytes_per_second", 2_500_000_000), "net: 2.50 GB/s");
        assert_eq!(said("echoes_total", 7), "echoes so far: 7");
        assert_eq!(
            (shown_rate("a_bytes_total", 2e6), shown_rate("a_total", 2e6)),
            ("2 MB/s".into(), "2000000".into())
        );
        assert_eq!(shown_rate("a_bytes_total", 0.0), "0");
    }

    #[test]
    fn programs_see_the_names_as_they_are() {
        let object = object(&sight(Some(vec![9.0, 25.0])));
        assert_eq!(object["numbers"]["used_bytes"], 3 << 20);
        assert_eq!(object["per_second"], json!({"echoes_total": 25.0}));
        assert_eq!((&object["pid"], &object["role"]), (&json!(12), &json!("agent")));
        assert_eq!(object["lines"], json!(["region 7: dynamic"]));
    }
}
