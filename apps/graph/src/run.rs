//! What an application needs besides its graph, and why it may not start.

use std::error::Error;

use crate::crew::Crew;
use crate::{Arrays, FarNumber, StepProgress, Workers};

/// Who does the work, where the state of vertices lies, and who watches.
pub struct RunContext<'a, A: Arrays> {
    /// The threads that walk the graph.
    pub workers: &'a Workers,
    /// Where ranks, levels and labels lie.
    pub arrays: &'a A,
    /// Who hears of progress.
    pub progress: &'a dyn StepProgress,
    /// Which way to move through the graph.
    pub sweeps: Sweeps,
}

/// Which way passes through a whole graph move. The results are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sweeps {
    /// All of them upwards: what files mapped into memory are read ahead for.
    #[default]
    Upwards,
    /// Each the other way than the one before. It begins with what the one before has touched last: of a graph
    /// in far memory, so much need not be fetched again as there is room for in the local buffer, whereas passes
    /// in one direction find nothing there that they need.
    BackAndForth,
}

/// An application cannot run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The vertex to start from does not exist.
    #[error("there is no vertex {vertex} in a graph of {vertices} vertices; they are numbered from 0")]
    NoSuchVertex {
        /// What was asked for.
        vertex: u32,
        /// How many there are.
        vertices: usize,
    },
    /// A number that makes no sense for this application.
    #[error("{name} is {value}, but has to be {range}")]
    BadOption {
        /// Which option.
        name: &'static str,
        /// What was asked for.
        value: f64,
        /// What is possible.
        range: &'static str,
    },
    /// A number of paths that no floating-point number can tell.
    #[error(
        "more than 1e308 shortest paths lead to a vertex of level {level}, too many to compare their shares"
    )]
    TooManyPaths {
        /// How far from the source.
        level: u32,
    },
    /// There is no memory for the state of vertices.
    #[error("cannot have the array \"{name}\" of {len} numbers")]
    NoArray {
        /// What it is for.
        name: &'static str,
        /// How many numbers.
        len: usize,
        /// Why not.
        source: Box<dyn Error + Send + Sync>,
    },
}

impl<'a, A: Arrays> RunContext<'a, A> {
    pub(crate) fn crew(&self) -> Crew<'a> {
        Crew::new(self.workers, self.progress, self.sweeps)
    }

    pub(crate) fn array<T: FarNumber>(
        &self,
        len: usize,
        name: &'static str,
    ) -> Result<A::Array<T>, RunError> {
        self.arrays.zeroed(len, name).map_err(|source| RunError::NoArray {
            name,
            len,
            source: Box::new(source),
        })
    }
}
