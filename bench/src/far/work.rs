//! What programs do to memory, wherever it lies.

use std::time::Instant;

use fastrand::Rng;
use serde::{Deserialize, Serialize};

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Work {
    /// Stores a word into every page, none of which was touched before.
    FirstTouch,
    /// Reads words here and there.
    Random {
        /// How many.
        reads: u64,
    },
    /// Reads all words in order.
    Scan,
    /// As PageRank does: reads edges in order, and for each a number of four bytes here or there; stores a number for
    /// every vertex.
    Ranks,
}

/// What the memory holds at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Contents {
    /// Nothing: it was never touched.
    Fresh,
    /// A number for every word.
    Words,
    /// A graph: scores, sums, and the ends of edges.
    Graph,
}

/// How long a piece of work took, and what it found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Took {
    pub(super) seconds: f64,
    /// How many touches, words or edges.
    pub(super) items: u64,
    pub(super) digest: u64,
}

/// Edges for each vertex: a word of scores and sums goes with so many words of edges.
const DEGREE: usize = 16;

/// What the word of this number holds.
pub(super) fn word(index: usize) -> u64 {
    (index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1
}

/// A graph in an array: scores of four bytes, then sums, then the vertices at which edges end.
struct Parts<'a> {
    scores: &'a mut [u32],
    sums: &'a mut [u32],
    edges: &'a mut [u32],
}

fn parts(words: &mut [u64]) -> Parts<'_> {
    let vertices = vertices(words.len());
    let len = words.len() * 2;
    // SAFETY: the same bytes as numbers of half the size; any bytes are a value.
    let numbers = unsafe { core::slice::from_raw_parts_mut(words.as_mut_ptr().cast::<u32>(), len) };
    let (scores, rest) = numbers.split_at_mut(vertices);
    let (sums, edges) = rest.split_at_mut(vertices);
    Parts { scores, sums, edges: &mut edges[..vertices * DEGREE] }
}

/// How many vertices there is room for.
fn vertices(words: usize) -> usize {
    words * 2 / (DEGREE + 2)
}

/// How many edges there are in so many words.
pub(super) fn edges(words: usize) -> usize {
    vertices(words) * DEGREE
}

impl Contents {
    /// Writes it.
    pub(super) fn fill(self, words: &mut [u64]) {
        match self {
            Self::Fresh => {}
            Self::Words => words.iter_mut().enumerate().for_each(|(index, place)| *place = word(index)),
            Self::Graph => {
                let Parts { scores, edges, .. } = parts(words);
                let vertices = scores.len() as u64;
                scores.iter_mut().zip(1..).for_each(|(score, number)| *score = number);
                let mut rng = Rng::with_seed(1);
                for edge in edges {
                    // Few vertices have many edges, and they lie anywhere.
                    let rank = (rng.f64().powi(2) * vertices as f64) as u64;
                    *edge = (rank.wrapping_mul(0x9e37_79b9_7f4a_7c15) % vertices) as u32;
                }
            }
        }
    }
}

impl Work {
    /// Does it. The same work with the same seed finds the same, wherever the memory lies.
    pub(super) fn perform(self, words: &mut [u64], seed: u64) -> Took {
        let began = Instant::now();
        let (items, digest) = match self {
            Self::FirstTouch => {
                let step = rustix::param::page_size() / 8;
                words.iter_mut().step_by(step).for_each(|place| *place = 1);
                (words.len().div_ceil(step) as u64, 0)
            }
            Self::Random { reads } => {
                let mut rng = Rng::with_seed(seed);
                let digest = (0..reads).fold(0u64, |sum, _| {
                    let at = rng.usize(..words.len());
                    // SAFETY: a place of the slice; reads are not to be left out, nor made several at a time.
                    sum.wrapping_add(unsafe { words.as_ptr().add(at).read_volatile() })
                });
                (reads, digest)
            }
            Self::Scan => {
                let digest = words.iter().fold(0u64, |sum, word| sum.wrapping_add(*word));
                (words.len() as u64, digest)
            }
            Self::Ranks => ranks(parts(words)),
        };
        Took { seconds: began.elapsed().as_secs_f64(), items, digest: std::hint::black_box(digest) }
    }
}

/// One pass over the edges.
fn ranks(Parts { scores, sums, edges }: Parts<'_>) -> (u64, u64) {
    let mut digest = 0u64;
    for (sum, ends) in sums.iter_mut().zip(edges.chunks_exact(DEGREE)) {
        let all = ends.iter().fold(0u32, |all, end| all.wrapping_add(scores[*end as usize]));
        *sum = all;
        digest = digest.wrapping_add(all.into());
    }
    (edges.len() as u64, digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_finds_what_is_there() {
        let mut words = vec![0; 1 << 14];
        Contents::Words.fill(&mut words);
        let sum = |indices: &mut dyn Iterator<Item = usize>| {
            indices.fold(0, |sum: u64, at| sum.wrapping_add(word(at)))
        };
        let scan = Work::Scan.perform(&mut words, 0);
        assert_eq!((scan.items, scan.digest), (1 << 14, sum(&mut (0..1 << 14))));
        let mut rng = Rng::with_seed(7);
        let random = Work::Random { reads: 100 }.perform(&mut words, 7);
        assert_eq!(random.digest, sum(&mut (0..100).map(|_| rng.usize(..1 << 14))));
    }

    #[test]
    fn sums_are_those_of_the_edges() {
        let mut words = vec![0; 1 << 12];
        Contents::Graph.fill(&mut words);
        let took = Work::Ranks.perform(&mut words, 0);
        let Parts { scores, sums, edges } = parts(&mut words);
        assert_eq!(took.items as usize, edges.len());
        let of = |vertex: usize| {
            let ends = &edges[vertex * DEGREE..(vertex + 1) * DEGREE];
            ends.iter().map(|end| scores[*end as usize]).sum::<u32>()
        };
        assert_eq!(sums[5], of(5));
        assert_eq!(took.digest, (0..sums.len()).map(|vertex| u64::from(of(vertex))).sum::<u64>());
    }
}
