//! What the values come to that depend on the machine, and why.

use std::fmt;
use std::time::Duration;

use outboard_limits::{Allowance, MemoryLimit, show_bytes};

use crate::{AgentSettings, Capacity, FarSettings, MemorySettings, OrAuto, Settings};

/// A value that depends on the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// Whose it is: `memory.capacity`.
    pub key: &'static str,
    /// What it came to, for people.
    pub value: String,
    /// Why: what follows a comma.
    pub why: String,
    /// Whether it is the same on most machines.
    pub is_usual: bool,
}

impl fmt::Display for Chosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, value, why, .. } = self;
        write!(f, "{key} is {value}, {why}")
    }
}

/// What was chosen on this machine, and what is unwise about what was not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reasons {
    /// The values that depend on the machine.
    pub chosen: Vec<Chosen>,
    /// What people should know of the values that they have set themselves.
    pub warnings: Vec<String>,
}

/// What a memory server is on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryPlan {
    /// How many bytes of regions it gives out.
    pub capacity: u64,
    /// How many threads it has.
    pub workers: usize,
    /// Why.
    pub reasons: Reasons,
}

/// What an agent is on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentPlan {
    /// How many threads it has.
    pub workers: usize,
    /// How long an idle one looks for work.
    pub spin: Duration,
    /// How many bytes its page cache has.
    pub cache: u64,
    /// How many bytes its static copies may have.
    pub static_max: u64,
    /// Why.
    pub reasons: Reasons,
}

/// What far memory is in an application on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FarPlan {
    /// How many bytes may be here at once, at first.
    pub buffer: u64,
    /// How many it may become.
    pub buffer_max: u64,
    /// Why.
    pub reasons: Reasons,
}

/// How many threads daemons have where nothing says otherwise.
const WORKERS: usize = 2;
/// How long threads look for work where nothing says otherwise.
const SPIN: Duration = Duration::from_micros(20);
/// How many chunks a buffer has at least.
const CHUNKS_MIN: u64 = 16;
const MIB: u64 = 1 << 20;

impl MemorySettings {
    /// What it comes to with this allowance.
    pub fn plan(&self, here: &Allowance) -> MemoryPlan {
        let mut planner = Planner::new(here);
        let rule = Rule { part: (2, "half"), most: u64::MAX, least: 4096, when_full: "the server is killed" };
        MemoryPlan {
            capacity: planner.amount("memory.capacity", self.capacity, &rule),
            workers: planner.workers("memory.workers", self.workers),
            reasons: planner.reasons,
        }
    }
}

impl AgentSettings {
    /// What it comes to with this allowance.
    pub fn plan(&self, here: &Allowance) -> AgentPlan {
        let mut planner = Planner::new(here);
        let rule = |most| Rule { part: (8, "an eighth"), most, least: 0, when_full: "the agent is killed" };
        AgentPlan {
            workers: planner.workers("agent.workers", self.workers),
            spin: planner.spin("agent.spin", self.spin),
            cache: planner.amount("agent.cache", self.cache, &rule(256 * MIB)),
            static_max: planner.amount("agent.static_max", self.static_max, &rule(1024 * MIB)),
            reasons: planner.reasons,
        }
    }
}

impl FarSettings {
    /// What it comes to with this allowance.
    pub fn plan(&self, here: &Allowance) -> FarPlan {
        let mut planner = Planner::new(here);
        let (most, least) = (256 * MIB, CHUNKS_MIN * self.chunk.0);
        let rule = Rule { part: (8, "an eighth"), most, least, when_full: "the application is killed" };
        let buffer = planner.amount("far.buffer", self.buffer, &rule);
        let buffer_max = match (self.buffer_max, self.buffer) {
            (OrAuto::Given(most), _) => most.bytes(&here.memory),
            (OrAuto::Auto, OrAuto::Given(_)) => buffer,
            (OrAuto::Auto, OrAuto::Auto) => here.memory.lowest().map_or(buffer, |limit| limit.bytes / 2),
        };
        FarPlan { buffer, buffer_max: buffer_max.max(buffer), reasons: planner.reasons }
    }
}

impl Settings {
    /// All values that depend on the machine, with this allowance.
    pub fn chosen(&self, here: &Allowance) -> Vec<Chosen> {
        let reasons =
            [self.memory.plan(here).reasons, self.agent.plan(here).reasons, self.far.plan(here).reasons];
        reasons.into_iter().flat_map(|reasons| reasons.chosen).collect()
    }
}

/// How an amount of memory is chosen.
struct Rule {
    /// The part of all memory that it is, as a divisor and in words.
    part: (u64, &'static str),
    most: u64,
    least: u64,
    /// What happens when more is used than there is.
    when_full: &'static str,
}

struct Planner<'a> {
    here: &'a Allowance,
    reasons: Reasons,
}

impl<'a> Planner<'a> {
    fn new(here: &'a Allowance) -> Self {
        Self { here, reasons: Reasons::default() }
    }

    fn choose(&mut self, key: &'static str, (value, is_usual): (String, bool), why: String) {
        self.reasons.chosen.push(Chosen { key, value, why, is_usual });
    }

    fn workers(&mut self, key: &'static str, workers: OrAuto<usize>) -> usize {
        let OrAuto::Auto = workers else { return workers.given().copied().unwrap_or(WORKERS) };
        let chosen = self.here.processors.threads().min(WORKERS);
        self.choose(key, (chosen.to_string(), chosen == WORKERS), format!("as {}", self.here.processors));
        chosen
    }

    fn spin(&mut self, key: &'static str, spin: OrAuto<Duration>) -> Duration {
        if let OrAuto::Given(spin) = spin {
            return spin;
        }
        if self.here.processors.can_spin() {
            self.choose(key, ("20us".to_owned(), true), "as no processor quota makes it dear".to_owned());
            return SPIN;
        }
        self.choose(key, ("0s".to_owned(), false), format!("as {}", self.here.processors));
        Duration::ZERO
    }

    fn amount(&mut self, key: &'static str, amount: OrAuto<Capacity>, rule: &Rule) -> u64 {
        let memory = &self.here.memory;
        let limits = memory.lowest().zip(memory.tightest());
        let OrAuto::Given(amount) = amount else {
            let (bytes, why) = rule.choose(limits);
            self.choose(key, (show_bytes(bytes), bytes == rule.most), why);
            return bytes;
        };
        let bytes = amount.bytes(memory);
        let Some((lowest, tightest)) = limits else { return bytes };
        if let Capacity::Share(share) = amount {
            self.choose(key, (show_bytes(bytes), false), format!("{share} of {lowest}"));
        }
        if let Some(unwise) = unwise(bytes, lowest, tightest) {
            let (shown, when_full) = (show_bytes(bytes), rule.when_full);
            let wise = show_bytes(rule.choose(limits).0);
            self.reasons.warnings.push(format!(
                "{key} is {shown}, which is more than {unwise}: when that is full, {when_full}. Choose less (auto would \
                 be {wise}), or raise the limit"
            ));
        }
        bytes
    }
}

/// What `bytes` are too many for.
fn unwise(bytes: u64, lowest: &MemoryLimit, tightest: &MemoryLimit) -> Option<String> {
    if bytes > lowest.bytes {
        return Some(lowest.to_string());
    }
    (bytes > tightest.left).then(|| format!("the {} that are left of {tightest}", show_bytes(tightest.left)))
}

impl Rule {
    /// The part that it is of all memory, but no more than three quarters of what is left, and why.
    fn choose(&self, limits: Option<(&MemoryLimit, &MemoryLimit)>) -> (u64, String) {
        let Some((lowest, tightest)) = limits else {
            let why = "as the system does not say how much memory there is".to_owned();
            return (self.most.min(256 * MIB), why);
        };
        let (share, left) = (lowest.bytes / self.part.0, tightest.spare() / 4 * 3);
        let (bytes, why) = match share.min(left) {
            bytes if bytes >= self.most => return (self.most, format!("as usual: {lowest} are enough")),
            _ if share <= left => (share, format!("{} of {lowest}", self.part.1)),
            _ => (left, format!("as only {} are left of {tightest}", show_bytes(tightest.left))),
        };
        // In whole pages, and where there is enough of it, without fractions that only make it longer to read.
        let unit = if bytes >= 16 * MIB { MIB } else { 4096 };
        ((bytes / unit * unit).max(self.least), why)
    }
}

#[cfg(test)]
mod tests;
