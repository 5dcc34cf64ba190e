//! What a demo shows. A room adds its part by a line here and a file of its own.

mod cluster;
mod echo;
mod far_graph;
mod far_memory;
mod job;
mod loss;

use anyhow::Result;

use super::stage::Stage;

/// One thing to show.
pub(super) struct Step {
    /// What it is, for people and programs.
    pub(super) name: &'static str,
    /// Does it, and says what happened. Wrong is an error.
    pub(super) run: fn(&mut Stage) -> Result<Finding>,
}

/// What happened.
pub(super) struct Finding {
    /// For people.
    pub(super) text: String,
    /// For programs: names with their units last.
    pub(super) figures: Vec<(String, f64)>,
}

impl Finding {
    fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), figures: Vec::new() }
    }

    fn with(mut self, name: impl Into<String>, value: f64) -> Self {
        self.figures.push((name.into(), value));
        self
    }
}

/// In this order. The last one cleans up and is always taken.
pub(super) const STEPS: &[Step] = &[
    Step { name: "start a memory server", run: cluster::start_memory },
    Step { name: "start an agent", run: cluster::start_agent },
    Step { name: "attach to the agent", run: cluster::attach },
    Step { name: "echo through shared memory", run: echo::through_shared_memory },
    Step { name: "echo over TCP", run: echo::over_tcp },
    Step { name: "far memory through shared memory", run: far_memory::through_shared_memory },
    Step { name: "far memory over TCP", run: far_memory::over_tcp },
    Step { name: "atomics over both at once", run: far_memory::atomics },
    Step { name: "a graph in far memory", run: far_graph::pagerank },
    Step { name: "a job of 4 ranks", run: job::four_ranks },
    Step { name: "kill -9 the agent", run: loss::kill_agent },
    Step { name: "stop everything", run: cluster::stop },
];
