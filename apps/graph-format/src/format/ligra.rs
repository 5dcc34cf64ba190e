//! The texts of the Ligra framework.

use std::io::{self, Write};

use super::Note;
use crate::csr::{Csr, VERTICES_MAX};
use crate::error::ReadError;
use crate::graph::Graph;
use crate::memory::reserved;
use crate::progress::FormatProgress;
use crate::source::Source;
use crate::text::{Bad, BadLine, Block, Cursor, is_space, print_rows, push_number, scan, shown};

/// How such a file begins.
pub(super) const PLAIN: &[u8] = b"AdjacencyGraph";
/// How one with weights does.
pub(super) const WEIGHTED: &[u8] = b"WeightedAdjacencyGraph";

pub(super) fn read(
    mut source: Source,
    notes: &mut Vec<Note>,
    progress: &dyn FormatProgress,
) -> Result<Graph, ReadError> {
    let mut rows = read_header(&mut source)?;
    if rows.weights > 0 {
        notes.push(Note::WeightsDropped);
    }
    scan(
        &mut source,
        is_space,
        parse,
        |numbers, block, source| rows.take(numbers, &block, source),
        progress,
    )?;
    let rows = rows.finish(&source)?;
    Graph::directed(rows, progress).map_err(|error| source.too_large(error))
}

fn read_header(source: &mut Source) -> Result<Rows, ReadError> {
    let word = source.header_word()?;
    if word != PLAIN && word != WEIGHTED {
        let expected = "the word AdjacencyGraph or WeightedAdjacencyGraph".to_owned();
        let line = source.line();
        return Err(source.wrong_line(line, Bad { expected, found: shown(&word) }));
    }
    let vertices = source.header_number("the number of vertices")?;
    if vertices > VERTICES_MAX {
        let expected = format!("at most {VERTICES_MAX} vertices");
        let line = source.line();
        return Err(source.wrong_line(line, Bad { expected, found: vertices.to_string() }));
    }
    let edges = source.header_number("the number of edges")?;
    let weights = if word == WEIGHTED { edges } else { 0 };
    // Each number has a digit and something before it.
    let bytes_least = vertices.saturating_add(edges).saturating_add(weights).saturating_mul(2);
    if source.size().is_some_and(|bytes| bytes < bytes_least) {
        let because = format!("its header, which announces {vertices} vertices and {edges} edges,");
        return Err(source.wrong_size(format!("at least {bytes_least}"), because));
    }
    // Without a length to compare them with, the numbers are not believed: memory is taken as numbers arrive.
    let room = |len: u64| source.size().map_or(0, |_| len as usize);
    let offsets = reserved(room(vertices + 1)).map_err(|error| source.too_large(error))?;
    let targets = reserved(room(edges)).map_err(|error| source.too_large(error))?;
    Ok(Rows { vertices, edges, weights, taken: 0, offsets, targets })
}

/// The words of a block.
struct Numbers {
    /// What they say; 0 for those that are no numbers.
    values: Vec<u64>,
    /// The first that is none, by its place among them. Weights need not be.
    bad: Option<(usize, BadLine)>,
}

fn parse(text: &[u8]) -> Result<(Numbers, u64), BadLine> {
    let mut numbers = Numbers { values: Vec::with_capacity(text.len() / 4), bad: None };
    let mut cursor = Cursor::new(text);
    let mut line = 0;
    while cursor.any_word_begin(&mut line) {
        let value = cursor.number("a number").unwrap_or_else(|bad| {
            numbers.bad.get_or_insert((numbers.values.len(), BadLine { line, bad }));
            0
        });
        numbers.values.push(value);
    }
    Ok((numbers, line))
}

/// What has been read so far.
struct Rows {
    vertices: u64,
    edges: u64,
    weights: u64,
    taken: u64,
    offsets: Vec<u64>,
    targets: Vec<u32>,
}

impl Rows {
    fn take(&mut self, numbers: Numbers, block: &Block<'_>, source: &Source) -> Result<(), ReadError> {
        let Numbers { values, bad } = numbers;
        let that_count = self.vertices.saturating_add(self.edges);
        let left = |end: u64| usize::try_from(end.saturating_sub(self.taken)).unwrap_or(usize::MAX);
        let (offsets, rest) = values.split_at(left(self.vertices).min(values.len()));
        let targets = &rest[..rest.len().min(left(that_count) - offsets.len())];
        if let Some((index, wrong)) = bad.filter(|(index, _)| *index < left(that_count)) {
            let what =
                if index < offsets.len() { "where the edges of a vertex begin" } else { "a vertex number" };
            let bad = Bad { expected: what.to_owned(), ..wrong.bad };
            return Err(source.wrong_line(block.line + wrong.line, bad));
        }
        self.offsets.extend_from_slice(offsets);
        if let Some(index) = targets.iter().position(|target| *target >= self.vertices) {
            let expected = format!("a vertex number below {}", self.vertices);
            let bad = Bad { expected, found: targets[index].to_string() };
            return Err(source.wrong_line(line_of(block, offsets.len() + index), bad));
        }
        self.targets.extend(targets.iter().map(|target| *target as u32));
        let end = that_count.saturating_add(self.weights);
        if values.len() > left(end) {
            let bad = Bad { expected: "the end of the file".to_owned(), found: "more".to_owned() };
            return Err(source.wrong_line(line_of(block, left(end)), bad));
        }
        self.taken += values.len() as u64;
        Ok(())
    }

    fn finish(mut self, source: &Source) -> Result<Csr, ReadError> {
        let Self { vertices, edges, weights, taken, .. } = self;
        if taken < vertices.saturating_add(edges).saturating_add(weights) {
            let weights = if weights > 0 { " and as many weights" } else { "" };
            let expected = format!("{vertices} offsets and {edges} edges{weights}, as the header says");
            let found = format!("only {taken} numbers after it");
            return Err(source.wrong_line(source.line(), Bad { expected, found }));
        }
        self.offsets.push(edges);
        Csr::new(self.offsets, self.targets)
            .map_err(|error| ReadError::Rows { path: source.path().to_owned(), source: error })
    }
}

/// The line of a block's word.
fn line_of(block: &Block<'_>, index: usize) -> u64 {
    let mut cursor = Cursor::new(block.text);
    let mut line = block.line;
    for _ in 0..index {
        cursor.any_word_begin(&mut line);
        cursor.word();
    }
    cursor.any_word_begin(&mut line);
    line
}

pub(super) fn write(graph: &Graph, to: &mut impl Write, progress: &dyn FormatProgress) -> io::Result<()> {
    let rows = graph.out();
    to.write_all(PLAIN)?;
    writeln!(to, "\n{}\n{}", rows.vertices(), rows.edges())?;
    let print_offsets = |block: std::ops::Range<usize>, text: &mut Vec<u8>| {
        rows.offsets()[block].iter().for_each(|offset| push_number(text, *offset, b'\n'));
    };
    print_rows(to, rows, print_offsets, &())?;
    let print_targets = |block: std::ops::Range<usize>, text: &mut Vec<u8>| {
        let targets = block.flat_map(|vertex| rows.neighbours(vertex));
        targets.for_each(|target| push_number(text, u64::from(*target), b'\n'));
    };
    print_rows(to, rows, print_targets, progress)
}
