//! One process's far memory.

use std::time::Duration;

use outboard::{
    Address, BufferSize, CacheMode, FarMemory, FarOptions, FaultAnswer, OnLoss, Outboard, Path, RegionOptions,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::{bad_value, raise};
use crate::handler::PyHandler;
use crate::outboard::seconds;
use crate::process::Owned;
use crate::region::{Held, PyRegion};
use crate::wait::wait;

/// What can be said of far memory.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct FarArguments {
    buffer: Option<String>,
    buffer_max: Option<u64>,
    footprint: Option<u64>,
    servers: Option<Vec<String>>,
    chunk: Option<usize>,
    ahead: Option<usize>,
    threads: Option<usize>,
    faults: Option<String>,
    grace: Option<f64>,
    on_loss: Option<String>,
}

impl FarArguments {
    fn options(self, mut options: FarOptions) -> PyResult<FarOptions> {
        if let Some(buffer) = self.buffer {
            let size: BufferSize = buffer.parse().map_err(raise)?;
            options = FarOptions { buffer_max: None, ..options.with_buffer(size) };
        }
        if let Some(servers) = self.servers {
            let servers = servers.iter().map(|server| server.parse::<Address>());
            let servers = servers.collect::<Result<_, _>>().map_err(|error| bad_value(error.to_string()))?;
            options = options.with_servers(servers);
        }
        options.buffer_max = self.buffer_max.map(|most| most as usize).or(options.buffer_max);
        options.footprint = self.footprint.unwrap_or(options.footprint);
        options.chunk = self.chunk.unwrap_or(options.chunk);
        options.ahead = self.ahead.unwrap_or(options.ahead);
        options.threads = self.threads.or(options.threads);
        if let Some(faults) = self.faults.as_deref() {
            options = options.with_faults(match faults {
                "auto" => FaultAnswer::Auto,
                "threads" => FaultAnswer::Threads,
                "signal" => FaultAnswer::Signal,
                other => {
                    return Err(bad_value(format!("faults={other:?}: choose auto, threads or signal")));
                }
            });
        }
        if let Some(grace) = self.grace {
            options = options.with_grace(seconds(grace)?);
        }
        if let Some(on_loss) = self.on_loss.as_deref() {
            options = options.with_on_loss(match on_loss {
                "signal" => OnLoss::Signal,
                "exit" => OnLoss::Exit,
                other => return Err(bad_value(format!("on_loss={other:?}: choose signal or exit"))),
            });
        }
        Ok(options)
    }
}

/// What can be said of a region.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct RegionArguments {
    name: Option<String>,
    chunk: Option<usize>,
    path: Option<String>,
    cache: Option<String>,
    guarantee: bool,
    deadline: Option<f64>,
}

impl RegionArguments {
    fn options(self) -> PyResult<RegionOptions> {
        let mut options = RegionOptions { name: self.name, ..RegionOptions::default() };
        options.chunk = self.chunk.unwrap_or(options.chunk);
        if let Some(path) = self.path.as_deref() {
            options = options.with_path(match path {
                "direct" => Path::Direct,
                "agent" => Path::Agent,
                "auto" => Path::Auto,
                other => return Err(bad_value(format!("path={other:?}: choose direct, agent or auto"))),
            });
        }
        if let Some(cache) = self.cache.as_deref() {
            options = options.with_cache(match cache {
                "off" => CacheMode::Off,
                "static" => CacheMode::Static,
                "dynamic" => CacheMode::Dynamic,
                "auto" => CacheMode::Auto,
                other => {
                    return Err(bad_value(format!("cache={other:?}: choose off, static, dynamic or auto")));
                }
            });
        }
        if let Some(deadline) = self.deadline {
            options = options.with_deadline(seconds(deadline)?);
        }
        Ok(if self.guarantee { options.with_guarantee() } else { options })
    }
}

/// One process's far memory.
#[pyclass(frozen, name = "Far", module = "outboard._native")]
pub(crate) struct PyFar {
    far: Owned<FarMemory>,
}

impl PyFar {
    pub(crate) fn open(py: Python<'_>, outboard: &Outboard, arguments: FarArguments) -> PyResult<Self> {
        let options = arguments.options(outboard.far_options())?;
        let outboard = outboard.clone();
        let far = wait(py, move || outboard.far_with(options))?.map_err(raise)?;
        Ok(Self { far: Owned::new(far) })
    }

    fn far(&self) -> PyResult<FarMemory> {
        self.far.get().cloned()
    }
}

#[pymethods]
impl PyFar {
    /// Bytes that are zero.
    fn reserve(&self, py: Python<'_>, bytes: u64, arguments: RegionArguments) -> PyResult<PyRegion> {
        let (far, options) = (self.far()?, arguments.options()?);
        let is_kept = options.name.is_some();
        let mapping = wait(py, move || far.reserve(bytes.max(1), &options))?.map_err(raise)?;
        Ok(PyRegion::new(Held::Whole(mapping), is_kept))
    }

    /// A region that has a name.
    fn open_named(
        &self,
        py: Python<'_>,
        name: String,
        writable: bool,
        arguments: RegionArguments,
    ) -> PyResult<PyRegion> {
        let (far, options) = (self.far()?, arguments.options()?);
        let held = wait(py, move || match writable {
            false => far.open::<u8>(&name, &options).map(Held::Read),
            true => far.open_writable::<u8>(&name, &options).map(Held::Write),
        })?;
        Ok(PyRegion::new(held.map_err(raise)?, true))
    }

    /// Gives back the region of a name.
    fn free_named(&self, py: Python<'_>, name: String, arguments: RegionArguments) -> PyResult<()> {
        let (far, options) = (self.far()?, arguments.options()?);
        wait(py, move || far.open_writable::<u8>(&name, &options)?.free())?.map_err(raise)
    }

    /// A file below the data directory of the memory server.
    fn open_file(
        &self,
        py: Python<'_>,
        path: String,
        writable: bool,
        arguments: RegionArguments,
    ) -> PyResult<PyRegion> {
        let (far, options) = (self.far()?, arguments.options()?);
        let held = wait(py, move || match writable {
            false => far.open_file::<u8>(&path, &options).map(Held::Read),
            true => far.open_file_writable::<u8>(&path, &options).map(Held::Write),
        })?;
        Ok(PyRegion::new(held.map_err(raise)?, true))
    }

    /// A handler of NumPy's memory that takes arrays from `least` bytes on from `room` bytes of far memory.
    fn handler(&self, py: Python<'_>, room: u64, least: usize, chunk: usize) -> PyResult<PyHandler> {
        let (far, options) = (self.far()?, RegionOptions::default().with_chunk(chunk));
        let arena = wait(py, move || far.arena(room, &options))?.map_err(raise)?;
        PyHandler::new(py, arena, least)
    }

    fn wait_for_agent(&self, py: Python<'_>, deadline: f64) -> PyResult<bool> {
        let (far, deadline) = (self.far()?, seconds(deadline)?);
        wait(py, move || far.wait_for_agent(deadline))
    }

    #[getter]
    fn buffer(&self) -> PyResult<usize> {
        Ok(self.far.get()?.buffer())
    }

    fn set_buffer(&self, py: Python<'_>, buffer: &str) -> PyResult<()> {
        let (far, size) = (self.far()?, buffer.parse::<BufferSize>().map_err(raise)?);
        py.detach(|| far.set_buffer(size)).map_err(raise)
    }

    #[getter]
    fn fetches(&self) -> PyResult<u64> {
        Ok(self.far.get()?.fetches())
    }

    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = self.far.get()?.stats();
        let counts = PyDict::new(py);
        for (name, count) in [
            ("faults_fetched", stats.faults_fetched),
            ("faults_for_pages", stats.faults_for_pages),
            ("faults_joined", stats.faults_joined),
            ("faults_rescued", stats.faults_rescued),
            ("faults_parked", stats.faults_parked),
            ("chunks_ahead", stats.chunks_ahead),
            ("chunks_blank", stats.chunks_blank),
            ("evictions", stats.evictions),
            ("saves", stats.saves),
            ("stuck", stats.stuck),
            ("agent_hits", stats.agent_hits),
            ("agent_late", stats.agent_late),
            ("agent_misses", stats.agent_misses),
            ("agent_losses", stats.agent_losses),
            ("buffer", stats.buffer),
            ("buffer_used", stats.buffer_used),
        ] {
            counts.set_item(name, count)?;
        }
        Ok(counts)
    }

    fn explain(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let far = self.far()?;
        Ok(py.detach(|| far.explain()))
    }
}

/// How long what is asked of a region may take, unless it is said.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
