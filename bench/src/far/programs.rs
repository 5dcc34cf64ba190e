//! Five programs whose arrays are so large that they are far, played on arrays that note which chunk is touched.
//!
//! What they do is decided by a seed, so that every run touches the same.

use fastrand::Rng;

/// How large a chunk is, in bytes.
const CHUNK: usize = 4096;

/// The touches of a program, without those of the chunk that was touched before.
#[derive(Default)]
pub(super) struct Touches {
    /// The numbers of chunks, of all arrays.
    pub(super) chunks: Vec<u32>,
    /// How many chunks all arrays have.
    pub(super) footprint: usize,
}

/// An array of which nothing is known but where its elements lie.
#[derive(Clone, Copy)]
struct Array {
    first: usize,
    element: usize,
}

impl Touches {
    fn array(&mut self, len: usize, element: usize) -> Array {
        let first = self.footprint;
        self.footprint += (len * element).div_ceil(CHUNK);
        Array { first, element }
    }

    fn touch(&mut self, array: Array, index: usize) {
        let chunk = (array.first + index * array.element / CHUNK) as u32;
        if self.chunks.last() != Some(&chunk) {
            self.chunks.push(chunk);
        }
    }
}

/// A program, with how much it does: edges of a graph, or as many elements.
pub(super) struct Program {
    pub(super) name: &'static str,
    pub(super) play: fn(edges: usize) -> Touches,
}

pub(super) const PROGRAMS: [Program; 5] = [
    Program { name: "pagerank", play: pagerank },
    Program { name: "bfs", play: bfs },
    Program { name: "merge_sort", play: merge_sort },
    Program { name: "table", play: table },
    Program { name: "join", play: join },
];

/// Numbers below `count`, small ones more often.
fn skewed(random: &mut Rng, count: usize) -> usize {
    let exponent = (count as f64).ln() * random.f64();
    (exponent.exp() as usize).min(count - 1)
}

/// A number that is another one, below a power of two.
fn scattered(number: usize, count: usize) -> usize {
    (number.wrapping_mul(0x9e37_79b1) ^ (number >> 7)) & (count - 1)
}

/// A graph with some vertices of which many others know: where the edges of each begin, and where they lead.
fn graph(edges: usize, random: &mut Rng) -> (Vec<usize>, Vec<usize>) {
    let vertices = edges / 16;
    let mut offsets = vec![0; vertices + 1];
    for vertex in 0..vertices {
        offsets[vertex + 1] = offsets[vertex] + random.usize(8..=24);
    }
    let targets = (0..offsets[vertices]).map(|_| scattered(skewed(random, vertices), vertices)).collect();
    (offsets, targets)
}

/// Edges stream by, and each reads the score of a vertex.
fn pagerank(edges: usize) -> Touches {
    let (offsets, targets) = graph(edges, &mut Rng::with_seed(1));
    let vertices = offsets.len() - 1;
    let mut touches = Touches::default();
    let (rows, neighbours) = (touches.array(offsets.len(), 8), touches.array(targets.len(), 4));
    let (scores, sums) = (touches.array(vertices, 8), touches.array(vertices, 8));
    for _ in 0..5 {
        for vertex in 0..vertices {
            touches.touch(rows, vertex + 1);
            let edges = offsets[vertex]..offsets[vertex + 1];
            for (edge, target) in edges.clone().zip(&targets[edges]) {
                touches.touch(neighbours, edge);
                touches.touch(scores, *target);
            }
            touches.touch(sums, vertex);
        }
        for vertex in 0..vertices {
            touches.touch(sums, vertex);
            touches.touch(scores, vertex);
        }
    }
    touches
}

/// The vertices by their distance from one, of several.
fn bfs(edges: usize) -> Touches {
    let mut random = Rng::with_seed(2);
    let (offsets, targets) = graph(edges, &mut random);
    let vertices = offsets.len() - 1;
    let mut touches = Touches::default();
    let (rows, neighbours) = (touches.array(offsets.len(), 8), touches.array(targets.len(), 4));
    let (parents, queue) = (touches.array(vertices, 4), touches.array(vertices, 4));
    for _ in 0..4 {
        let mut is_seen = vec![false; vertices];
        let mut order = vec![random.usize(..vertices)];
        is_seen[order[0]] = true;
        let mut next = 0;
        while let Some(&vertex) = order.get(next) {
            touches.touch(queue, next);
            touches.touch(rows, vertex);
            let edges = offsets[vertex]..offsets[vertex + 1];
            for (edge, &target) in edges.clone().zip(&targets[edges]) {
                touches.touch(neighbours, edge);
                touches.touch(parents, target);
                if !std::mem::replace(&mut is_seen[target], true) {
                    touches.touch(queue, order.len());
                    order.push(target);
                }
            }
            next += 1;
        }
    }
    touches
}

/// Runs that are merged to runs of twice the length.
fn merge_sort(edges: usize) -> Touches {
    let len = edges / 2;
    let mut touches = Touches::default();
    let mut arrays = [touches.array(len, 8), touches.array(len, 8)];
    let mut random = Rng::with_seed(3);
    let mut run = CHUNK / 8;
    while run < len {
        for start in (0..len).step_by(2 * run) {
            let ends = [(start + run).min(len), (start + 2 * run).min(len)];
            let mut at = [start, ends[0]];
            for to in start..ends[1] {
                let side = usize::from(at[0] == ends[0] || at[1] < ends[1] && random.bool());
                touches.touch(arrays[0], at[side]);
                touches.touch(arrays[1], to);
                at[side] += 1;
            }
        }
        arrays.swap(0, 1);
        run *= 2;
    }
    touches
}

/// Look-ups of keys, some of which are asked for often, and now and then a pass over everything.
fn table(edges: usize) -> Touches {
    let mut random = Rng::with_seed(4);
    let rows = edges / 4;
    let mut touches = Touches::default();
    let (index, values) = (touches.array(rows, 16), touches.array(rows, 64));
    for _ in 0..6 {
        for _ in 0..edges / 4 {
            let row = scattered(skewed(&mut random, rows), rows);
            touches.touch(index, row);
            touches.touch(values, row);
        }
        (0..rows).for_each(|row| touches.touch(values, row));
    }
    touches
}

/// A long array streams by, each of whose elements is looked up in a table that fits.
fn join(edges: usize) -> Touches {
    let mut random = Rng::with_seed(5);
    let entries = edges / 16;
    let mut touches = Touches::default();
    let (table, stream, found) =
        (touches.array(entries, 16), touches.array(edges, 16), touches.array(edges / 8, 16));
    for _ in 0..3 {
        for entry in 0..entries {
            touches.touch(table, scattered(entry, entries));
        }
        let mut matches = 0;
        for element in 0..edges {
            touches.touch(stream, element);
            touches.touch(table, random.usize(..entries));
            if element % 8 == 0 {
                touches.touch(found, matches);
                matches += 1;
            }
        }
    }
    touches
}
