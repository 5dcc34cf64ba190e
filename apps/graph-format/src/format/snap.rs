//! Edge lists of the Stanford collection.

use std::io::{self, Write};

use super::renumber::renumber;
use super::{Note, graph_of, is_plausible};
use crate::edge_list::EdgeList;
use crate::error::ReadError;
use crate::graph::Graph;
use crate::progress::FormatProgress;
use crate::rows::upper_half;
use crate::source::Source;
use crate::text::{BadLine, Block, Cursor, each_line, is_line_end, print_rows, push_number, scan};

/// What a piece of such a text says.
#[derive(Default)]
struct Piece {
    edges: Vec<(u32, u32)>,
    comments: Comments,
}

/// What is known besides the edges.
#[derive(Default, Clone, Copy)]
struct Comments {
    nodes: Option<u64>,
    undirected: bool,
    more_columns: bool,
}

impl Comments {
    fn add(&mut self, other: Self) {
        self.nodes = self.nodes.or(other.nodes);
        self.undirected |= other.undirected;
        self.more_columns |= other.more_columns;
    }

    /// Looks for what the files of the collection say of themselves.
    fn note(&mut self, comment: &[u8]) {
        const UNDIRECTED: &[u8] = b"undirected graph";
        const NODES: &[u8] = b"nodes:";
        let comment = comment.trim_ascii_start().to_ascii_lowercase();
        self.undirected |= comment.starts_with(UNDIRECTED);
        if let Some(number) = comment.strip_prefix(NODES) {
            self.nodes = self.nodes.or(Cursor::new(number).number("").ok());
        }
    }
}

pub(super) fn read(
    mut source: Source,
    notes: &mut Vec<Note>,
    progress: &dyn FormatProgress,
) -> Result<Graph, ReadError> {
    let mut edges = EdgeList::default();
    let mut comments = Comments::default();
    let take = |piece: Piece, _: Block<'_>, _: &Source| {
        edges.push(piece.edges);
        comments.add(piece.comments);
        Ok(())
    };
    scan(&mut source, is_line_end, parse, take, progress)?;
    if comments.more_columns {
        notes.push(Note::ColumnsDropped);
    }
    let needed = edges.vertex_max().map_or(0, |last| u64::from(last) + 1);
    let told = comments.nodes.filter(|nodes| *nodes >= needed && is_plausible(*nodes, edges.len() as u64));
    let vertices = match told {
        Some(nodes) => nodes,
        None => {
            let vertices = renumber(&mut edges).map_err(|error| source.too_large(error))?;
            if vertices < needed {
                notes.push(Note::Renumbered { vertices, largest: (needed - 1) as u32 });
            }
            vertices
        }
    };
    graph_of(&source, edges, vertices, comments.undirected, progress)
}

fn parse(text: &[u8]) -> Result<(Piece, u64), BadLine> {
    let mut piece = Piece { edges: Vec::with_capacity(text.len() / 8), ..Piece::default() };
    let lines = each_line(text, |line| {
        match line.word_begin() {
            None => {}
            Some(b'#' | b'%') => piece.comments.note(line.rest().get(1..).unwrap_or_default()),
            Some(_) => {
                piece.edges.push((line.vertex()?, line.vertex()?));
                piece.comments.more_columns |= line.word_begin().is_some();
            }
        }
        Ok(())
    })?;
    Ok((piece, lines))
}

/// Writes each edge of a symmetric graph once, as the collection does.
pub(super) fn write(graph: &Graph, to: &mut impl Write, progress: &dyn FormatProgress) -> io::Result<()> {
    let rows = graph.out();
    let symmetric = graph.is_symmetric();
    let is_written = |from: usize, target: u32| !symmetric || from as u64 <= u64::from(target);
    let edges = match symmetric {
        false => rows.edges(),
        true => upper_half(rows),
    };
    writeln!(to, "# {} graph", if symmetric { "Undirected" } else { "Directed" })?;
    writeln!(to, "# Nodes: {} Edges: {edges}", graph.vertices())?;
    writeln!(to, "# FromNodeId\tToNodeId")?;
    print_rows(
        to,
        rows,
        |block, text| {
            for from in block {
                for target in rows.neighbours(from).iter().filter(|target| is_written(from, **target)) {
                    push_number(text, from as u64, b'\t');
                    push_number(text, u64::from(*target), b'\n');
                }
            }
        },
        progress,
    )
}
