//! Graphs in the formats people have, generators of graphs, and an own format whose arrays a memory server can
//! load. It computes nothing on a graph.
//!
//! A [`Graph`] has the edges out of each vertex as compressed sparse rows ([`Csr`]) and, unless it is symmetric,
//! those into each vertex. Weights are not kept. Vertices are numbered from 0, neighbours are in ascending order.
//!
//! ```
//! use outboard_graph_format::{Cleaning, GeneratorKind, Recipe};
//!
//! let cleaning = Cleaning { both_directions: true, ..Cleaning::default() };
//! let graph = Recipe { kind: GeneratorKind::Uniform, scale: 10, degree: 8, seed: 1, cleaning }.make(&())?;
//! assert_eq!(graph.vertices(), 1024);
//! assert!(graph.is_symmetric());
//! # Ok::<(), outboard_graph_format::GenerateError>(())
//! ```
//!
//! Whatever a file says is checked before it is believed: counts against the length of the file before memory is
//! reserved, every vertex number against the number of vertices.
#![forbid(unsafe_code)]

mod build;
mod csr;
mod draft;
mod edge_list;
mod error;
mod format;
mod generate;
mod graph;
mod image;
mod memory;
mod progress;
mod random;
mod rows;
#[cfg(test)]
mod scratch;
mod source;
mod text;
mod words;

pub use build::{BuildError, Cleaning};
pub use csr::{Csr, CsrError, VERTICES_MAX};
pub use draft::Existing;
pub use edge_list::EdgeList;
pub use error::{ImageWriteError, ReadError};
pub use format::{Format, GraphTarget, Loaded, Note, load, save};
pub use generate::{GenerateError, GeneratorKind, Recipe, SCALE_MAX, Skew};
pub use graph::{Graph, GraphError};
pub use image::{GraphImage, ImageArray};
pub use memory::OutOfMemory;
pub use progress::FormatProgress;
