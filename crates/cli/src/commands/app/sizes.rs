//! How large an application's input is.

use clap::ValueEnum;
use outboard_messages::{
    App, Histogram, IndexGather, LENGTH_MAX, Shape, ShortestPaths, Transport, Transpose, Triangles,
};
use outboard_settings::parse_count;

/// The flags for an application's sizes.
pub(super) trait Sizes: clap::Args {
    /// The application of these sizes.
    fn app(&self, seed: u64) -> App;
}

/// The flags of the histogram.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  outboard app histogram -n 2 --check                      is every update counted
  outboard app histogram -n 2 --table 64Mi --updates 20M   with a table that no cache holds")]
pub(super) struct HistogramSizes {
    /// How many counters of 8 bytes each rank has
    #[arg(long, value_name = "COUNT", default_value = "512Ki", value_parser = parse_count)]
    table: u64,
    /// How many updates each rank sends
    #[arg(long, value_name = "COUNT", default_value = "8M", value_parser = parse_count)]
    updates: u64,
}

impl Sizes for HistogramSizes {
    fn app(&self, seed: u64) -> App {
        App::Histogram(Histogram { table: self.table, updates: self.updates, seed })
    }
}

/// The flags of index-gather.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  outboard app index-gather -n 2 --check                       does every reply find its place
  outboard app index-gather -n 4 --table 8Mi --requests 2M     with a larger table")]
pub(super) struct IndexGatherSizes {
    /// How many elements of 8 bytes each rank has
    #[arg(long, value_name = "COUNT", default_value = "512Ki", value_parser = parse_count)]
    table: u64,
    /// How many elements each rank asks for
    #[arg(long, value_name = "COUNT", default_value = "4M", value_parser = parse_count)]
    requests: u64,
}

impl Sizes for IndexGatherSizes {
    fn app(&self, seed: u64) -> App {
        App::IndexGather(IndexGather { table: self.table, requests: self.requests, seed })
    }
}

/// How edges, or entries of a matrix, are drawn.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Kind {
    /// Few vertices have very many edges, as in social networks
    Rmat,
    /// Both ends of an edge are any vertex
    Uniform,
}

/// The flags for a graph, or for a sparse matrix, which is one: 2 to the power of `SCALE` vertices by default.
#[derive(clap::Args)]
struct GraphSizes<const SCALE: u32> {
    /// How edges are drawn, or entries of a matrix
    #[arg(long, value_enum, default_value_t = Kind::Rmat)]
    kind: Kind,
    /// There are 2 to the power of this many vertices, or rows and columns of a matrix
    #[arg(long, value_name = "NUMBER", default_value_t = SCALE)]
    scale: u32,
    /// So many edges are drawn for each vertex, or entries for each row; only one of several equal ones is kept
    #[arg(long, value_name = "NUMBER", default_value_t = 16)]
    degree: u32,
}

impl<const SCALE: u32> GraphSizes<SCALE> {
    fn shape(&self, seed: u64) -> Shape {
        let Self { kind, scale, degree } = *self;
        Shape { is_uniform: kind == Kind::Uniform, scale, degree, seed }
    }
}

/// The flags of the transpose.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  outboard app transpose -n 2 --check                      is it the same as a serial one
  outboard app transpose -n 4 --kind uniform --scale 18    of a matrix without dense rows")]
pub(super) struct TransposeSizes {
    #[command(flatten)]
    matrix: GraphSizes<16>,
}

impl Sizes for TransposeSizes {
    fn app(&self, seed: u64) -> App {
        App::Transpose(Transpose { matrix: self.matrix.shape(seed) })
    }
}

/// The flags of triangle counting.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  outboard app triangles -n 2 --check               are they as many as a serial run finds
  outboard app triangles -n 4 --scale 16 --json     in a larger graph, for programs")]
pub(super) struct TrianglesSizes {
    #[command(flatten)]
    graph: GraphSizes<14>,
}

impl Sizes for TrianglesSizes {
    fn app(&self, seed: u64) -> App {
        App::Triangles(Triangles { graph: self.graph.shape(seed) })
    }
}

/// The flags of shortest paths.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  outboard app sssp -n 2 --check                    are distances those of Dijkstra's algorithm
  outboard app sssp -n 2 --delta 64 --source 17     with larger buckets, from another vertex")]
pub(super) struct ShortestPathsSizes {
    #[command(flatten)]
    graph: GraphSizes<16>,
    /// How many distances share a bucket; edges are from 1 to 255 long
    #[arg(long, value_name = "NUMBER", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=i64::from(LENGTH_MAX)))]
    delta: u32,
    /// Where paths begin [default: the first vertex with an edge]
    #[arg(long, value_name = "VERTEX")]
    source: Option<u32>,
}

impl Sizes for ShortestPathsSizes {
    fn app(&self, seed: u64) -> App {
        let Self { ref graph, delta, source } = *self;
        App::ShortestPaths(ShortestPaths { graph: graph.shape(seed), delta, source })
    }
}

/// The flags of transport.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  outboard app transport -n 2 --check                          is every tally that of a serial run
  outboard app transport -n 4 --mesh 64x64x64 --particles 1M   with more cells and particles")]
pub(super) struct TransportSizes {
    /// How many cells there are in each direction
    #[arg(long, value_name = "XxYxZ", default_value = "32x16x16", value_parser = mesh)]
    mesh: Cells,
    /// How many particles are born in the first time step; in later ones, a tenth of them
    #[arg(long, value_name = "COUNT", default_value = "80K", value_parser = parse_count)]
    particles: u64,
    /// How many time steps
    #[arg(long, value_name = "NUMBER", default_value_t = 5)]
    steps: u32,
}

/// How many cells there are in each direction.
#[derive(Clone, Copy)]
struct Cells([u32; 3]);

/// Reads `32x16x16`.
fn mesh(text: &str) -> Result<Cells, String> {
    let sides: Result<Vec<u32>, _> = text.split('x').map(str::parse).collect();
    match sides.as_deref() {
        Ok(&[x, y, z]) => Ok(Cells([x, y, z])),
        _ => Err("expected three numbers of cells, such as 32x16x16".to_owned()),
    }
}

impl Sizes for TransportSizes {
    fn app(&self, seed: u64) -> App {
        let Self { mesh: Cells(mesh), particles, steps } = *self;
        App::Transport(Transport { mesh, particles, steps, seed })
    }
}
