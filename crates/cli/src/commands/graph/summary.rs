//! A graph in a few words.

use std::path::Path;

use outboard_graph_format::{Csr, Format, Graph, Note};
use serde_json::{Value, json};

use crate::{numbers, terminal};

/// The facts about a graph in a file.
pub(super) struct Summary<'a> {
    pub(super) graph: &'a Graph,
    pub(super) path: &'a Path,
    pub(super) format: Format,
    pub(super) notes: &'a [Note],
}

impl Summary<'_> {
    /// The rows of one or both directions, by their names in a graph image.
    fn rows(&self) -> impl Iterator<Item = (&'static str, &Csr)> {
        let incoming = (!self.graph.is_symmetric()).then(|| ("in", self.graph.incoming()));
        [("out", self.graph.out())].into_iter().chain(incoming)
    }

    /// Each array: its name, how many numbers it has, and how many bytes they take.
    fn arrays(&self) -> Vec<(String, usize, usize)> {
        let arrays = |(direction, rows): (&str, &Csr)| {
            let (offsets, targets) = (rows.offsets(), rows.targets());
            [
                (format!("{direction}.offsets"), offsets.len(), size_of_val(offsets)),
                (format!("{direction}.targets"), targets.len(), size_of_val(targets)),
            ]
        };
        self.rows().flat_map(arrays).collect()
    }

    /// One line for people: what the graph is.
    pub(super) fn line(&self) -> String {
        let kind = if self.graph.is_symmetric() { "symmetric" } else { "directed" };
        let (vertices, edges) = (self.graph.vertices(), self.graph.edges());
        format!(
            "{}: {vertices} vertices, {edges} edges, {kind} ({})",
            self.path.display(),
            self.format.name()
        )
    }

    /// The parts that were left out or changed, a line each.
    pub(super) fn note_lines(&self) -> String {
        self.notes.iter().map(|note| format!("\nnote: {note}")).collect()
    }

    /// All of it for people.
    pub(super) fn table(&self) -> String {
        let mut text = self.line();
        for (direction, rows) in self.rows() {
            let kind = if self.graph.is_symmetric() { String::new() } else { format!("{direction}-") };
            text += &format!("\nmost {kind}neighbours of a vertex: {}", rows.degree_max());
        }
        let mut table = terminal::table(["array", "numbers", "size"]);
        for (name, len, bytes) in self.arrays() {
            table.add_row([name, len.to_string(), numbers::bytes(bytes as u64)]);
        }
        format!("{text}{}\n{table}", self.note_lines())
    }

    /// All of it for programs.
    pub(super) fn json(&self) -> Value {
        let array = |(name, len, bytes)| json!({"name": name, "numbers": len, "size_bytes": bytes});
        json!({
            "file": self.path.to_string_lossy(),
            "format": self.format.name(),
            "vertices": self.graph.vertices(),
            "edges": self.graph.edges(),
            "symmetric": self.graph.is_symmetric(),
            "out_degree_max": self.graph.out().degree_max(),
            "in_degree_max": self.graph.incoming().degree_max(),
            "arrays": self.arrays().into_iter().map(array).collect::<Vec<_>>(),
            "notes": self.notes.iter().map(ToString::to_string).collect::<Vec<_>>(),
        })
    }
}
