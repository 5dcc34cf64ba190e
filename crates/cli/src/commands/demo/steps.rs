//! The steps of a demo: each service at work, and then again with the agent killed in the middle.

mod cluster;
mod far_graph;
mod functions;
mod links;
mod loss;
mod messages;
mod one_sided;
mod writes;

use anyhow::Result;

use super::stage::Stage;

/// One thing to show.
pub(super) struct Step {
    /// Its name, for people and programs.
    pub(super) name: &'static str,
    /// Does it, and says what happened. Wrong is an error.
    pub(super) run: fn(&mut Stage) -> Result<Finding>,
}

/// The outcome of a step.
pub(super) struct Finding {
    /// For people.
    pub(super) text: String,
    /// The result, for people.
    pub(super) gain: String,
    /// For programs: names with their units last.
    pub(super) figures: Vec<(String, f64)>,
}

impl Finding {
    fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), gain: String::new(), figures: Vec::new() }
    }

    fn gained(self, gain: impl Into<String>) -> Self {
        Self { gain: gain.into(), ..self }
    }

    fn with(mut self, name: impl Into<String>, value: f64) -> Self {
        self.figures.push((name.into(), value));
        self
    }
}

/// How many times as much, as people write it.
fn times(one: f64, other: f64) -> String {
    match one / other.max(1e-12) {
        ratio @ 9.95.. => format!("{ratio:.0} ×"),
        ratio => format!("{ratio:.1} ×"),
    }
}

/// So many in a second: `1.2 M/s`.
fn per_second(rate: f64) -> String {
    match rate {
        1e6.. => format!("{:.1} M/s", rate / 1e6),
        1e3.. => format!("{:.0} k/s", rate / 1e3),
        _ => format!("{rate:.0}/s"),
    }
}

/// In this order. The last one cleans up and is always taken.
pub(super) const STEPS: &[Step] = &[
    Step { name: "start", run: cluster::start },
    Step { name: "links", run: links::echo },
    Step { name: "links, agent killed", run: loss::told_by_name },
    Step { name: "one-sided access", run: one_sided::both_links },
    Step { name: "far memory", run: far_graph::pagerank },
    Step { name: "far memory, agent killed", run: far_graph::without_agent },
    Step { name: "messages", run: messages::inline_and_by_agent },
    Step { name: "messages, agent killed", run: messages::without_agent },
    Step { name: "functions", run: functions::three_sites },
    Step { name: "functions, agent killed", run: functions::without_agent },
    Step { name: "remote writes", run: writes::both_links },
    Step { name: "remote writes, agent killed", run: writes::without_agent },
    Step { name: "stop", run: cluster::stop },
];
