//! Edge lists of the GAP benchmark suite.

use std::io::{self, Write};

use super::graph_of;
use crate::edge_list::EdgeList;
use crate::error::ReadError;
use crate::graph::Graph;
use crate::progress::Progress;
use crate::source::Source;
use crate::text::{each_line, is_line_end, print_rows, push_number, scan};

pub(super) fn read(mut source: Source, progress: &dyn Progress) -> Result<Graph, ReadError> {
    let mut edges = EdgeList::default();
    let parse = |text: &[u8]| {
        let mut piece = Vec::with_capacity(text.len() / 8);
        let lines = each_line(text, |line| {
            if line.word_begin().is_some() {
                piece.push((line.vertex()?, line.vertex()?));
            }
            line.end()
        })?;
        Ok((piece, lines))
    };
    scan(
        &mut source,
        is_line_end,
        parse,
        |piece, _, _| {
            edges.push(piece);
            Ok(())
        },
        progress,
    )?;
    let vertices = edges.vertex_max().map_or(0, |last| u64::from(last) + 1);
    graph_of(&source, edges, vertices, false, progress)
}

pub(super) fn write(graph: &Graph, to: &mut impl Write, progress: &dyn Progress) -> io::Result<()> {
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
