//! What all runs share: the graph, the memory server, the agents.

use std::path::PathBuf;

use outboard_agent::{STATUS_GRANT, StatusView};
use outboard_graph_format::{Cleaning, GeneratorKind, GraphImage, Recipe, Skew};
use outboard_link::{Address, Identity};
use outboard_wire::Role;

use super::gap::Gap;
use super::task::{Answer, Outcome, PART, Task};
use crate::daemons::{Forwards, Host, HostSpec};
use crate::error::Named;
use crate::group::MemoryGroup;
use crate::pair::{Peer, PeerProgram};
use crate::{BenchError, BenchOptions};

/// What all runs share.
pub(super) struct Stage {
    program: PeerProgram,
    folder: PathBuf,
    pub(super) image: GraphImage,
    /// One with few edges for each vertex.
    sparse: GraphImage,
    pub(super) server: Host,
    pub(super) gap: Option<Gap>,
    pub(super) iterations: u32,
    /// How much memory a run may at least need more than another one like it, in bytes.
    pub(super) spare_min: u64,
}

/// More threads than cores: some wait for pages while others compute.
pub(super) const THREADS: usize = 4;
const NAME: &str = "bench.graph";
const SPARSE: &str = "bench.sparse.graph";
/// How large an agent's cache is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AgentCache {
    /// As it is by default.
    Default,
    /// Half of the graph.
    Half,
}

impl Stage {
    /// Makes a graph of 2^`scale` vertices and starts a memory server that can load it.
    pub(super) fn build(options: &BenchOptions, scale: u32, iterations: u32) -> Result<Self, BenchError> {
        let program = &options.peer;
        let unique = Identity::new(Role::Tool, "").incarnation;
        let folder = std::env::temp_dir().join(format!("outboard-bench-{unique}"));
        std::fs::create_dir(&folder).named("mkdir")?;
        let kind = GeneratorKind::Rmat { skew: Skew::default(), permuted: true };
        let cleaning = Cleaning { both_directions: true, drop_self_loops: false, drop_duplicates: false };
        let recipe = Recipe { kind, scale, degree: 16, seed: 1, cleaning };
        let failed = |why: String| BenchError::PeerFailed { why };
        let graph = recipe.make(&()).map_err(|error| failed(error.to_string()))?;
        let image =
            GraphImage::write(&graph, folder.join(NAME)).map_err(|error| failed(error.to_string()))?;
        let gap = options.gap.as_deref().map(|gap| Gap::build(gap, &folder, &graph)).transpose()?;
        drop(graph);
        // A road network has 2.4 edges for each vertex, counted in both directions. With more vertices it is as large as the other.
        let (kind, scale) = (GeneratorKind::Uniform, scale + 3);
        let recipe = Recipe { kind, scale, degree: 1, ..recipe };
        let graph = recipe.make(&()).map_err(|error| failed(error.to_string()))?;
        let sparse =
            GraphImage::write(&graph, folder.join(SPARSE)).map_err(|error| failed(error.to_string()))?;
        drop(graph);
        let spec = HostSpec::Memory { data_dir: Some(folder.display().to_string()), workers: None };
        let server = Host::start(program, &spec)?;
        Ok(Self { program: program.clone(), folder, image, sparse, server, gap, iterations, spare_min: 0 })
    }

    /// All arrays together, in bytes.
    pub(super) fn footprint(&self) -> u64 {
        self.image.arrays().iter().map(|array| array.bytes()).sum()
    }

    /// A fresh agent that knows the server.
    pub(super) fn agent(
        &self,
        forwards: Forwards,
        cache: AgentCache,
        wire: Option<String>,
    ) -> Result<Host, BenchError> {
        let server = self.server.remote.to_string();
        let cache = match cache {
            AgentCache::Default => None,
            AgentCache::Half => Some((self.footprint() / 2).next_multiple_of(1 << 20)),
        };
        Host::start(&self.program, &HostSpec::Agent { server, forwards, wire, cache })
    }

    /// A task for an application on the graph.
    pub(super) fn task(&self, application: &str, place: super::task::Place) -> Task {
        Task {
            application: application.to_owned(),
            image: self.image.path().to_owned(),
            served: NAME.to_owned(),
            place,
            threads: THREADS,
            iterations: self.iterations,
            rounds: 1,
        }
    }

    /// The same on the graph with few edges.
    pub(super) fn task_on_sparse(&self, application: &str, place: super::task::Place) -> Task {
        let (image, served) = (self.sparse.path().to_owned(), SPARSE.to_owned());
        Task { image, served, ..self.task(application, place) }
    }

    /// Begins a task in a process of its own, in a group or not.
    pub(super) fn begin(&self, task: &Task, group: Option<&MemoryGroup>) -> Result<Peer, BenchError> {
        let peer = Peer::start(&self.program, PART)?;
        if let Some(group) = group {
            group.take(peer.pid())?;
        }
        peer.control.send(task)?;
        Ok(peer)
    }

    /// Waits for a task's end.
    pub(super) fn end(peer: Peer) -> Result<Outcome, BenchError> {
        loop {
            match peer.control.receive::<Answer>("the end of an application") {
                Ok(Answer::Done(outcome)) => return Ok(outcome),
                Ok(Answer::Failed { why }) => return Err(BenchError::PeerFailed { why }),
                // Some take longer than a peer is usually silent; one that is gone is another error.
                Err(BenchError::Stalled { .. }) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Does a task.
    pub(super) fn perform(&self, task: &Task) -> Result<Outcome, BenchError> {
        Self::end(self.begin(task, None)?)
    }

    /// Does a task in a group.
    pub(super) fn perform_in(&self, group: &MemoryGroup, task: &Task) -> Result<Outcome, BenchError> {
        Self::end(self.begin(task, Some(group))?)
    }

    /// Makes the kernel forget what it has of the graph's files.
    pub(super) fn drop_caches(&self) -> Result<(), BenchError> {
        for array in self.image.arrays() {
            let file = std::fs::File::open(&array.path).named("open")?;
            file.sync_all().named("fsync")?;
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).named("fadvise")?;
        }
        Ok(())
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // What cannot be removed is in the folder for such things.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// What an agent has read from the server so far, in bytes.
pub(super) fn read_by(agent: &Address) -> Result<u64, BenchError> {
    let identity = Identity::new(Role::Tool, "bench");
    let mut client = outboard::Client::connect(agent, identity, &Default::default())?;
    let bytes = client
        .read_region(&STATUS_GRANT)
        .map_err(|error| BenchError::PeerFailed { why: error.to_string() })?;
    let view = StatusView::read(&bytes).map_err(|error| BenchError::PeerFailed { why: error.to_string() })?;
    Ok(view.get("read_from_servers_bytes_total").unwrap_or(0))
}
