//! Graphs to try applications on.

use outboard_graph::{CsrView, GraphView};
use proptest::prelude::*;

/// A graph that owns its arrays.
#[derive(Debug)]
pub(crate) struct Graph {
    pub(crate) vertices: usize,
    pub(crate) out: Csr,
    pub(crate) incoming: Csr,
    pub(crate) is_symmetric: bool,
}

#[derive(Debug)]
pub(crate) struct Csr {
    pub(crate) offsets: Vec<u64>,
    pub(crate) targets: Vec<u32>,
}

impl Csr {
    /// Neighbours keep the order of the edges: no application may rely on any other.
    fn new(vertices: usize, edges: impl Iterator<Item = (u32, u32)>) -> Self {
        let mut lists = vec![Vec::new(); vertices];
        edges.for_each(|(from, to)| lists[from as usize].push(to));
        let mut offsets = vec![0];
        offsets.extend(lists.iter().scan(0, |sum, list| {
            *sum += list.len() as u64;
            Some(*sum)
        }));
        Self { offsets, targets: lists.concat() }
    }

    pub(crate) fn view(&self) -> CsrView<'_> {
        CsrView::new(&self.offsets, &self.targets).unwrap()
    }

    pub(crate) fn neighbours(&self, vertex: usize) -> &[u32] {
        self.view().neighbours(vertex)
    }
}

impl Graph {
    pub(crate) fn directed(vertices: usize, edges: &[(u32, u32)]) -> Self {
        let out = Csr::new(vertices, edges.iter().copied());
        let incoming = Csr::new(vertices, edges.iter().map(|(from, to)| (*to, *from)));
        Self { vertices, out, incoming, is_symmetric: false }
    }

    pub(crate) fn symmetric(vertices: usize, edges: &[(u32, u32)]) -> Self {
        let both = || edges.iter().flat_map(|(from, to)| [(*from, *to), (*to, *from)]);
        Self {
            vertices,
            out: Csr::new(vertices, both()),
            incoming: Csr::new(vertices, both()),
            is_symmetric: true,
        }
    }

    pub(crate) fn view(&self) -> GraphView<'_> {
        if self.is_symmetric {
            GraphView::symmetric(self.out.view())
        } else {
            GraphView::directed(self.out.view(), self.incoming.view()).unwrap()
        }
    }
}

/// Directed and symmetric graphs with at least one vertex: sparse and dense ones, with self loops, edges several
/// times over, vertices without any, long paths and vertices with many neighbours.
pub(crate) fn graphs() -> impl Strategy<Value = Graph> {
    (1..300u32, any::<bool>())
        .prop_flat_map(|(vertices, is_symmetric)| {
            let random = prop::collection::vec((0..vertices, 0..vertices), 0..900);
            let paths = prop::collection::vec((0..vertices, 0..vertices), 0..3);
            let stars = prop::collection::vec((0..vertices, 0..vertices), 0..3);
            (Just(vertices), Just(is_symmetric), random, 0..=10usize, paths, stars)
        })
        .prop_map(|(vertices, is_symmetric, mut edges, tenths, paths, stars)| {
            edges.truncate(edges.len() * tenths / 10);
            for (one, other) in paths {
                let (low, high) = (one.min(other), one.max(other));
                edges.extend((low..high).map(|vertex| (vertex, vertex + 1)));
            }
            for (centre, last) in stars {
                edges.extend((0..last).map(|vertex| (centre, vertex)));
            }
            let build = if is_symmetric { Graph::symmetric } else { Graph::directed };
            build(vertices as usize, &edges)
        })
}

/// A graph large and skewed enough that pushes, pulls and many blocks all take part: neighbours are the smaller
/// the likelier, and a path of a hundred vertices hangs on it.
pub(crate) fn large(is_symmetric: bool) -> Graph {
    const VERTICES: u32 = 20_000;
    let mut state = 7u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f64 / (1u64 << 31) as f64
    };
    let connected = f64::from(VERTICES / 2);
    let mut edges = Vec::from_iter(
        (0..200_000).map(|_| ((random().powi(3) * connected) as u32, (random().powi(2) * connected) as u32)),
    );
    edges.extend((VERTICES - 100..VERTICES - 1).map(|vertex| (vertex, vertex + 1)));
    edges.push((3, VERTICES - 100));
    let build = if is_symmetric { Graph::symmetric } else { Graph::directed };
    build(VERTICES as usize, &edges)
}
