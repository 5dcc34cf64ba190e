//! Six applications made of small messages, each with a serial reference that its result is compared with.
//! It starts no processes: the program that does gives each rank a [`Messenger`].
//!
//! | application | what travels | result |
//! |---|---|---|
//! | [`Histogram`] | places in a table, to be counted | the table |
//! | [`IndexGather`] | requests for elements of a table, and replies | the elements, where they were wanted |
//! | [`Transpose`] | entries of a sparse matrix | the transposed matrix |
//! | [`Triangles`] | questions whether there is an edge | triangles of each vertex |
//! | [`ShortestPaths`] | offers of a shorter path | the distance of each vertex |
//! | [`Transport`] | particles that fly into another rank's cells | what happened in each cell |
//!
//! [`App`] runs any of them. The same sizes, seed and number of ranks give the same result, bit for bit, in whatever order
//! messages arrive.
//!
//! Graphs and matrices come from the generators of `outboard-graph-format`. Every rank makes the whole one and keeps its
//! own rows, before the clock starts.

#![deny(unsafe_code)]

mod application;
mod error;
mod gather;
mod histogram;
mod paths;
#[allow(unsafe_code)]
mod prefetch;
mod random;
mod results;
mod rows;
mod team;
mod transport;
mod transpose;
mod triangles;
mod watch;

pub use application::{ApplicationReport, Comparison, NamedNumber, messenger_options};
pub use error::AppError;
pub use gather::IndexGather;
pub use histogram::Histogram;
pub use paths::{LENGTH_MAX, ShortestPaths};
pub use rows::Shape;
pub use transport::Transport;
pub use transpose::Transpose;
pub use triangles::Triangles;
pub use watch::{Category, MemoryTraffic, RunWatch};

use outboard::Messenger;
use serde::{Deserialize, Serialize};

use crate::application::{Application, play};

/// One of the applications, with its sizes.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum App {
    /// Counts in a table that is spread over all ranks.
    Histogram(Histogram),
    /// Reads from a table that is spread over all ranks.
    IndexGather(IndexGather),
    /// Turns the rows of a sparse matrix into columns.
    Transpose(Transpose),
    /// Counts the triangles of a graph.
    Triangles(Triangles),
    /// Finds shortest paths from one vertex to all others.
    ShortestPaths(ShortestPaths),
    /// Follows particles through a mesh of cells.
    Transport(Transport),
}

/// Does the same with whichever application it is.
macro_rules! with_app {
    ($app:expr, $inner:ident => $work:expr) => {
        match $app {
            App::Histogram($inner) => $work,
            App::IndexGather($inner) => $work,
            App::Transpose($inner) => $work,
            App::Triangles($inner) => $work,
            App::ShortestPaths($inner) => $work,
            App::Transport($inner) => $work,
        }
    };
}

impl App {
    /// What it is called.
    pub fn name(&self) -> &'static str {
        fn name<A: Application>(_: &A) -> &'static str {
            A::NAME
        }
        with_app!(self, app => name(app))
    }

    /// Says whether its sizes make sense for so many ranks.
    pub fn check(&self, ranks: u32) -> Result<(), AppError> {
        with_app!(self, app => app.check(ranks))
    }

    /// Runs it together with the other ranks, which all have to run the same and watch the same. Rank 0 gets the report.
    /// The messenger was made with [`messenger_options`].
    pub fn play(
        &self,
        messenger: &mut Messenger,
        watch: &RunWatch<'_>,
    ) -> Result<Option<ApplicationReport>, AppError> {
        with_app!(self, app => play(app, messenger, watch))
    }
}
