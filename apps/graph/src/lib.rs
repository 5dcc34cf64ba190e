//! Five graph applications on compressed sparse rows, wherever their arrays lie.
//! It reads no files: graphs come as [`GraphView`]s on slices, the state of the vertices from a type that implements
//! [`Arrays`]. The module [`far`] has both for far memory.
//!
//! | application | answers | result |
//! |---|---|---|
//! | [`bfs`] | how many edges from one vertex to every other | [`bfs::Levels`] |
//! | [`pagerank`] | how likely a random walk is at a vertex | [`pagerank::Ranks`] |
//! | [`radii`] | how far a vertex is from the farthest of 64 others | [`radii::Radii`] |
//! | [`betweenness`] | how many shortest paths from one vertex lead through a vertex | [`betweenness::Betweenness`] |
//! | [`components`] | which vertices hang together | [`components::Labels`] |
//!
//! [`Application`] runs any of them by its name.
//!
//! ```
//! use outboard_graph::{CsrView, Dram, GraphView, RunContext, Sweeps, Workers, bfs};
//!
//! // A path 0 – 1 – 2 and a vertex 3 without edges.
//! let path = CsrView::new(&[0, 1, 3, 4, 4], &[1, 0, 2, 1])?;
//! let graph = GraphView::symmetric(path);
//!
//! let workers = Workers::new(2)?;
//! let run = RunContext { workers: &workers, arrays: &Dram, progress: &(), sweeps: Sweeps::Upwards };
//! let levels = bfs::run(graph, 0, &run)?;
//! assert_eq!((levels.level(2), levels.level(3)), (Some(2), None));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is promised
//!
//! - A result has the same bits for any number of workers, any placement of the arrays and any timing.
//! - No lock is held while a worker touches the graph or the state of its vertices: any such touch may be a page
//!   fault that takes as long as a network does. More workers than cores hide that time.
//! - Edges are walked in ascending order of vertices, and handed to the workers in that order, so that all of
//!   them read within one window that moves through the arrays once per pass.
//! - What decides whether far arrays need to be touched at all (visited bits, frontiers: a bit or a number per
//!   vertex) is kept in the memory of the process.
//!
//! # Caveats
//!
//! A view's constructor looks at the ends of the arrays only. An array that is wrong inside (offsets that
//! decrease, neighbours that do not exist) makes an application panic; [`GraphView::check`] walks all of it
//! and says what is wrong.

#![deny(unsafe_code)]

pub mod application;
mod arrays;
pub mod betweenness;
pub mod bfs;
mod bitmap;
mod blocks;
mod checksum;
pub mod components;
mod crew;
pub mod far;
mod frontier;
mod output;
pub mod pagerank;
mod prefetch;
mod progress;
pub mod radii;
mod random;
mod run;
mod shared;
mod top;
mod view;
mod workers;

pub use application::Application;
pub use arrays::{Arrays, Dram, FarNumber, NoArrayMemory};
pub use output::ValueFormat;
pub use prefetch::Prefetch;
pub use progress::{Step, StepProgress};
pub use run::{RunContext, RunError, Sweeps};
pub use view::{CsrView, GraphView, ViewError};
pub use workers::{Workers, WorkersError};
