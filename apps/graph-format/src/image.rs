//! Graph images: this project's own format.
//!
//! An image is a folder `NAME.graph` with `graph.toml`, which says what the graph is, and each array in a file of
//! its own, without any header: `out.offsets` (64 bits each), `out.targets` (32 bits each), and for a graph that is
//! not symmetric `in.offsets` and `in.targets`; the lowest byte of a number comes first. So a memory server can load
//! an array as a region just as it lies in the file, and a program can map it.

mod check;

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::csr::VERTICES_MAX;
use crate::draft::{Draft, Existing, write_synced};
use crate::error::{ImageWriteError, ReadError};
use crate::graph::Graph;
use crate::memory::zeroed;
use crate::progress::FormatProgress;
use crate::rows::{Place, checked};
use crate::words::{self, Word};

/// A graph image whose files are as long as they should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GraphImage {
    folder: PathBuf,
    metadata: Metadata,
}

/// What `graph.toml` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Metadata {
    format: u64,
    vertices: u64,
    edges: u64,
    symmetric: bool,
}

/// Only the version, which has to be understood first.
#[derive(Deserialize)]
struct Version {
    format: u64,
}

/// One array of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageArray {
    /// The name of its file within the image, for example `out.targets`.
    pub name: &'static str,
    /// The file.
    pub path: PathBuf,
    /// How many numbers it holds.
    pub len: u64,
    /// How many bytes each number has.
    pub word_bytes: u64,
}

impl ImageArray {
    /// How long the file is.
    pub fn bytes(&self) -> u64 {
        self.len * self.word_bytes
    }
}

const FORMAT: u64 = 1;
const METADATA: &str = "graph.toml";
const OUT: [&str; 2] = ["out.offsets", "out.targets"];
const IN: [&str; 2] = ["in.offsets", "in.targets"];
const KNOWN_FILES: [&str; 5] = [METADATA, OUT[0], OUT[1], IN[0], IN[1]];

impl GraphImage {
    /// How the names of images end.
    pub const EXTENSION: &'static str = "graph";
    /// The name of the file within an image that says what the graph is.
    pub const DESCRIPTION: &'static str = METADATA;
    /// More bytes than any description has.
    pub const DESCRIPTION_BYTES_MAX: u64 = 1 << 16;

    /// Writes a graph as an image, unless there is something of that name.
    pub fn write(graph: &Graph, path: impl AsRef<Path>) -> Result<Self, ImageWriteError> {
        Self::write_with(graph, path.as_ref(), Existing::Keep, &())
    }

    /// Says whether an image could be written there.
    pub(crate) fn check_target(path: &Path, existing: Existing) -> Result<(), ImageWriteError> {
        Draft::of(path, existing)?.check_replaceable(&KNOWN_FILES)
    }

    /// Writes a graph as an image. It appears under its name only when it is complete.
    pub fn write_with(
        graph: &Graph,
        path: &Path,
        existing: Existing,
        progress: &dyn FormatProgress,
    ) -> Result<Self, ImageWriteError> {
        let draft = Draft::of(path, existing)?;
        let metadata = Metadata {
            format: FORMAT,
            vertices: graph.vertices() as u64,
            edges: graph.edges() as u64,
            symmetric: graph.is_symmetric(),
        };
        let in_draft = Self { folder: draft.path().to_owned(), metadata };
        progress.begin("writing", in_draft.bytes());
        in_draft
            .write_files(graph, progress)
            .map_err(|source| ImageWriteError::Io { path: path.to_owned(), source })?;
        draft.place_folder(&KNOWN_FILES)?;
        Ok(Self { folder: path.to_owned(), metadata })
    }

    fn write_files(&self, graph: &Graph, progress: &dyn FormatProgress) -> std::io::Result<()> {
        fs::create_dir(&self.folder)?;
        let incoming = (!graph.is_symmetric()).then(|| (graph.incoming(), IN));
        for (rows, [offsets, targets]) in std::iter::once((graph.out(), OUT)).chain(incoming) {
            let file = |name: &str| self.folder.join(name);
            write_synced(&file(offsets), |to| words::write(to, rows.offsets(), progress))?;
            write_synced(&file(targets), |to| words::write(to, rows.targets(), progress))?;
        }
        let Metadata { format, vertices, edges, symmetric } = self.metadata;
        write_synced(&self.folder.join(METADATA), |file| {
            writeln!(file, "# An Outboard graph image; the arrays are little-endian numbers.")?;
            writeln!(file, "format = {format}")?;
            writeln!(file, "vertices = {vertices}\nedges = {edges}\nsymmetric = {symmetric}")
        })
    }

    /// Opens an image and checks that its files are as long as they should be, without reading them.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, ReadError> {
        let folder = path.as_ref().to_owned();
        if !folder.try_exists().unwrap_or(true) {
            return Err(ReadError::Absent { path: folder });
        }
        let metadata = read_metadata(&folder.join(METADATA))?;
        let image = Self { folder, metadata };
        for array in image.arrays() {
            check_length(&array)?;
        }
        Ok(image)
    }

    /// An image that lies where its files cannot be looked at, by the text of its description.
    pub fn described(path: impl Into<PathBuf>, description: &str) -> Result<Self, ReadError> {
        let folder = path.into();
        let metadata = parse_metadata(&folder.join(METADATA), description)?;
        Ok(Self { folder, metadata })
    }

    /// Whether something looks like an image.
    pub fn is_at(path: &Path) -> bool {
        path.join(METADATA).is_file()
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.folder
    }

    /// How many vertices.
    pub fn vertices(&self) -> u64 {
        self.metadata.vertices
    }

    /// How many edges; in a symmetric graph each direction counts.
    pub fn edges(&self) -> u64 {
        self.metadata.edges
    }

    /// Whether the incoming edges are the outgoing ones, and not stored again.
    pub fn is_symmetric(&self) -> bool {
        self.metadata.symmetric
    }

    /// Its arrays: offsets and targets of the outgoing edges, then those of the incoming ones unless it is symmetric.
    pub fn arrays(&self) -> Vec<ImageArray> {
        let Metadata { vertices, edges, symmetric, .. } = self.metadata;
        let array = |name: &'static str, len, word_bytes| ImageArray {
            name,
            path: self.folder.join(name),
            len,
            word_bytes,
        };
        let names = if symmetric { [Some(OUT), None] } else { [Some(OUT), Some(IN)] };
        let both = |[offsets, targets]: [&'static str; 2]| {
            [
                array(offsets, vertices + 1, size_of::<u64>() as u64),
                array(targets, edges, size_of::<u32>() as u64),
            ]
        };
        names.into_iter().flatten().flat_map(both).collect()
    }

    /// How many bytes all arrays have together.
    pub fn bytes(&self) -> u64 {
        self.arrays().iter().map(ImageArray::bytes).sum()
    }

    /// Looks through all arrays for numbers that make no graph, and keeps none of them. Whether both directions have
    /// the same edges is not found out.
    pub fn check(&self, progress: &dyn FormatProgress) -> Result<(), ReadError> {
        progress.begin("checking", self.bytes());
        check::arrays(&self.arrays(), progress)
    }

    /// Reads the whole graph.
    pub fn read(&self) -> Result<Graph, ReadError> {
        self.read_with(&())
    }

    /// Reads the whole graph, and checks it.
    pub fn read_with(&self, progress: &dyn FormatProgress) -> Result<Graph, ReadError> {
        let arrays = self.arrays();
        progress.begin("reading", self.bytes());
        let place =
            |array: &ImageArray| Place { path: array.path.clone(), begin: 0, width: array.word_bytes };
        let mut rows = arrays.chunks_exact(2).map(|pair| {
            let (offsets, targets) = (read_array(&pair[0], progress)?, read_array(&pair[1], progress)?);
            checked((offsets, place(&pair[0])), (targets, place(&pair[1])))
        });
        let failed = |source| ReadError::Graph { path: self.folder.clone(), source };
        match (rows.next().transpose()?, rows.next().transpose()?) {
            (Some(out), incoming) => Graph::new(out, incoming).map_err(failed),
            (None, _) => unreachable!("every image has the arrays of its outgoing edges"),
        }
    }
}

fn read_metadata(path: &Path) -> Result<Metadata, ReadError> {
    let failed = |source| ReadError::Io { path: path.to_owned(), source };
    let mut text = String::new();
    let most = GraphImage::DESCRIPTION_BYTES_MAX;
    File::open(path).and_then(|file| file.take(most).read_to_string(&mut text)).map_err(failed)?;
    parse_metadata(path, &text)
}

fn parse_metadata(path: &Path, text: &str) -> Result<Metadata, ReadError> {
    let wrong = |message: String| ReadError::Metadata { path: path.to_owned(), message };
    let refused = |error: toml::de::Error| wrong(error.to_string().trim_end().to_owned());
    let Version { format } = toml::from_str(text).map_err(refused)?;
    if format != FORMAT {
        return Err(ReadError::Version { path: path.to_owned(), found: format, known: FORMAT });
    }
    let metadata: Metadata = toml::from_str(text).map_err(refused)?;
    if metadata.vertices > VERTICES_MAX {
        return Err(wrong(format!("vertices = {} is over the limit of {VERTICES_MAX}", metadata.vertices)));
    }
    if metadata.edges > EDGES_MAX {
        return Err(wrong(format!("edges = {} is over the limit of {EDGES_MAX}", metadata.edges)));
    }
    Ok(metadata)
}

/// No disk holds more, and the bytes they take can be counted.
const EDGES_MAX: u64 = 1 << 60;

fn check_length(array: &ImageArray) -> Result<(), ReadError> {
    let metadata =
        fs::metadata(&array.path).map_err(|source| ReadError::Io { path: array.path.clone(), source })?;
    if metadata.len() == array.bytes() {
        return Ok(());
    }
    let because =
        format!("{METADATA}, by which it holds {} numbers of {} bytes,", array.len, array.word_bytes);
    let expected = array.bytes().to_string();
    Err(ReadError::Size { path: array.path.clone(), expected, found: metadata.len(), because })
}

fn read_array<T: Word>(array: &ImageArray, progress: &dyn FormatProgress) -> Result<Vec<T>, ReadError> {
    let path = || array.path.clone();
    check_length(array)?;
    let mut numbers =
        zeroed(array.len as usize).map_err(|source| ReadError::Memory { path: path(), source })?;
    File::open(&array.path)
        .and_then(|mut file| words::read(&mut file, &mut numbers, progress))
        .map_err(|source| ReadError::Io { path: path(), source })?;
    Ok(numbers)
}

#[cfg(test)]
mod tests;
