//! Matrix Market files.

use std::io::{self, Write};

use super::{Note, graph_of};
use crate::csr::VERTICES_MAX;
use crate::edge_list::EdgeList;
use crate::error::ReadError;
use crate::graph::Graph;
use crate::progress::FormatProgress;
use crate::rows::upper_half;
use crate::source::Source;
use crate::text::{Bad, BadLine, Cursor, each_line, is_line_end, print_rows, push_number, scan, shown};

/// How every such file begins.
pub(super) const MAGIC: &[u8] = b"%%MatrixMarket";

/// What the first lines say.
struct Header {
    /// How many numbers follow the row and column of an entry.
    values: usize,
    symmetric: bool,
    vertices: u64,
    entries: u64,
}

pub(super) fn read(
    mut source: Source,
    notes: &mut Vec<Note>,
    progress: &dyn FormatProgress,
) -> Result<Graph, ReadError> {
    let header = read_header(&mut source)?;
    let mut edges = EdgeList::default();
    let parse = |text: &[u8]| parse(text, &header);
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
    let found = edges.len() as u64;
    if found != header.entries {
        let expected = format!("{} entries, as the header says", header.entries);
        let line = source.line();
        return Err(source.wrong_line(line, Bad { expected, found: format!("{found} after it") }));
    }
    if header.values > 0 {
        notes.push(Note::WeightsDropped);
    }
    graph_of(&source, edges, header.vertices, header.symmetric, progress)
}

fn read_header(source: &mut Source) -> Result<Header, ReadError> {
    let first = source.header_line()?.unwrap_or_default();
    let (values, symmetric) = kind(&first).map_err(|bad| source.wrong_line(1, bad))?;
    loop {
        let number = source.line();
        let Some(line) = source.header_line()? else {
            let expected = "a line with rows, columns and entries".to_owned();
            return Err(source.wrong_line(number, Bad { expected, found: "the end of the file".to_owned() }));
        };
        let mut cursor = Cursor::new(&line);
        if matches!(cursor.word_begin(), None | Some(b'%')) {
            continue;
        }
        let (vertices, entries) = size(&mut cursor).map_err(|bad| source.wrong_line(number, bad))?;
        // The shortest entry is `1 1` and the end of its line, which the last may lack.
        let bytes_least = entries.saturating_mul(4).saturating_sub(1);
        if source.size().is_some_and(|bytes| bytes < bytes_least) {
            let because = format!("its header, which announces {entries} entries,");
            return Err(source.wrong_size(format!("at least {bytes_least}"), because));
        }
        return Ok(Header { values, symmetric, vertices, entries });
    }
}

/// Reads the first line: how many values an entry has, and whether the matrix is symmetric.
fn kind(line: &[u8]) -> Result<(usize, bool), Bad> {
    let line = line.to_ascii_lowercase();
    let mut words = Cursor::new(&line);
    let mut choose = |choices: &[&str]| {
        let word = words.word();
        let chosen = choices.iter().position(|choice| choice.as_bytes() == word);
        chosen.ok_or_else(|| {
            let found = if word.is_empty() { "the end of the line".to_owned() } else { shown(word) };
            Bad { expected: choices.join(" or "), found }
        })
    };
    choose(&["%%matrixmarket"])?;
    choose(&["matrix"])?;
    choose(&["coordinate"])?;
    let values = [0, 1, 1, 2][choose(&["pattern", "real", "integer", "complex"])?];
    let symmetric = choose(&["general", "symmetric", "skew-symmetric", "hermitian"])? > 0;
    words.end()?;
    Ok((values, symmetric))
}

/// Reads the line with rows, columns and entries.
fn size(line: &mut Cursor<'_>) -> Result<(u64, u64), Bad> {
    let rows = line.number("a number of rows")?;
    let columns = line.number("a number of columns")?;
    let entries = line.number("a number of entries")?;
    line.end()?;
    let expected = if rows != columns {
        "as many columns as rows, since a graph's matrix is square".to_owned()
    } else if rows > VERTICES_MAX {
        format!("at most {VERTICES_MAX} rows")
    } else {
        return Ok((rows, entries));
    };
    Err(Bad { expected, found: format!("{rows} rows and {columns} columns") })
}

fn parse(text: &[u8], header: &Header) -> Result<(Vec<(u32, u32)>, u64), BadLine> {
    let mut piece = Vec::with_capacity(text.len() / 8);
    let vertex = |line: &mut Cursor<'_>| {
        let number = line.number("a row or column, counted from 1")?;
        match number {
            1.. if number <= header.vertices => Ok((number - 1) as u32),
            _ => {
                let expected = format!("a row or column from 1 to {}", header.vertices);
                Err(Bad { expected, found: number.to_string() })
            }
        }
    };
    let lines = each_line(text, |line| {
        if matches!(line.word_begin(), None | Some(b'%')) {
            return Ok(());
        }
        piece.push((vertex(line)?, vertex(line)?));
        for _ in 0..header.values {
            let word = line.word();
            if std::str::from_utf8(word).ok().and_then(|word| word.parse::<f64>().ok()).is_none() {
                let found = if word.is_empty() { "the end of the line".to_owned() } else { shown(word) };
                return Err(Bad { expected: "the value of the entry".to_owned(), found });
            }
        }
        line.end()
    })?;
    Ok((piece, lines))
}

/// Writes the lower half of a symmetric matrix, as the format wants it.
pub(super) fn write(graph: &Graph, to: &mut impl Write, progress: &dyn FormatProgress) -> io::Result<()> {
    let rows = graph.out();
    let symmetric = graph.is_symmetric();
    let is_written = |row: usize, column: u32| !symmetric || row as u64 >= u64::from(column);
    // The lower half has as many entries as the upper one.
    let entries = if symmetric { upper_half(rows) } else { rows.edges() };
    let kind = if symmetric { "symmetric" } else { "general" };
    writeln!(to, "%%MatrixMarket matrix coordinate pattern {kind}")?;
    writeln!(to, "{0} {0} {entries}", graph.vertices())?;
    print_rows(
        to,
        rows,
        |block, text| {
            for row in block {
                for column in rows.neighbours(row).iter().filter(|column| is_written(row, **column)) {
                    push_number(text, row as u64 + 1, b' ');
                    push_number(text, u64::from(*column) + 1, b'\n');
                }
            }
        },
        progress,
    )
}
