//! What a run has cost, at its end.

use std::io::Write;
use std::time::Duration;

use serde_json::{Value, json};

use super::ledger::Counts;
use super::server::Server;
use crate::numbers;

/// Tells it on the standard error: the standard output is the program's.
pub(super) fn tell(all: &[Counts], took: Duration, as_json: bool, server: &Server) {
    let text = if as_json { format!("{}\n", object(all, took, server)) } else { lines(all, took) };
    // A user who does not read the standard error misses it.
    let _ = std::io::stderr().write_all(text.as_bytes());
}

fn lines(all: &[Counts], took: Duration) -> String {
    let took = numbers::time(took);
    let Some(first) = all.first() else {
        return format!("outboard: {took}; no far memory was used\n");
    };
    let mut text = format!("outboard: {}: {took}; {}\n", first.name, of_memory(first));
    text += &format!("outboard: {}\n", of_faults(first));
    for line in remarks(first) {
        text += &format!("outboard: {line}\n");
    }
    if all.len() > 1 {
        let (used, here) =
            all[1..].iter().fold((0, 0), |(used, here), one| (used + one.used_most, here + one.here_most));
        let (used, here) = (numbers::bytes(used), numbers::bytes(here));
        text += &format!(
            "outboard: {} more processes used {used} of far memory at most, of which {here} were here\n",
            all.len() - 1
        );
    }
    text
}

fn of_memory(one: &Counts) -> String {
    let [used, here, buffer] = [one.used_most, one.here_most, one.buffer_most].map(numbers::bytes);
    let far = one.used_most.saturating_sub(one.here_most) as f64 / one.used_most.max(1) as f64 * 100.0;
    format!(
        "{used} of far memory at most, {here} of them here at a time ({far:.0} % elsewhere), buffer {buffer}"
    )
}

fn of_faults(one: &Counts) -> String {
    format!(
        "{} faults fetched {}, {} found zeros, {} what had just left; {} were written back; {} fetched ahead; {} waited for a place",
        one.fetched,
        numbers::bytes(one.bytes_fetched),
        one.blank,
        one.rescued,
        numbers::bytes(one.bytes_saved),
        one.ahead,
        one.parked
    )
}

fn remarks(one: &Counts) -> Vec<String> {
    let mut lines = Vec::new();
    if one.plain > 0 {
        let bytes = numbers::bytes(one.plain_bytes);
        lines.push(format!(
            "{} mappings of {bytes} stayed in ordinary memory (docs/any-program.md)",
            one.plain
        ));
    }
    if one.refused > 0 {
        lines.push(format!(
            "{} calls were refused that far memory does not serve (docs/any-program.md)",
            one.refused
        ));
    }
    if !one.has_ended {
        lines.push(
            "the program ended at once, so these are the figures of some milliseconds before".to_owned(),
        );
    }
    lines
}

fn object(all: &[Counts], took: Duration, server: &Server) -> Value {
    let process = |one: &Counts| {
        json!({
            "name": one.name, "process": one.process, "level": if one.has_blocks { "malloc" } else { "mmap" },
            "used_most": one.used_most, "here_most": one.here_most, "buffer": one.buffer, "buffer_most": one.buffer_most,
            "faults_fetched": one.fetched, "faults_blank": one.blank, "faults_rescued": one.rescued,
            "faults_joined": one.joined, "faults_parked": one.parked, "chunks_ahead": one.ahead,
            "evictions": one.evicted, "saves": one.saved, "bytes_fetched": one.bytes_fetched,
            "bytes_saved": one.bytes_saved, "plain_mappings": one.plain, "plain_bytes": one.plain_bytes,
            "refused": one.refused, "files_copied": one.files_copied,
            "forks": one.forks, "ended_in_order": one.has_ended,
        })
    };
    json!({
        "seconds": took.as_secs_f64(),
        "server": server.addresses(),
        "server_was_started": server.is_own(),
        "processes": all.iter().map(process).collect::<Vec<_>>(),
    })
}
