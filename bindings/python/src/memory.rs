//! Regions of a memory server, read, written and updated by calls.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use outboard::{AskError, FarRegion, Memory, RegionSharing, Rights};
use pyo3::prelude::*;

use crate::bytes::Loan;
use crate::errors::{bad_value, raise, refuse};
use crate::far::PATIENCE;
use crate::outboard::seconds;
use crate::process::Owned;
use crate::wait::{locked, wait};

type Shared = Arc<Mutex<Memory>>;

/// A connection to a memory server.
#[pyclass(frozen, name = "Memory", module = "outboard._native")]
pub(crate) struct PyMemory {
    memory: Owned<Shared>,
}

/// A region that this process has opened.
#[pyclass(frozen, name = "MemoryRegion", module = "outboard._native")]
pub(crate) struct PyMemoryRegion {
    region: Mutex<Option<FarRegion>>,
    id: u64,
    size: u64,
}

fn lock(memory: &Shared) -> MutexGuard<'_, Memory> {
    memory.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a process may do with a region.
pub(crate) fn rights(writable: bool) -> Rights {
    if writable { Rights::READ.and(Rights::WRITE) } else { Rights::READ }
}

impl PyMemoryRegion {
    fn new(region: FarRegion) -> Self {
        let (id, size) = (region.id(), region.size());
        Self { region: Mutex::new(Some(region)), id, size }
    }

    /// The region, as long as it was not given back.
    pub(crate) fn get(&self) -> PyResult<FarRegion> {
        let region = self.region.lock().unwrap_or_else(PoisonError::into_inner);
        region.clone().ok_or_else(|| refuse(format!("region {} was freed or released", self.id)))
    }

    fn take(&self) -> PyResult<FarRegion> {
        let region = self.region.lock().unwrap_or_else(PoisonError::into_inner).take();
        region.ok_or_else(|| refuse(format!("region {} was freed or released", self.id)))
    }
}

#[pymethods]
impl PyMemoryRegion {
    #[getter]
    fn id(&self) -> u64 {
        self.id
    }

    #[getter]
    fn size(&self) -> u64 {
        self.size
    }

    fn __len__(&self) -> usize {
        self.size as usize
    }

    fn __repr__(&self) -> String {
        format!("<region {} of {} bytes>", self.id, self.size)
    }
}

impl PyMemory {
    pub(crate) fn new(memory: Memory) -> Self {
        Self { memory: Owned::new(Arc::new(Mutex::new(memory))) }
    }

    /// Asks what the server may take its time for.
    fn ask<T: Send + 'static>(
        &self,
        py: Python<'_>,
        ask: impl FnOnce(&mut Memory) -> Result<T, AskError> + Send + 'static,
    ) -> PyResult<T> {
        let memory = Arc::clone(self.memory.get()?);
        wait(py, move || ask(&mut lock(&memory)))?.map_err(raise)
    }

    /// Accesses a region, which takes some microseconds, or the deadline at most.
    fn access<T: Send>(
        &self,
        py: Python<'_>,
        region: &PyMemoryRegion,
        access: impl FnOnce(&mut Memory, &FarRegion) -> Result<T, AskError> + Send,
    ) -> PyResult<T> {
        let (memory, region) = (self.memory.get()?, region.get()?);
        py.detach(|| access(&mut lock(memory), &region)).map_err(raise)
    }
}

#[pymethods]
impl PyMemory {
    #[pyo3(signature = (size, name=None, shared=false, sparse=false))]
    fn reserve(
        &self,
        py: Python<'_>,
        size: u64,
        name: Option<String>,
        shared: bool,
        sparse: bool,
    ) -> PyResult<PyMemoryRegion> {
        if shared && (name.is_none() || sparse) {
            return Err(bad_value("a region that processes share has a name, and is not sparse"));
        }
        let region = self.ask(py, move |memory| match (shared, name.as_deref()) {
            (true, Some(name)) => memory.reserve_shared(size, name),
            (_, name) if sparse => memory.reserve_sparse(size, 16, name),
            (_, name) => memory.reserve_chunks(size, 16, name, RegionSharing::Leased),
        });
        region.map(PyMemoryRegion::new)
    }

    #[pyo3(signature = (name, writable=false, shared=false))]
    fn open(&self, py: Python<'_>, name: String, writable: bool, shared: bool) -> PyResult<PyMemoryRegion> {
        let region = self.ask(py, move |memory| match shared {
            true => memory.open_shared(&name, rights(writable)),
            false => memory.open(&name, rights(writable)),
        });
        region.map(PyMemoryRegion::new)
    }

    #[pyo3(signature = (path, writable=false, deadline=None))]
    fn load(
        &self,
        py: Python<'_>,
        path: String,
        writable: bool,
        deadline: Option<f64>,
    ) -> PyResult<PyMemoryRegion> {
        let deadline = deadline.map(seconds).transpose()?.unwrap_or(PATIENCE);
        let region = self.ask(py, move |memory| memory.load(&path, rights(writable), deadline));
        region.map(PyMemoryRegion::new)
    }

    fn free(&self, py: Python<'_>, region: &PyMemoryRegion) -> PyResult<()> {
        let region = region.take()?;
        self.ask(py, move |memory| memory.free(region))
    }

    fn release(&self, py: Python<'_>, region: &PyMemoryRegion) -> PyResult<()> {
        let region = region.take()?;
        self.ask(py, move |memory| memory.release(region))
    }

    fn populate(&self, py: Python<'_>, region: &PyMemoryRegion) -> PyResult<u64> {
        let region = region.get()?;
        self.ask(py, move |memory| memory.populate(&region))
    }

    #[pyo3(signature = (region, deadline=None))]
    fn sync(&self, py: Python<'_>, region: &PyMemoryRegion, deadline: Option<f64>) -> PyResult<u64> {
        let deadline = deadline.map(seconds).transpose()?.unwrap_or(PATIENCE);
        let region = region.get()?;
        self.ask(py, move |memory| memory.sync(&region, deadline))
    }

    /// Each region: its number, name, size and the process that reserved it.
    #[allow(clippy::type_complexity, reason = "a row for Python, which names its fields")]
    fn list(&self, py: Python<'_>) -> PyResult<Vec<(u64, Option<String>, u64, Option<u32>)>> {
        let regions = self.ask(py, Memory::list)?;
        Ok(regions.into_iter().map(|region| (region.id, region.name, region.size, region.owner)).collect())
    }

    fn read_into(
        &self,
        py: Python<'_>,
        region: &PyMemoryRegion,
        offset: u64,
        into: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let mut into = Loan::write(into)?;
        self.access(py, region, |memory, region| memory.read(region, offset, into.bytes_mut()))
    }

    fn write(
        &self,
        py: Python<'_>,
        region: &PyMemoryRegion,
        offset: u64,
        data: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let data = Loan::read(data)?;
        self.access(py, region, |memory, region| memory.write(region, offset, data.bytes()))
    }

    fn fetch_add(&self, py: Python<'_>, region: &PyMemoryRegion, offset: u64, addend: u64) -> PyResult<u64> {
        self.access(py, region, |memory, region| memory.fetch_add(region, offset, addend))
    }

    fn compare_and_swap(
        &self,
        py: Python<'_>,
        region: &PyMemoryRegion,
        offset: u64,
        expected: u64,
        new: u64,
    ) -> PyResult<u64> {
        self.access(py, region, |memory, region| memory.compare_swap(region, offset, expected, new))
    }

    #[getter]
    fn server(&self, py: Python<'_>) -> PyResult<String> {
        Ok(locked(py, self.memory.get()?).peer().to_string())
    }
}
