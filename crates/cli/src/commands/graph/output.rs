//! Where a graph goes.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Result, anyhow};
use outboard_graph_format::{Existing, Format, Graph, GraphTarget, ImageWriteError, Note};

use super::bar::Bar;
use super::summary::Summary;
use crate::failure::wrong_usage;
use crate::{numbers, terminal};

/// Which file, in which format, and how to say so.
#[derive(clap::Args)]
pub(super) struct Output {
    /// Where to write the graph
    #[arg(value_name = "OUT")]
    out: PathBuf,
    /// Its format, if the name does not tell
    #[arg(long, value_name = "FORMAT", value_parser = super::format())]
    to: Option<Format>,
    /// Replace OUT if it exists
    #[arg(long)]
    force: bool,
    /// Print one JSON object instead of a line
    #[arg(long)]
    json: bool,
}

impl Output {
    /// Makes sure that the graph can be written, before much work is done for it.
    pub(super) fn open(&self) -> Result<GraphTarget> {
        let existing = if self.force { Existing::Replace } else { Existing::Keep };
        GraphTarget::new(&self.out, self.to, existing).map_err(|error| match error {
            ImageWriteError::Exists { path } => {
                anyhow!("{} exists already; replace it with --force", path.display())
            }
            ImageWriteError::UnknownFormat { .. } => wrong_usage(&format!("{error}, with --to FORMAT")),
            other => other.into(),
        })
    }

    /// Writes the graph and says what became of it.
    pub(super) fn write(
        &self,
        target: &GraphTarget,
        graph: &Graph,
        mut notes: Vec<Note>,
        began: Instant,
        bar: Bar,
    ) -> Result<()> {
        notes.extend(target.save(graph, &bar)?);
        drop(bar);
        let took = began.elapsed();
        let summary = Summary { graph, path: &self.out, format: target.format(), notes: &notes };
        if self.json {
            let mut json = summary.json();
            json["seconds"] = took.as_secs_f64().into();
            return terminal::print(&json.to_string());
        }
        terminal::print(&format!(
            "wrote {}, in {}{}",
            summary.line(),
            numbers::time(took),
            summary.note_lines()
        ))
    }
}
