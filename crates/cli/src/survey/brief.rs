//! The few lines that matter of what was seen.

use crate::daemon_ready::show;
use crate::terminal::{Paint, paint};
use crate::{failure, numbers};

use super::view::{is_bytes, is_counter, shown_rate, spoken, uptime};
use super::{Sight, Sights};

/// Some lines for each daemon: who it is and where, who is connected, its memory, what moves, what went wrong.
pub(crate) fn to_brief(sights: &Sights) -> String {
    let failed = sights
        .failed
        .iter()
        .map(|(address, error)| paint(Paint::Bad, &format!("{address}: {}", failure::chain(error))));
    sights.seen.iter().map(daemon).chain(failed).collect::<Vec<_>>().join("\n")
}

fn daemon(sight: &Sight) -> String {
    let view = &sight.view;
    let head = format!("{} “{}”", view.role, view.name);
    let up = numbers::uptime(uptime(sight));
    let mut lines = vec![format!("{} (process {}), up {up}", paint(Paint::Head, &head), view.pid)];
    let mut line = |name: &str, text: String| lines.push(format!("  {name:<11} {text}"));
    line("at", show(&sight.addresses));
    line("connected", connected(sight));
    if let Some(memory) = memory(sight) {
        line("memory", memory);
    }
    line("per second", moving(sight));
    line("went wrong", wrong(sight));
    lines.join("\n")
}

/// The kinds of processes that a daemon may be connected with, and how people call one and several of them.
const CONNECTED: [(&str, &str, &str); 4] = [
    ("clients", "client", "clients"),
    ("memory_servers_connected", "memory server", "memory servers"),
    ("peer_agents_connected", "other agent", "other agents"),
    ("routed_ranks", "rank", "ranks"),
];

fn connected(sight: &Sight) -> String {
    let part = |(name, one, several): (&str, &str, &str)| {
        let count = sight.view.get(name).filter(|count| *count > 0)?;
        Some(format!("{count} {}", if count == 1 { one } else { several }))
    };
    let parts: Vec<String> = CONNECTED.into_iter().filter_map(part).collect();
    if parts.is_empty() { "to no process".to_owned() } else { parts.join(", ") }
}

/// How much of its memory is used; nothing of a daemon that has none.
fn memory(sight: &Sight) -> Option<String> {
    let get = |name: &str| sight.view.get(name);
    let of = |used: u64, all: u64| {
        let text = format!("{} of {} used", numbers::bytes(used), numbers::bytes(all));
        // From here on it may refuse what is asked of it soon.
        if used > all / 10 * 9 { paint(Paint::Bad, &text) } else { text }
    };
    match (get("capacity_bytes"), get("cache_bytes")) {
        (Some(capacity), _) => {
            let regions = get("regions").unwrap_or(0);
            let regions = if regions == 1 { "1 region".to_owned() } else { format!("{regions} regions") };
            Some(format!("{}, {regions}", of(get("used_bytes").unwrap_or(0), capacity)))
        }
        // A cache that is full does what it is for.
        (None, Some(cache)) => {
            let used = numbers::bytes(get("cache_used_bytes").unwrap_or(0));
            Some(format!("cache: {used} of {} used", numbers::bytes(cache)))
        }
        (None, None) => None,
    }
}

/// The counts that move when a service is used, the first ones first.
const MOVES: [&str; 13] = [
    "calls_total",
    "routed_bytes_total",
    "routed_runs_total",
    "fetches_hit_total",
    "fetches_missed_total",
    "read_from_servers_bytes_total",
    "accesses_served_total",
    "unloaded_writes_total",
    "unloaded_frames_passed_on_total",
    "write_backs_total",
    "write_back_bytes_total",
    "questions_total",
    "echoes_total",
];
/// How many of these are told, so that they fit a line.
const MOVES_MAX: usize = 4;

fn moving(sight: &Sight) -> String {
    let Some(rates) = &sight.rates else { return "not known after one look".to_owned() };
    let rate = |name: &'static str| {
        let index = sight.view.entries.iter().position(|(known, _)| known == name)?;
        Some((name, *rates.get(index)?)).filter(|(_, rate)| *rate >= 0.5)
    };
    let told = |(name, rate): (&str, f64)| {
        let what = spoken(name).replace(" so far", "");
        match is_bytes(name) {
            true => format!("{} {what}", shown_rate(name, rate).trim_end_matches("/s")),
            false => format!("{} {what}", shown_rate(name, rate)),
        }
    };
    let parts: Vec<String> = MOVES.into_iter().filter_map(rate).take(MOVES_MAX).map(told).collect();
    if parts.is_empty() { "nothing moves".to_owned() } else { parts.join(", ") }
}

/// How the names of counters end that count what went wrong.
const WRONG: [&str; 6] = [
    "errors_total",
    "_refused_total",
    "_failed_total",
    "_lost_total",
    "_unroutable_total",
    "_restarted_total",
];

fn wrong(sight: &Sight) -> String {
    let entries = || sight.view.entries.iter().filter(|(_, value)| *value > 0);
    let stuck = entries().filter_map(|(name, value)| {
        let thread = name.strip_suffix("_stuck_ms")?.replace('_', " ");
        Some(format!("thread {thread} has been stuck for {:.1} s", *value as f64 / 1e3))
    });
    let counted =
        entries().filter(|(name, _)| is_counter(name) && WRONG.iter().any(|ending| name.ends_with(ending)));
    let counted = counted.map(|(name, value)| format!("{}: {value}", spoken(name)));
    let parts: Vec<String> = stuck.chain(counted).collect();
    match parts.is_empty() {
        true => paint(Paint::Good, "nothing"),
        false => paint(Paint::Bad, &parts.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use outboard_agent::StatusView;
    use outboard_wire::Role;

    use super::*;

    fn sight(entries: &[(&str, u64)], rates: Option<Vec<f64>>) -> Sight {
        let entries = entries.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        let (name, started) = ("north".to_owned(), SystemTime::now());
        let view =
            StatusView { role: Role::MemoryServer, name, pid: 12, started, entries, lines: Vec::new() };
        Sight { addresses: vec!["unix:@a".parse().unwrap()], link: "shm", view, rates }
    }

    #[test]
    fn a_daemon_takes_six_lines_and_zeros_take_none() {
        let entries =
            [("clients", 1), ("clients_lost_total", 0), ("capacity_bytes", 1 << 30), ("used_bytes", 1 << 20)];
        let text = daemon(&sight(&entries, Some(vec![0.0; 4])));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 6, "{text}");
        assert_eq!(lines[0], "memory server “north” (process 12), up 0 s");
        assert_eq!(lines[1], "  at          unix:@a");
        assert_eq!(lines[2], "  connected   1 client");
        assert_eq!(lines[3], "  memory      1 MiB of 1 GiB used, 0 regions");
        assert_eq!(lines[4], "  per second  nothing moves");
        assert_eq!(lines[5], "  went wrong  nothing");
    }

    #[test]
    fn what_went_wrong_is_told_with_the_thread_that_is_stuck() {
        let entries = [("worker_0_stuck_ms", 3200), ("errors_total", 2), ("questions_refused_total", 7)];
        let text = wrong(&sight(&entries, None));
        assert_eq!(
            text,
            "thread worker 0 has been stuck for 3.2 s, errors so far: 2, questions refused so far: 7"
        );
    }

    #[test]
    fn only_what_moves_is_told_with_its_unit() {
        let entries = [("calls_total", 9), ("echoes_total", 5), ("write_back_bytes_total", 7)];
        let text = moving(&sight(&entries, Some(vec![1200.0, 0.1, 3e6])));
        assert_eq!(text, "1200 calls, 3 MB write back");
        assert_eq!(moving(&sight(&entries, None)), "not known after one look");
    }
}
