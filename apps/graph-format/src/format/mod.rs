//! The formats that graphs come in: which there are, and which one a file has.

mod el;
mod ligra;
mod ligra_binary;
mod matrix_market;
mod note;
mod renumber;
mod sg;
mod snap;
mod target;

use std::path::Path;

use crate::build::Cleaning;
use crate::draft::Existing;
use crate::edge_list::EdgeList;
use crate::error::{ImageWriteError, ReadError};
use crate::graph::Graph;
use crate::image::GraphImage;
use crate::progress::FormatProgress;
use crate::source::Source;
pub use note::Note;
pub use target::GraphTarget;

/// A way to write a graph down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// A graph image of this project: a folder `NAME.graph`, see [`GraphImage`].
    Image,
    /// An edge list as the Stanford collection has them, `.txt` or `.snap`: two vertices a line, comments after `#`
    /// or `%`. More columns are left out. A comment `# Undirected graph` means that every edge goes both ways. If
    /// there is a comment `# Nodes: N` and all vertices are below N, they keep their numbers; otherwise they get the
    /// numbers from 0 on in the same order, without gaps.
    Snap,
    /// A Matrix Market file, `.mtx`: a square matrix in coordinates, whose entry in row i and column j is an edge
    /// from vertex i - 1 to vertex j - 1. Values are left out. Whatever is not `general` is symmetric.
    MatrixMarket,
    /// The text of the Ligra framework, `.adj`: the word `AdjacencyGraph`, the numbers of vertices and edges, where
    /// each vertex's edges begin, the edges. The weights of a `WeightedAdjacencyGraph` are left out.
    Ligra,
    /// The three files of the Ligra framework, `NAME.config`, `NAME.idx` and `NAME.adj`: the number of vertices as
    /// text, where each vertex's edges begin (32 bits each, or 64 where Ligra was compiled for long numbers; the
    /// length tells which), the edges (32 bits each). Weights in them cannot be told from edges, so there must be
    /// none.
    LigraBinary,
    /// An edge list of the GAP benchmark suite, `.el` or `.wel`: two vertices a line, comments after `#` or `%`. Weights, in a
    /// third column, are left out. Vertices keep their numbers.
    El,
    /// A serialised graph of the GAP benchmark suite, `.sg`: a byte that says whether it is directed, the numbers of
    /// edges and vertices, offsets (64 bits each) and neighbours (32 bits each), and if it is directed the same of
    /// the edges into vertices.
    Sg,
}

/// A graph that was read.
#[derive(Debug)]
pub struct Loaded {
    /// The graph.
    pub graph: Graph,
    /// The format it had.
    pub format: Format,
    /// What is not as in the file.
    pub notes: Vec<Note>,
}

impl Format {
    /// All of them.
    pub const ALL: &'static [Self] =
        &[Self::Image, Self::Snap, Self::MatrixMarket, Self::Ligra, Self::LigraBinary, Self::El, Self::Sg];

    /// What people call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Image => "image",
            Self::Snap => "snap",
            Self::MatrixMarket => "matrix-market",
            Self::Ligra => "ligra",
            Self::LigraBinary => "ligra-binary",
            Self::El => "el",
            Self::Sg => "sg",
        }
    }

    /// The format of this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|format| format.name() == name)
    }

    /// The format that a file of this name should have.
    pub fn by_extension(path: &Path) -> Option<Self> {
        Some(match path.extension()?.to_str()? {
            GraphImage::EXTENSION => Self::Image,
            "txt" | "snap" => Self::Snap,
            "mtx" => Self::MatrixMarket,
            "adj" => Self::Ligra,
            "config" | "idx" => Self::LigraBinary,
            "el" | "wel" => Self::El,
            "sg" => Self::Sg,
            _ => return None,
        })
    }

    /// The format that a file has, by its first bytes or its name. If it had to be opened, it is not opened again:
    /// it may be a pipe.
    fn of(path: &Path) -> Result<(Self, Option<Source>), ReadError> {
        if GraphImage::is_at(path) {
            return Ok((Self::Image, None));
        }
        let by_name = Self::by_extension(path);
        let has_parts = ligra_binary::part(path, "config").is_file();
        match by_name {
            Some(format @ (Self::Image | Self::LigraBinary)) => return Ok((format, None)),
            None if has_parts && !path.exists() => return Ok((Self::LigraBinary, None)),
            _ => {}
        }
        let mut source = Source::open(path)?;
        let begin = source.peek()?;
        let format = match () {
            () if begin.starts_with(ligra::PLAIN) || begin.starts_with(ligra::WEIGHTED) => Self::Ligra,
            () if begin.starts_with(matrix_market::MAGIC) => Self::MatrixMarket,
            () if by_name == Some(Self::Ligra) && has_parts => Self::LigraBinary,
            () if by_name.is_none() && begin.starts_with(b"#") => Self::Snap,
            () => by_name.ok_or_else(|| ReadError::UnknownFormat { path: path.to_owned() })?,
        };
        Ok((format, Some(source)))
    }
}

/// The names of all formats, for messages.
pub(crate) fn names() -> String {
    Format::ALL.iter().map(|format| format.name()).collect::<Vec<_>>().join(", ")
}

/// Reads a graph in this format, or in the one that it appears to have.
pub fn load(path: &Path, format: Option<Format>, progress: &dyn FormatProgress) -> Result<Loaded, ReadError> {
    let (format, opened) = format.map_or_else(|| Format::of(path), |format| Ok((format, None)))?;
    let source = || opened.map_or_else(|| Source::open(path), Ok);
    let mut notes = Vec::new();
    let graph = match format {
        Format::Image => GraphImage::open(path)?.read_with(progress)?,
        Format::Snap => snap::read(source()?, &mut notes, progress)?,
        Format::MatrixMarket => matrix_market::read(source()?, &mut notes, progress)?,
        Format::Ligra => ligra::read(source()?, &mut notes, progress)?,
        Format::LigraBinary => ligra_binary::read(path, progress)?,
        Format::El => el::read(source()?, &mut notes, progress)?,
        Format::Sg => sg::read(source()?, progress)?,
    };
    Ok(Loaded { graph, format, notes })
}

/// Writes a graph in this format, or in the one that the file's name tells. Returns what is not in the file.
pub fn save(
    graph: &Graph,
    path: &Path,
    format: Option<Format>,
    existing: Existing,
    progress: &dyn FormatProgress,
) -> Result<Vec<Note>, ImageWriteError> {
    GraphTarget::new(path, format, existing)?.save(graph, progress)
}

/// Whether a text may have so many vertices without saying anything of each. Their number alone decides how much
/// memory is needed, so a mistyped one must not.
fn is_plausible(vertices: u64, edges: u64) -> bool {
    const ALWAYS: u64 = 1 << 24;
    const VERTICES_PER_EDGE: u64 = 64;
    vertices <= ALWAYS || vertices / VERTICES_PER_EDGE <= edges
}

/// The graph of the edges in a text.
fn graph_of(
    source: &Source,
    edges: EdgeList,
    vertices: u64,
    symmetric: bool,
    progress: &dyn FormatProgress,
) -> Result<Graph, ReadError> {
    let found = edges.len() as u64;
    if !is_plausible(vertices, found) {
        return Err(ReadError::TooSparse { path: source.path().to_owned(), vertices, edges: found });
    }
    let rows = edges
        .to_csr(vertices, Cleaning::default(), progress)
        .map_err(|error| ReadError::Build { path: source.path().to_owned(), source: error })?;
    drop(edges);
    let graph = Graph::directed(rows, progress).map_err(|error| source.too_large(error))?;
    match symmetric {
        true => graph.symmetrised().map_err(|error| source.too_large(error)),
        false => Ok(graph),
    }
}

#[cfg(test)]
mod tests;
