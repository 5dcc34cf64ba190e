//! Graphs made up by chance. The same numbers and seed give the same graph, whatever the number of threads.

mod rmat;
mod uniform;

use thiserror::Error;

use crate::build::{BuildError, Cleaning, Edges, build};
use crate::graph::Graph;
use crate::memory::{OutOfMemory, reserved};
use crate::progress::FormatProgress;
use crate::random::{Random, Shuffle};
pub use rmat::Skew;

/// The most doublings of the number of vertices: numbers of vertices have 32 bits, and one is left free.
pub const SCALE_MAX: u32 = 31;

/// Which graph to make.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Recipe {
    /// How its edges are drawn.
    pub kind: GeneratorKind,
    /// The graph has 2 to the power of this many vertices, at most [`SCALE_MAX`].
    pub scale: u32,
    /// So many edges are drawn for each vertex.
    pub degree: u32,
    /// Which of the many graphs with these numbers.
    pub seed: u64,
    /// What to do with the edges drawn. With `both_directions` the graph is symmetric.
    pub cleaning: Cleaning,
}

/// How edges are drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum GeneratorKind {
    /// A few vertices have very many edges and most have few, as in social networks (R-MAT).
    Rmat {
        /// How uneven it is.
        skew: Skew,
        /// Give vertices new numbers by chance. Without it, vertices with many edges have small numbers, and ones
        /// with many zeros in binary.
        permuted: bool,
    },
    /// Both ends of every edge are any vertex.
    Uniform,
}

/// Why a graph cannot be made.
#[derive(Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum GenerateError {
    /// There are not so many vertex numbers.
    #[error("scale {scale} is too large: at most {SCALE_MAX}, which is 2^{SCALE_MAX} vertices")]
    Scale {
        /// What was asked for.
        scale: u32,
    },
    /// Chances are between 0 and 1 and add up to at most 1.
    #[error(
        "the chances {}, {} and {} are not all between 0 and 1 with a sum of at most 1",
        skew.a, skew.b, skew.c
    )]
    Skew {
        /// What was asked for.
        skew: Skew,
    },
    /// The graph does not fit.
    #[error(transparent)]
    Memory(#[from] OutOfMemory),
}

impl Recipe {
    /// Makes the graph.
    pub fn make(&self, progress: &dyn FormatProgress) -> Result<Graph, GenerateError> {
        if self.scale > SCALE_MAX {
            return Err(GenerateError::Scale { scale: self.scale });
        }
        let draw = match self.kind {
            GeneratorKind::Uniform => Draw::Uniform,
            GeneratorKind::Rmat { skew, permuted } => {
                let thresholds = skew.thresholds().ok_or(GenerateError::Skew { skew })?;
                Draw::Rmat(thresholds, permuted.then(|| Shuffle::new(self.scale, self.seed)))
            }
        };
        let edges = u64::from(self.degree) << self.scale;
        // Refused now rather than after all edges have been drawn once.
        reserved::<u64>(usize::try_from(edges).unwrap_or(usize::MAX))?;
        let drawn = Drawn { draw, edges, scale: self.scale, seed: self.seed };
        let rows = match build(&drawn, 1 << self.scale, self.cleaning, progress) {
            Ok(rows) => rows,
            Err(BuildError::Memory(error)) => return Err(error.into()),
            Err(other) => unreachable!("edges are drawn between vertices there are: {other}"),
        };
        if self.cleaning.both_directions {
            return Ok(Graph::symmetric(rows));
        }
        Ok(Graph::directed(rows, progress)?)
    }
}

enum Draw {
    Rmat(rmat::Thresholds, Option<Shuffle>),
    Uniform,
}

/// Edges that are drawn whenever they are looked at: that is about as fast as to keep them, and takes no memory.
struct Drawn {
    draw: Draw,
    edges: u64,
    scale: u32,
    seed: u64,
}

impl Drawn {
    /// Edges per stream of random numbers. Part of what a seed means.
    const STREAM: u64 = 1 << 12;

    fn streams(&self) -> u64 {
        self.edges.div_ceil(Self::STREAM)
    }
}

impl Edges for Drawn {
    fn blocks(&self) -> usize {
        const MOST: u64 = 512;
        self.streams().min(MOST) as usize
    }

    fn visit(&self, block: usize, mut show: impl FnMut(u32, u32)) {
        let (streams, blocks) = (self.streams(), self.blocks() as u64);
        // Fewer than 2^52 streams, since scale and degree together have 63 bits.
        let begin = |block: u64| (u128::from(streams) * u128::from(block) / u128::from(blocks)) as u64;
        for stream in begin(block as u64)..begin(block as u64 + 1) {
            let mut random = Random::stream(self.seed, stream);
            let edges = Self::STREAM.min(self.edges - stream * Self::STREAM);
            for _ in 0..edges {
                let (from, to) = match &self.draw {
                    Draw::Uniform => uniform::draw(self.scale, &mut random),
                    Draw::Rmat(thresholds, None) => thresholds.draw(self.scale, &mut random),
                    Draw::Rmat(thresholds, Some(shuffle)) => {
                        let (from, to) = thresholds.draw(self.scale, &mut random);
                        (shuffle.rename(from), shuffle.rename(to))
                    }
                };
                show(from, to);
            }
        }
    }
}

#[cfg(test)]
mod tests;
