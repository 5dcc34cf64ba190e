//! The binary files of the Ligra framework: `.config`, `.idx` and `.adj`.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::csr::VERTICES_MAX;
use crate::draft::{Draft, Existing};
use crate::error::{ImageWriteError, ReadError};
use crate::graph::Graph;
use crate::progress::FormatProgress;
use crate::rows::{Place, checked};
use crate::source::Source;
use crate::text::Bad;
use crate::words;

const PARTS: [&str; 3] = ["adj", "idx", "config"];

/// One of the three files, given any of them or what their names have in common.
pub(super) fn part(path: &Path, part: &str) -> PathBuf {
    let is_part = path.extension().is_some_and(|extension| PARTS.iter().any(|part| extension == *part));
    let mut name = if is_part { path.with_extension("").into_os_string() } else { OsString::from(path) };
    name.push(".");
    name.push(part);
    name.into()
}

pub(super) fn read(path: &Path, progress: &dyn FormatProgress) -> Result<Graph, ReadError> {
    let vertices = read_config(&part(path, "config"))?;
    let mut index = Source::open(&part(path, "idx"))?;
    let mut adjacent = Source::open(&part(path, "adj"))?;
    let width = offset_width(&index, vertices)?;
    let bytes = adjacent.size().filter(|bytes| bytes % 4 == 0);
    let edges =
        bytes.ok_or_else(|| adjacent.wrong_size("a multiple of 4", "a list of edges of 4 bytes each"))? / 4;

    progress.begin("reading", vertices * width + edges * 4);
    let mut offsets: Vec<u64> = match width {
        4 => index.words::<u32>(vertices as usize, progress)?.into_iter().map(u64::from).collect(),
        _ => index.words(vertices as usize, progress)?,
    };
    offsets.push(edges);
    let targets = adjacent.words(edges as usize, progress)?;
    let place = |source: &Source, width| Place { path: source.path().to_owned(), begin: 0, width };
    let rows = checked((offsets, place(&index, width)), (targets, place(&adjacent, 4)))?;
    Graph::directed(rows, progress).map_err(|error| adjacent.too_large(error))
}

fn read_config(path: &Path) -> Result<u64, ReadError> {
    let mut config = Source::open(path)?;
    let vertices = config.header_number("the number of vertices")?;
    if vertices > VERTICES_MAX {
        let bad = Bad { expected: format!("at most {VERTICES_MAX} vertices"), found: vertices.to_string() };
        return Err(config.wrong_line(config.line(), bad));
    }
    Ok(vertices)
}

/// How many bytes an offset has: Ligra can be compiled for either.
fn offset_width(index: &Source, vertices: u64) -> Result<u64, ReadError> {
    [4, 8].into_iter().find(|width| index.size() == Some(vertices * width)).ok_or_else(|| {
        let because = format!("one offset for each of the {vertices} vertices of the .config file");
        index.wrong_size(format!("{} or {}", 4 * vertices, 8 * vertices), because)
    })
}

/// Drafts of the three files.
pub(super) fn drafts(path: &Path, existing: Existing) -> Result<[Draft; 3], ImageWriteError> {
    let [adjacent, index, config] = PARTS.map(|name| Draft::of(&part(path, name), existing));
    Ok([adjacent?, index?, config?])
}

/// Writes offsets of 4 bytes, which Ligra as it is usually compiled reads, where they suffice.
pub(super) fn write(
    graph: &Graph,
    path: &Path,
    existing: Existing,
    progress: &dyn FormatProgress,
) -> Result<(), ImageWriteError> {
    let rows = graph.out();
    let offsets = &rows.offsets()[..rows.vertices()];
    let [adjacent, index, config] = drafts(path, existing)?;
    progress.begin("writing", (rows.edges() * 4) as u64);
    adjacent.write_file(|to| words::write(to, rows.targets(), progress))?;
    index.write_file(|to| match u32::try_from(rows.edges()) {
        Ok(_) => {
            let short: Vec<u32> = offsets.iter().map(|offset| *offset as u32).collect();
            words::write(to, &short, &())
        }
        Err(_) => words::write(to, offsets, &()),
    })?;
    config.write_file(|to| writeln!(to, "{}", rows.vertices()))
}
