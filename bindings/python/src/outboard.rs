//! A memory server and an agent to work with.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use outboard::{CallPlacement, CallSite, CallerOptions, Outboard, WriterOptions};
use pyo3::prelude::*;

use crate::caller::PyCaller;
use crate::errors::{bad_value, raise};
use crate::far::{FarArguments, PyFar};
use crate::kv::PyKv;
use crate::memory::PyMemory;
use crate::server::find;
use crate::tree::PyTree;
use crate::wait::wait;
use crate::writer::{PyWriter, path_of};

/// A memory server and an agent that a process works with.
#[pyclass(frozen, name = "Outboard", module = "outboard._native")]
pub(crate) struct PyOutboard {
    pub(crate) outboard: Outboard,
}

impl PyOutboard {
    pub(crate) fn new(outboard: Outboard) -> Self {
        Self { outboard }
    }
}

/// Seconds as the library has them.
pub(crate) fn seconds(seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| bad_value(format!("{seconds} is no number of seconds: it is at least 0")))
}

/// Where functions run.
pub(crate) fn placement(text: &str) -> PyResult<Option<CallPlacement>> {
    Ok(Some(match text {
        "auto" => return Ok(None),
        "application" => CallSite::Application.into(),
        "agent" => CallSite::Agent.into(),
        "server" => CallSite::Server.into(),
        other => {
            return Err(bad_value(format!("there is no site {other:?}: auto, application, agent or server")));
        }
    }))
}

pub(crate) fn caller_options(place: &str, under_way: usize) -> PyResult<CallerOptions> {
    let options = CallerOptions::default().with_under_way_max(under_way);
    Ok(match placement(place)? {
        Some(placement) => options.with_placement(placement),
        None => options,
    })
}

#[pymethods]
impl PyOutboard {
    #[new]
    #[pyo3(signature = (server=None, agent=None, program=None, deadline=None))]
    fn find(
        py: Python<'_>,
        server: Option<&str>,
        agent: Option<&str>,
        program: Option<PathBuf>,
        deadline: Option<f64>,
    ) -> PyResult<Self> {
        let outboard = find(py, server, agent, program)?;
        Ok(Self::new(match deadline {
            Some(deadline) => outboard.with_deadline(seconds(deadline)?),
            None => outboard,
        }))
    }

    /// Where the memory server is.
    #[getter]
    fn server(&self) -> Option<String> {
        self.outboard.address().map(ToString::to_string)
    }

    /// Where the agent is.
    #[getter]
    fn agent(&self) -> Option<String> {
        self.outboard.agent().map(ToString::to_string)
    }

    fn explain(&self) -> Vec<String> {
        self.outboard.explain()
    }

    pub(crate) fn far(&self, py: Python<'_>, arguments: FarArguments) -> PyResult<PyFar> {
        PyFar::open(py, &self.outboard, arguments)
    }

    pub(crate) fn memory(&self, py: Python<'_>) -> PyResult<PyMemory> {
        let outboard = self.outboard.clone();
        Ok(PyMemory::new(wait(py, move || outboard.memory())?.map_err(raise)?))
    }

    #[pyo3(signature = (path=None, by_agent=false))]
    pub(crate) fn writer(&self, py: Python<'_>, path: Option<&str>, by_agent: bool) -> PyResult<PyWriter> {
        let mut options = WriterOptions::default();
        if let Some(path) = path {
            options = options.with_path(path_of(path)?);
        }
        if by_agent {
            options = options.with_writes_by_agent();
        }
        let outboard = self.outboard.clone();
        Ok(PyWriter::new(wait(py, move || outboard.writer_with(options))?.map_err(raise)?))
    }

    #[pyo3(signature = (place="auto", under_way=256))]
    pub(crate) fn caller(&self, py: Python<'_>, place: &str, under_way: usize) -> PyResult<PyCaller> {
        let (outboard, options) = (self.outboard.clone(), caller_options(place, under_way)?);
        Ok(PyCaller::new(wait(py, move || outboard.caller_with(options))?.map_err(raise)?))
    }

    /// A table of `name`: made for so many keys, or opened.
    #[pyo3(signature = (name=None, create=None, under_way=256))]
    fn kv(
        &self,
        py: Python<'_>,
        name: Option<String>,
        create: Option<(u64, u64, u64)>,
        under_way: usize,
    ) -> PyResult<PyKv> {
        PyKv::open(py, Arc::new(self.outboard.clone()), name, create, under_way)
    }

    /// A tree of `name`: made for so many keys, or opened.
    #[pyo3(signature = (name=None, create=None, pairs=None, under_way=256))]
    fn tree(
        &self,
        py: Python<'_>,
        name: Option<String>,
        create: Option<u64>,
        pairs: Option<(Bound<'_, PyAny>, Bound<'_, PyAny>)>,
        under_way: usize,
    ) -> PyResult<PyTree> {
        PyTree::open(py, self.outboard.clone(), name, (create, pairs), under_way)
    }
}
