//! Edge lists of the GAP benchmark suite.

use std::io::{self, Write};

use super::{Note, graph_of};
use crate::edge_list::EdgeList;
use crate::error::ReadError;
use crate::graph::Graph;
use crate::progress::FormatProgress;
use crate::source::Source;
use crate::text::{each_line, is_line_end, print_rows, push_number, scan};

pub(super) fn read(
    mut source: Source,
    notes: &mut Vec<Note>,
    progress: &dyn FormatProgress,
) -> Result<Graph, ReadError> {
    let mut edges = EdgeList::default();
    let mut has_weights = false;
    let parse = |text: &[u8]| {
        let mut piece = Vec::with_capacity(text.len() / 8);
        let mut has_weights = false;
        let lines = each_line(text, |line| {
            match line.word_begin() {
                None => {}
                begin if begins_comment(begin) => drop(line.rest()),
                Some(_) => {
                    piece.push((line.vertex()?, line.vertex()?));
                    has_weights |= !begins_comment(line.word_begin()) && !line.word().is_empty();
                    if begins_comment(line.word_begin()) {
                        let _ = line.rest();
                    }
                }
            }
            line.end()
        })?;
        Ok(((piece, has_weights), lines))
    };
    scan(
        &mut source,
        is_line_end,
        parse,
        |(piece, weights), _, _| {
            edges.push(piece);
            has_weights |= weights;
            Ok(())
        },
        progress,
    )?;
    if has_weights {
        notes.push(Note::WeightsDropped);
    }
    let vertices = edges.vertex_max().map_or(0, |last| u64::from(last) + 1);
    graph_of(&source, edges, vertices, false, progress)
}

fn begins_comment(letter: Option<u8>) -> bool {
    matches!(letter, Some(b'#' | b'%'))
}

pub(super) fn write(graph: &Graph, to: &mut impl Write, progress: &dyn FormatProgress) -> io::Result<()> {
    let rows = graph.out();
    print_rows(
        to,
        rows,
        |block, text| {
            for vertex in block {
                for target in rows.neighbours(vertex) {
                    push_number(text, vertex as u64, b' ');
                    push_number(text, u64::from(*target), b'\n');
                }
            }
        },
        progress,
    )
}
