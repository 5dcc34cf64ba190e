//! Serialised graphs of the GAP benchmark suite.

use std::io::{self, Write};
use std::path::Path;

use crate::csr::Csr;
use crate::error::{ImageWriteError, ReadError};
use crate::graph::Graph;
use crate::progress::FormatProgress;
use crate::rows::{Place, checked};
use crate::source::Source;
use crate::words;

/// The format has signed numbers of 32 bits.
const SG_VERTICES_MAX: u64 = i32::MAX as u64;

/// The byte that says whether it is directed, the number of edges, the number of vertices.
const HEADER_BYTES: u64 = 1 + 8 + 8;

struct Header {
    directed: bool,
    edges: u64,
    vertices: u64,
}

impl Header {
    fn rows_bytes(&self) -> u128 {
        (u128::from(self.vertices) + 1) * 8 + u128::from(self.edges) * 4
    }
}

pub(super) fn read(mut source: Source, progress: &dyn FormatProgress) -> Result<Graph, ReadError> {
    let header = read_header(&mut source)?;
    let copies = if header.directed { 2 } else { 1 };
    let expected = u128::from(HEADER_BYTES) + header.rows_bytes() * copies;
    if source.size().map(u128::from) != Some(expected) {
        let Header { directed, edges, vertices } = header;
        let kind = if directed { "directed" } else { "undirected" };
        let because = format!("its header, a {kind} graph of {vertices} vertices and {edges} edges,");
        return Err(source.wrong_size(expected, because));
    }
    progress.begin("reading", (expected as u64) - HEADER_BYTES);
    let out = read_rows(&mut source, &header, HEADER_BYTES, progress)?;
    let second = HEADER_BYTES + header.rows_bytes() as u64;
    let incoming = header.directed.then(|| read_rows(&mut source, &header, second, progress)).transpose()?;
    Graph::new(out, incoming)
        .map_err(|error| ReadError::Graph { path: source.path().to_owned(), source: error })
}

fn read_header(source: &mut Source) -> Result<Header, ReadError> {
    if source.size().is_none_or(|bytes| bytes < HEADER_BYTES) {
        return Err(source.wrong_size(format!("at least {HEADER_BYTES}"), "the header of a serialised graph"));
    }
    let path = source.path().to_owned();
    let wrong = |offset, expected: String, found: String| ReadError::Bytes { path, offset, expected, found };
    let directed = source.header_bytes::<1>()?[0];
    let [edges, vertices] =
        [source.header_bytes::<8>()?, source.header_bytes::<8>()?].map(i64::from_le_bytes);
    if directed > 1 {
        return Err(wrong(0, "0 or 1, whether the graph is directed".to_owned(), directed.to_string()));
    }
    if edges < 0 {
        return Err(wrong(1, "a number of edges".to_owned(), edges.to_string()));
    }
    if !(0..=SG_VERTICES_MAX as i64).contains(&vertices) {
        return Err(wrong(9, format!("a number of vertices up to {SG_VERTICES_MAX}"), vertices.to_string()));
    }
    Ok(Header { directed: directed == 1, edges: edges as u64, vertices: vertices as u64 })
}

fn read_rows(
    source: &mut Source,
    header: &Header,
    begin: u64,
    progress: &dyn FormatProgress,
) -> Result<Csr, ReadError> {
    let offsets = source.words(header.vertices as usize + 1, progress)?;
    let targets = source.words(header.edges as usize, progress)?;
    let place = |begin, width| Place { path: source.path().to_owned(), begin, width };
    checked((offsets, place(begin, 8)), (targets, place(begin + (header.vertices + 1) * 8, 4)))
}

/// Whether the format has numbers for all vertices.
pub(super) fn check(graph: &Graph, path: &Path) -> Result<(), ImageWriteError> {
    let vertices = graph.vertices() as u64;
    match vertices > SG_VERTICES_MAX {
        true => {
            Err(ImageWriteError::TooManyVertices { path: path.to_owned(), vertices, max: SG_VERTICES_MAX })
        }
        false => Ok(()),
    }
}

pub(super) fn write(graph: &Graph, to: &mut impl Write, progress: &dyn FormatProgress) -> io::Result<()> {
    let directed = !graph.is_symmetric();
    let rows: &[&Csr] = if directed { &[graph.out(), graph.incoming()] } else { &[graph.out()] };
    let bytes =
        rows.iter().map(|rows| size_of_val(rows.offsets()) + size_of_val(rows.targets())).sum::<usize>();
    progress.begin("writing", bytes as u64);
    to.write_all(&[u8::from(directed)])?;
    to.write_all(&(graph.edges() as i64).to_le_bytes())?;
    to.write_all(&(graph.vertices() as i64).to_le_bytes())?;
    for rows in rows {
        words::write(to, rows.offsets(), progress)?;
        words::write(to, rows.targets(), progress)?;
    }
    Ok(())
}
