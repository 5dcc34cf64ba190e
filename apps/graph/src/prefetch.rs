//! What walks through a graph say of the edges that they look at next.

use std::fmt;
use std::ops::Range;

use crate::blocks::Blocks;
use crate::view::CsrView;

/// Brings neighbours before they are read, from memory in which that takes a while.
pub trait Prefetch: Sync {
    /// How many neighbours ahead of the workers are worth telling of.
    fn window(&self) -> usize;

    /// The neighbours at these places, among those of all vertices, will be read next. It must not wait for them.
    fn neighbours(&self, places: &mut dyn Iterator<Item = Range<usize>>);
}

/// Who is told, if anything has to be brought.
#[derive(Clone, Copy, Default)]
pub(crate) struct Told<'a>(pub(crate) Option<&'a dyn Prefetch>);

impl fmt::Debug for Told<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "told" } else { "not told" })
    }
}

/// What is told of pieces of work before a worker begins them: of so many at a time.
pub(crate) struct Ahead<'a> {
    stride: usize,
    tell: Box<dyn Fn(Range<usize>) + Sync + 'a>,
}

impl<'a> Ahead<'a> {
    /// Nothing.
    pub(crate) fn none() -> Self {
        Self { stride: 0, tell: Box::new(|_| {}) }
    }

    /// What `places` says of pieces, out of so many that are all edges of a graph. Costs nothing where all edges are at hand.
    pub(crate) fn of<I: Iterator<Item = Range<usize>>>(
        csr: CsrView<'a>,
        pieces: usize,
        places: impl Fn(Range<usize>) -> I + Sync + 'a,
    ) -> Self {
        let Some(prefetch) = csr.told().0.filter(|_| pieces > 0) else { return Self::none() };
        let stride = (prefetch.window() * pieces / csr.edges().max(1)).clamp(1, pieces);
        Self { stride, tell: Box::new(move |pieces| prefetch.neighbours(&mut places(pieces))) }
    }

    /// All edges of blocks.
    pub(crate) fn of_blocks(csr: CsrView<'a>, blocks: &'a Blocks) -> Self {
        Self::of(csr, blocks.len(), move |some| {
            let vertices = blocks.range(some.start).start..blocks.range(some.end - 1).end;
            std::iter::once(csr.offset(vertices.start) as usize..csr.offset(vertices.end) as usize)
        })
    }

    /// A worker takes this piece, which is one of so many; all those before it are taken.
    pub(crate) fn taken(&self, piece: usize, pieces: usize, tell: impl Fn(&Self, Range<usize>)) {
        if self.stride == 0 || !piece.is_multiple_of(self.stride) {
            return;
        }
        let first = if piece == 0 { 0 } else { piece + self.stride };
        let end = (piece + 2 * self.stride).min(pieces);
        if first < end {
            tell(self, first..end);
        }
    }

    /// Tells of pieces.
    pub(crate) fn tell(&self, pieces: Range<usize>) {
        (self.tell)(pieces);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::application::ApplicationOptions;
    use crate::{Application, Dram, GraphView, RunContext, Sweeps, Workers};

    /// Notes what it is told.
    #[derive(Default)]
    struct Noted(Mutex<Vec<Range<usize>>>);

    impl Prefetch for Noted {
        fn window(&self) -> usize {
            1 << 14
        }

        fn neighbours(&self, places: &mut dyn Iterator<Item = Range<usize>>) {
            self.0.lock().unwrap().extend(places);
        }
    }

    /// Every vertex is a neighbour of so many that follow it.
    fn circle(vertices: usize, degree: usize) -> (Vec<u64>, Vec<u32>) {
        let both = [(1..=degree).collect::<Vec<_>>(), (vertices - degree..vertices).collect()].concat();
        let targets = (0..vertices).flat_map(|vertex| {
            both.iter().map(move |step| ((vertex + step) % vertices) as u32).collect::<Vec<_>>()
        });
        ((0..=vertices).map(|vertex| (vertex * both.len()) as u64).collect(), targets.collect())
    }

    #[test]
    fn what_is_read_next_is_told_and_changes_no_result() {
        let (offsets, targets) = circle(5_000, 8);
        let rows = CsrView::new(&offsets, &targets).unwrap();
        for threads in [1, 3] {
            let workers = Workers::new(threads).unwrap();
            for sweeps in [Sweeps::Upwards, Sweeps::BackAndForth] {
                let run = RunContext { workers: &workers, arrays: &Dram, progress: &(), sweeps };
                for application in Application::ALL {
                    let noted = Noted::default();
                    let of = |rows| {
                        let graph = GraphView::symmetric(rows);
                        let outcome = application.run(graph, &ApplicationOptions::default(), &run).unwrap();
                        outcome.summary().checksum()
                    };
                    assert_eq!(of(rows), of(rows.with_prefetch(&noted)), "{}", application.name());
                    let told = noted.0.into_inner().unwrap();
                    assert!(told.iter().all(|places| places.end <= targets.len()), "{told:?}");
                    assert_eq!(told.is_empty(), application == Application::Components);
                    if application == Application::Pagerank {
                        // In each of ten iterations every edge once.
                        let sum: usize = told.iter().map(Range::len).sum();
                        assert_eq!(sum, 10 * targets.len());
                    }
                }
            }
        }
    }
}
