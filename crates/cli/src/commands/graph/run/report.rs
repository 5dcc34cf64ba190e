//! The result of an application, for people and for programs.

use std::time::Duration;

use anyhow::{Context, Result};
use outboard_graph::{Application, GraphView};
use outboard_graph_format::{Format, Note};
use serde_json::{Value, json};

use super::Measured;
use super::far::Facts;
use crate::{numbers, terminal};

/// All there is to say about a run.
pub(super) struct Report<'a> {
    pub(super) application: Application,
    pub(super) file: String,
    pub(super) format: Format,
    pub(super) graph: GraphView<'a>,
    pub(super) memory: &'static str,
    pub(super) threads: usize,
    pub(super) loading: Duration,
    pub(super) notes: &'a [Note],
    pub(super) measured: &'a Measured,
    pub(super) far: Option<Facts<'a>>,
}

impl Report<'_> {
    /// For people.
    pub(super) fn table(&self) -> String {
        let kind = if self.graph.is_symmetric() { "symmetric" } else { "directed" };
        let mut text = format!(
            "{} on {}: {} vertices, {} edges, {kind} ({})",
            self.application.name(),
            self.file,
            self.graph.vertices(),
            self.graph.edges(),
            self.format.name(),
        );
        text.extend(self.notes.iter().map(|note| format!("\nnote: {note}")));
        let threads =
            if self.threads == 1 { "1 thread".to_owned() } else { format!("{} threads", self.threads) };
        let mut table = terminal::table(["fact", "value"]);
        for (name, value) in self.measured.summary.facts() {
            table.add_row([name, &value]);
        }
        table.add_row(["edges walked", &self.measured.edges_walked.to_string()]);
        table.add_row(["memory", &format!("{}, {threads}", self.memory)]);
        table.add_row(["time to load", &numbers::time(self.loading)]);
        let (took, times) = (numbers::time(self.measured.took()), &self.measured.times);
        table.add_row([
            "time",
            &match &times[..] {
                [shortest, .., longest] => format!(
                    "{took}, the median of {}: {} to {}",
                    times.len(),
                    numbers::time(*shortest),
                    numbers::time(*longest)
                ),
                _ => took,
            },
        ]);
        let Some(far) = &self.far else { return format!("{text}\n{table}") };
        for (name, value) in far.rows() {
            table.add_row([name, &value]);
        }
        let explanation: String = far.explanation().iter().map(|line| format!("\n{line}")).collect();
        format!("{text}\n{table}{explanation}")
    }

    /// For programs.
    pub(super) fn json(&self) -> Result<Value> {
        let result = serde_json::to_value(&self.measured.summary).context("a result that is no JSON")?;
        let mut json = json!({
            "application": self.application.name(),
            "file": self.file,
            "format": self.format.name(),
            "vertices": self.graph.vertices(),
            "edges": self.graph.edges(),
            "symmetric": self.graph.is_symmetric(),
            "memory": self.memory,
            "threads": self.threads,
            "load_seconds": self.loading.as_secs_f64(),
            "seconds": self.measured.took().as_secs_f64(),
            "seconds_each": self.measured.times.iter().map(Duration::as_secs_f64).collect::<Vec<_>>(),
            "edges_walked": self.measured.edges_walked,
            "result": result,
            "notes": self.notes.iter().map(ToString::to_string).collect::<Vec<_>>(),
        });
        if let Some(far) = &self.far {
            json["far"] = far.json();
        }
        Ok(json)
    }
}
