//! What far memory did during a run, for people and for programs.

use outboard::{FarStats, Traffic};
use serde_json::{Value, json};

use crate::numbers;

/// What far memory did between two looks at it.
pub(super) struct Figures {
    stats: FarStats,
    /// How many bytes the agent has read from memory servers meanwhile, if it says so.
    read_by_agent: Option<u64>,
}

impl Figures {
    /// What was done between `before` and `after`; what is in use is that of the end.
    pub(super) fn between(before: &FarStats, after: &FarStats, read_by_agent: Option<u64>) -> Self {
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
            let read = self.read_by_agent.map(|read| format!(", for which it read {}", bytes(read)));
            let read = read.unwrap_or_default();
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
            "agent_read_bytes": self.read_by_agent,
            "buffer_rates": rates(self.buffer_rates()),
            "agent_cache_rates": rates(self.agent_rates()),
            "agent_losses": self.stats.agent_losses,
            "buffer_used_bytes": self.stats.buffer_used,
        })
    }

    /// The share of fetched chunks that nobody had to wait for.
    fn ahead_rate(&self) -> Option<f64> {
        let FarStats { faults_fetched, chunks_ahead, .. } = self.stats;
        let fetched = faults_fetched + chunks_ahead;
        (fetched > 0).then(|| chunks_ahead as f64 / fetched as f64)
    }

    /// The shares of faults whose chunk was still here, was on its way, and had to be fetched. An access that finds its
    /// page in place is no fault, and nobody counts it.
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
