//! Graphs whose arrays lie in far memory.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut, Range};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use outboard::{CacheMode, FarError, FarMemory, FarSlice, FarVec, Path, RegionOptions, RegionTraffic};

use crate::application::{Application, ApplicationOptions, ApplicationOutcome};
use crate::arrays::{Arrays, FarNumber};
use crate::{CsrView, GraphView, Prefetch, RunContext, RunError, ViewError};

const CHUNK_MIN: usize = 64 << 10;
const CHUNK_MAX: usize = 1 << 20;
/// How many chunks of a graph's arrays should have room at once.
const SEATS_WANTED: usize = 32;
/// How many times what is asked for in advance fits the buffer.
const WINDOWS: usize = 24;

/// How the arrays of a graph lie in far memory.
#[derive(Clone, Debug)]
pub struct FarLayout {
    /// The size of chunks of the graph's arrays; default 64 KiB. Where the buffer is large,
    /// [`chunk_for`](Self::chunk_for) is faster.
    pub chunk: usize,
    /// The size of chunks of the state of vertices; default 64 KiB.
    pub state_chunk: usize,
    /// By which way chunks go; default whichever is faster.
    pub path: Path,
    /// What the agent does with the offsets, of which there is one for each vertex.
    pub vertices: CacheMode,
    /// What the agent does with the neighbours, of which there is one for each edge.
    pub edges: CacheMode,
    /// How long the server may take to load a file; default ten minutes.
    pub patience: Duration,
}

impl FarLayout {
    /// A mode of caching for the part of a graph that it is good for: static for the vertices, which are few and read
    /// often; dynamic for the edges, which are many and read in order; anything else for both.
    pub fn cached(mode: CacheMode) -> Self {
        let (vertices, edges) = match mode {
            CacheMode::Static => (CacheMode::Static, CacheMode::Off),
            CacheMode::Dynamic => (CacheMode::Off, CacheMode::Dynamic),
            both => (both, both),
        };
        let patience = Duration::from_secs(600);
        Self { chunk: CHUNK_MIN, state_chunk: CHUNK_MIN, path: Path::Auto, vertices, edges, patience }
    }

    /// The size of chunks for arrays that are mostly read in order, where so many bytes may be here at once: the larger
    /// chunks are, the fewer moves and interrupts for each byte, as long as all threads have room for several.
    pub fn chunk_for(buffer: usize) -> usize {
        let most = (buffer / SEATS_WANTED).clamp(CHUNK_MIN, CHUNK_MAX);
        1 << most.ilog2()
    }

    /// How much to read ahead in chunks of this size: threads share one pass through the arrays, and whatever one of them
    /// has others ask for too early takes room from what another one still needs.
    pub fn ahead_for(chunk: usize) -> usize {
        chunk.max(CHUNK_MAX)
    }

    /// How many neighbours are worth asking for in advance, where so many bytes may be here at once.
    fn window(&self, buffer: usize) -> usize {
        (buffer / WINDOWS).max(self.chunk) / size_of::<u32>()
    }

    fn region(&self, chunk: usize, cache: CacheMode) -> RegionOptions {
        // All of it is written, and what the server has no room for is best known before.
        let is_guaranteed = true;
        RegionOptions { chunk, path: self.path, cache, name: None, is_guaranteed, deadline: self.patience }
    }

    fn rows(&self, cache: CacheMode) -> RegionOptions {
        self.region(self.chunk, cache)
    }
}

/// Rows in far memory.
struct FarRows {
    offsets: FarSlice<u64>,
    targets: FarSlice<u32>,
    /// How many neighbours are worth asking for in advance.
    window: usize,
}

impl FarRows {
    fn view(&self) -> Result<CsrView<'_>, ViewError> {
        Ok(CsrView::new(&self.offsets, &self.targets)?.with_prefetch(self))
    }
}

impl Prefetch for FarRows {
    fn window(&self) -> usize {
        self.window
    }

    fn neighbours(&self, places: &mut dyn Iterator<Item = Range<usize>>) {
        // Places that are not there are found where they are read.
        let _ = self.targets.prefetch(places);
    }
}

/// A graph whose arrays lie in far memory.
pub struct FarGraph {
    out: FarRows,
    incoming: Option<FarRows>,
}

impl FarGraph {
    /// Opens the arrays of a graph image that lies in the folder `image` below the server's data directory; others may
    /// read it at the same time.
    pub fn open(
        far: &FarMemory,
        image: &str,
        is_symmetric: bool,
        placement: &FarLayout,
    ) -> Result<Self, FarError> {
        let rows = |direction: &str| -> Result<FarRows, FarError> {
            let file = |array: &str| format!("{image}/{direction}.{array}");
            Ok(FarRows {
                offsets: far.open_file(&file("offsets"), &placement.rows(placement.vertices))?,
                targets: far.open_file(&file("targets"), &placement.rows(placement.edges))?,
                window: placement.window(far.buffer()),
            })
        };
        let incoming = if is_symmetric { None } else { Some(rows("in")?) };
        Ok(Self { out: rows("out")?, incoming })
    }

    /// Copies a graph into far memory.
    pub fn upload(far: &FarMemory, graph: GraphView<'_>, placement: &FarLayout) -> Result<Self, FarError> {
        let rows = |rows: CsrView<'_>| -> Result<FarRows, FarError> {
            Ok(FarRows {
                offsets: copy(far, rows.offsets(), &placement.rows(placement.vertices))?,
                targets: copy(far, rows.targets(), &placement.rows(placement.edges))?,
                window: placement.window(far.buffer()),
            })
        };
        let incoming = if graph.is_symmetric() { None } else { Some(rows(graph.incoming())?) };
        Ok(Self { out: rows(graph.out())?, incoming })
    }

    /// What of the offsets, and what of the neighbours, has crossed links so far.
    pub fn traffic(&self) -> [RegionTraffic; 2] {
        let mut sums = [RegionTraffic::default(); 2];
        for rows in [Some(&self.out), self.incoming.as_ref()].into_iter().flatten() {
            let both = [rows.offsets.mapping().traffic(), rows.targets.mapping().traffic()];
            for (sum, part) in sums.iter_mut().zip(both) {
                sum.direct += part.direct;
                sum.by_agent += part.by_agent;
                sum.by_copy += part.by_copy;
            }
        }
        sums
    }

    /// The graph, as the applications see it.
    pub fn view(&self) -> Result<GraphView<'_>, ViewError> {
        let out = self.out.view()?;
        match &self.incoming {
            None => Ok(GraphView::symmetric(out)),
            Some(incoming) => GraphView::directed(out, incoming.view()?),
        }
    }
}

/// Copies an array into far memory, where it is not changed any more. One that is empty takes a place all the same.
fn copy<T: outboard::Plain>(
    far: &FarMemory,
    array: &[T],
    options: &RegionOptions,
) -> Result<FarSlice<T>, FarError> {
    let mut copy: FarVec<T> = far.allocate_with(array.len(), options)?;
    copy.copy_from_slice(array);
    copy.freeze()
}

/// What was chosen for arrays that are gone, by their names.
type Past = Arc<Mutex<BTreeMap<&'static str, String>>>;

/// Far memory for the state of vertices.
pub struct FarArrays {
    far: FarMemory,
    options: RegionOptions,
    past: Past,
}

impl FarArrays {
    /// Arrays in `far`, placed as a graph's vertices are, but never cached by the agent: they are written.
    pub fn new(far: &FarMemory, placement: &FarLayout) -> Self {
        let options = placement.region(placement.state_chunk, CacheMode::Off);
        Self { far: far.clone(), options, past: Past::default() }
    }

    /// What was chosen for the arrays that have been given up, and why, for people: a line for each name, about the last
    /// array of that name. Of those that are there, [`FarMemory::explain`] tells.
    pub fn explain_past(&self) -> Vec<String> {
        let past = self.past.lock().unwrap_or_else(PoisonError::into_inner);
        past.iter().map(|(name, line)| format!("state “{name}”, {line}")).collect()
    }
}

/// An array of the state of vertices in far memory. It is used like a slice.
pub struct FarArray<T: FarNumber> {
    array: FarVec<T>,
    name: &'static str,
    past: Past,
}

impl<T: FarNumber> Deref for FarArray<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.array
    }
}

impl<T: FarNumber> DerefMut for FarArray<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.array
    }
}

impl<T: FarNumber> Drop for FarArray<T> {
    fn drop(&mut self) {
        let line = self.array.mapping().explain().join("\n");
        self.past.lock().unwrap_or_else(PoisonError::into_inner).insert(self.name, line);
    }
}

impl Arrays for FarArrays {
    type Array<T: FarNumber> = FarArray<T>;
    type Error = FarError;

    fn zeroed<T: FarNumber>(&self, len: usize, name: &'static str) -> Result<FarArray<T>, FarError> {
        let array = self.far.allocate_with(len, &self.options)?;
        Ok(FarArray { array, name, past: Arc::clone(&self.past) })
    }

    fn run(
        application: Application,
        graph: GraphView<'_>,
        options: &ApplicationOptions,
        run: &RunContext<'_, Self>,
    ) -> Result<ApplicationOutcome<Self>, RunError> {
        application.run_on(graph, options, run)
    }
}
