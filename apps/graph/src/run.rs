//! What an application needs besides its graph, and why it may not start.

use std::error::Error;

use crate::{Arrays, Plain, Progress, Step, Workers};

/// Who does the work, where the state of vertices lies, and who watches.
pub struct Run<'a, A: Arrays> {
    /// The threads that walk the graph.
    pub workers: &'a Workers,
    /// Where ranks, levels and labels lie.
    pub arrays: &'a A,
    /// Who hears of progress.
    pub progress: &'a dyn Progress,
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

/// Who does the work and who watches, whatever the kind of memory.
#[derive(Clone, Copy)]
pub(crate) struct Crew<'a> {
    pub(crate) workers: &'a Workers,
    pub(crate) progress: &'a dyn Progress,
}

impl<'a, A: Arrays> Run<'a, A> {
    pub(crate) fn crew(&self) -> Crew<'a> {
        Crew { workers: self.workers, progress: self.progress }
    }

    pub(crate) fn array<T: Plain>(&self, len: usize, name: &'static str) -> Result<A::Array<T>, RunError> {
        self.arrays.zeroed(len, name).map_err(|source| RunError::NoArray {
            name,
            len,
            source: Box::new(source),
        })
    }

    pub(crate) fn step(&self, what: &'static str, number: u32) {
        self.crew().step(what, number);
    }
}

impl Crew<'_> {
    /// Says that a step begins whose number of edges nobody knows.
    pub(crate) fn step(self, what: &'static str, number: u32) {
        self.progress.step(Step { what, number, of: None, edges: None });
    }
}
