//! The work of far memory during a run, for people and for programs.

use std::time::SystemTime;

use outboard::{FarStats, Traffic};
use serde_json::{Value, json};

use crate::numbers;

/// The bytes that the agent at one address has read from memory servers so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AgentCount {
    /// Which agent: its process, and since when that runs.
    pub(super) life: (u32, SystemTime),
    pub(super) bytes: u64,
}

/// How many bytes agents have read from memory servers during a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AgentRead {
    bytes: u64,
    /// Whether one agent was there all the time. One that is gone has taken its count along.
    is_all: bool,
}

impl AgentRead {
    /// The bytes that were read between two looks, the first of which may have found no agent.
    pub(super) fn between(before: Option<AgentCount>, after: AgentCount) -> Self {
        match before {
            Some(before) if before.life == after.life => {
                Self { bytes: after.bytes.saturating_sub(before.bytes), is_all: true }
            }
            _ => Self { bytes: after.bytes, is_all: false },
        }
    }

    fn words(self) -> String {
        let read = numbers::bytes(self.bytes);
        match self.is_all {
            true => format!(", for which it read {read}"),
            false => format!(", for which the agent that is there now read {read}, and an earlier one more"),
        }
    }
}

/// The work of far memory between two looks at it.
pub(super) struct Figures {
    stats: FarStats,
    /// The bytes that the agent has read meanwhile, if it says so.
    read_by_agent: Option<AgentRead>,
}

impl Figures {
    /// The work between `before` and `after`; memory in use is that of the end.
    pub(super) fn between(before: &FarStats, after: &FarStats, read_by_agent: Option<AgentRead>) -> Self {
        let traffic = Traffic {
            demand: after.traffic.demand - before.traffic.demand,
            ahead: after.traffic.ahead - before.traffic.ahead,
            saved: after.traffic.saved - before.traffic.saved,
            by_agent: after.traffic.by_agent - before.traffic.by_agent,
            by_copy: after.traffic.by_copy - before.traffic.by_copy,
        };
        let stats = FarStats {
            faults_fetched: after.faults_fetched - before.faults_fetched,
            faults_joined: after.faults_joined - before.faults_joined,
            faults_rescued: after.faults_rescued - before.faults_rescued,
            faults_parked: after.faults_parked - before.faults_parked,
            chunks_ahead: after.chunks_ahead - before.chunks_ahead,
            evictions: after.evictions - before.evictions,
            saves: after.saves - before.saves,
            stuck: after.stuck - before.stuck,
            traffic,
            agent_hits: after.agent_hits - before.agent_hits,
            agent_late: after.agent_late - before.agent_late,
            agent_misses: after.agent_misses - before.agent_misses,
            agent_losses: after.agent_losses - before.agent_losses,
            ..*after
        };
        Self { stats, read_by_agent }
    }

    /// Faults of which something came of its own.
    fn faults(&self) -> u64 {
        let FarStats { faults_fetched, faults_joined, faults_rescued, .. } = self.stats;
        faults_fetched + faults_joined + faults_rescued
    }

    fn by_agent_cache(&self) -> u64 {
        let FarStats { agent_hits, agent_late, agent_misses, .. } = self.stats;
        agent_hits + agent_late + agent_misses
    }

    /// For people.
    pub(super) fn rows(&self, has_agent: bool) -> Vec<(&'static str, String)> {
        let FarStats { traffic, .. } = &self.stats;
        let bytes = numbers::bytes;
        let ahead = self.ahead_rate().map(|rate| format!(" ({:.1} % of those fetched)", 100.0 * rate));
        let ahead = ahead.unwrap_or_default();
        let mut rows = vec![
            (
                "page faults",
                format!(
                    "{} ({} fetched, {} joined, {} rescued)",
                    self.faults(),
                    self.stats.faults_fetched,
                    self.stats.faults_joined,
                    self.stats.faults_rescued
                ),
            ),
            (
                "chunks",
                format!(
                    "{} read ahead{ahead}, {} evicted, {} written back",
                    self.stats.chunks_ahead, self.stats.evictions, self.stats.saves
                ),
            ),
            (
                "on the wire",
                format!(
                    "{} on demand, {} in the background, {} written back",
                    bytes(traffic.demand),
                    bytes(traffic.ahead),
                    bytes(traffic.saved)
                ),
            ),
            (
                "buffer",
                format!("{} in use; {}", bytes(self.stats.buffer_used), rates("faults", self.buffer_rates())),
            ),
        ];
        if has_agent {
            let (asked, copied) = (bytes(traffic.by_agent), bytes(traffic.by_copy));
            let read = self.read_by_agent.map(AgentRead::words).unwrap_or_default();
            rows.push(("by the agent", format!("{asked} asked for{read}; {copied} from its copy")));
            rows.push(("agent's cache", rates("fetches", self.agent_rates())));
        }
        if self.stats.agent_losses > 0 {
            rows.push(("agent lost", format!("{} times", self.stats.agent_losses)));
        }
        if self.stats.stuck > 0 {
            rows.push(("stuck chunks", self.stats.stuck.to_string()));
        }
        rows
    }

    /// For programs.
    pub(super) fn json(&self) -> Value {
        let FarStats { traffic, .. } = &self.stats;
        let rates = |rates: Option<[f64; 3]>| {
            rates.map(|[hit, late, miss]| json!({"hit": hit, "late": late, "miss": miss}))
        };
        json!({
            "faults": {
                "fetched": self.stats.faults_fetched,
                "joined": self.stats.faults_joined,
                "rescued": self.stats.faults_rescued,
                "parked": self.stats.faults_parked,
            },
            "chunks_ahead": self.stats.chunks_ahead,
            "ahead_rate": self.ahead_rate(),
            "evictions": self.stats.evictions,
            "write_backs": self.stats.saves,
            "stuck_chunks": self.stats.stuck,
            "demand_bytes": traffic.demand,
            "background_bytes": traffic.ahead,
            "write_back_bytes": traffic.saved,
            "agent_bytes": traffic.by_agent,
            "agent_copy_bytes": traffic.by_copy,
            "agent_read_bytes": self.read_by_agent.map(|read| read.bytes),
            "agent_read_is_all": self.read_by_agent.map(|read| read.is_all),
            "buffer_rates": rates(self.buffer_rates()),
            "agent_cache_rates": rates(self.agent_rates()),
            "agent_losses": self.stats.agent_losses,
            "buffer_used_bytes": self.stats.buffer_used,
        })
    }

    /// The share of fetched chunks that no thread had to wait for.
    fn ahead_rate(&self) -> Option<f64> {
        let FarStats { faults_fetched, chunks_ahead, .. } = self.stats;
        let fetched = faults_fetched + chunks_ahead;
        (fetched > 0).then(|| chunks_ahead as f64 / fetched as f64)
    }

    /// The shares of faults whose chunk was still here, was on its way, and had to be fetched. An access that finds its
    /// page in place is no fault, and is not counted.
    fn buffer_rates(&self) -> Option<[f64; 3]> {
        let FarStats { faults_fetched, faults_joined, faults_rescued, .. } = self.stats;
        shares([faults_rescued, faults_joined, faults_fetched], self.faults())
    }

    /// The shares of fetches by the agent whose bytes its cache had, was about to have, and did not have.
    fn agent_rates(&self) -> Option<[f64; 3]> {
        let FarStats { agent_hits, agent_late, agent_misses, .. } = self.stats;
        shares([agent_hits, agent_late, agent_misses], self.by_agent_cache())
    }
}

fn shares(counts: [u64; 3], total: u64) -> Option<[f64; 3]> {
    (total > 0).then(|| counts.map(|count| count as f64 / total as f64))
}

fn rates(what: &str, rates: Option<[f64; 3]>) -> String {
    match rates {
        None => format!("no {what}"),
        Some(rates) => {
            let [hit, late, miss] = rates.map(|rate| 100.0 * rate);
            format!("{hit:.1} % of {what} hit, {late:.1} % late, {miss:.1} % missed")
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_agent_that_was_started_anew_has_not_read_all() {
        let started = SystemTime::UNIX_EPOCH;
        let first = AgentCount { life: (7, started), bytes: 3 << 20 };
        let later = AgentCount { bytes: 5 << 20, ..first };
        let anew = AgentCount { life: (7, started + Duration::from_secs(1)), bytes: 1 << 20 };
        assert_eq!(AgentRead::between(Some(first), later), AgentRead { bytes: 2 << 20, is_all: true });
        assert_eq!(AgentRead::between(Some(first), anew), AgentRead { bytes: 1 << 20, is_all: false });
        assert_eq!(AgentRead::between(None, later), AgentRead { bytes: 5 << 20, is_all: false });

        let stats = FarStats::default();
        let figures = |after| {
            let figures = Figures::between(&stats, &stats, Some(AgentRead::between(Some(first), after)));
            let row = figures.rows(true).into_iter().find(|(name, _)| *name == "by the agent");
            (row.unwrap_or_default().1, figures.json())
        };
        let (text, json) = figures(later);
        assert_eq!(text, "0 B asked for, for which it read 2 MiB; 0 B from its copy");
        assert_eq!((&json["agent_read_bytes"], &json["agent_read_is_all"]), (&json!(2 << 20), &json!(true)));
        let (text, json) = figures(anew);
        assert!(text.contains("there now read 1 MiB, and an earlier one more"), "{text}");
        assert_eq!((&json["agent_read_bytes"], &json["agent_read_is_all"]), (&json!(1 << 20), &json!(false)));
    }
}
