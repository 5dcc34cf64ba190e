//! Why a graph cannot be read or written.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::build::BuildError;
use crate::csr::CsrError;
use crate::graph::GraphError;
use crate::memory::OutOfMemory;

/// Why a graph cannot be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReadError {
    /// Nothing is there.
    #[error(
        "there is no file or folder {}; `outboard graph generate` or `outboard graph convert` makes a graph",
        path.display()
    )]
    Absent {
        /// Where it should be.
        path: PathBuf,
    },
    /// The file cannot be opened or read.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Neither its name nor its first bytes tell what it is.
    #[error("{}: cannot tell what format this is; name it, one of {}", path.display(), crate::format::names())]
    UnknownFormat {
        /// Which file.
        path: PathBuf,
    },
    /// A line of a text makes no sense.
    #[error("{}, line {line}: expected {expected}, found {found}", path.display())]
    Line {
        /// Which file.
        path: PathBuf,
        /// Which line, counted from 1.
        line: u64,
        /// What should be there.
        expected: String,
        /// What is there.
        found: String,
    },
    /// A number in a binary file makes no sense.
    #[error("{}, byte {offset}: expected {expected}, found {found}", path.display())]
    Bytes {
        /// Which file.
        path: PathBuf,
        /// Where in it.
        offset: u64,
        /// What should be there.
        expected: String,
        /// What is there.
        found: String,
    },
    /// A file is shorter or longer than what it is said to hold.
    #[error("{} has {found} bytes; {because} makes {expected}", path.display())]
    Size {
        /// Which file.
        path: PathBuf,
        /// How long it should be.
        expected: String,
        /// How long it is.
        found: u64,
        /// What says so.
        because: String,
    },
    /// So many vertices for so few edges are more likely a mistake than a graph.
    #[error(
        "{}: {vertices} vertices for {edges} edges are hardly meant, and would take {} bytes; as format `snap`, \
         vertices without edges are left out", path.display(), vertices.saturating_mul(8)
    )]
    TooSparse {
        /// Which file.
        path: PathBuf,
        /// How many vertices it claims.
        vertices: u64,
        /// How many edges it has.
        edges: u64,
    },
    /// The file that describes a graph image is not understood.
    #[error("{}: {message}", path.display())]
    Metadata {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        message: String,
    },
    /// A graph image of a later version of this program, or of none.
    #[error("{}: graph images of version {found} are unknown here; this program knows version {known}", path.display())]
    Version {
        /// Which file.
        path: PathBuf,
        /// What it says.
        found: u64,
        /// What is known.
        known: u64,
    },
    /// The numbers do not make a graph.
    #[error("{}: {source}", path.display())]
    Rows {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: CsrError,
    },
    /// The numbers do not make a graph.
    #[error("{}: {source}", path.display())]
    Graph {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: GraphError,
    },
    /// The edges do not make a graph.
    #[error("{}: {source}", path.display())]
    Build {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: BuildError,
    },
    /// The graph does not fit into memory.
    #[error("{}: {source}", path.display())]
    Memory {
        /// Which file.
        path: PathBuf,
        /// How much is needed.
        source: OutOfMemory,
    },
}

/// Why a graph cannot be written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ImageWriteError {
    /// There is a file already, and the user has not said that it may go.
    #[error("{} exists already; it is only replaced when that is asked for", path.display())]
    Exists {
        /// Where.
        path: PathBuf,
    },
    /// What is there is no graph image, so it is not removed for one.
    #[error("{} exists and is no graph image; remove it first, or choose another name", path.display())]
    NotAnImage {
        /// Where.
        path: PathBuf,
    },
    /// What is there is a device, a folder or the like, so no file takes its place.
    #[error("{} exists and is no plain file; choose another name", path.display())]
    NotAFile {
        /// Where.
        path: PathBuf,
    },
    /// The name does not tell in which format to write.
    #[error("{}: the name does not tell the format; name it, one of {}", path.display(), crate::format::names())]
    UnknownFormat {
        /// Where.
        path: PathBuf,
    },
    /// The format cannot number so many vertices.
    #[error("{}: {vertices} vertices are too many for this format, which has numbers up to {max}", path.display())]
    TooManyVertices {
        /// Where.
        path: PathBuf,
        /// How many there are.
        vertices: u64,
        /// How many there can be.
        max: u64,
    },
    /// The file cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}
