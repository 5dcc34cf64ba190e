//! Bytes of far memory, which arrays lie in and keep alive.

use std::ffi::c_int;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use outboard::{Advice, FarError, FarMapping, FarSlice, FarVec};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::bytes::{Loan, lend};
use crate::errors::{bad_value, raise, refuse};
use crate::far::PATIENCE;
use crate::outboard::seconds;
use crate::process::Owned;
use crate::wait::wait;

/// A region of far memory as it was opened.
pub(crate) enum Held {
    Whole(FarMapping),
    Read(FarSlice<u8>),
    Write(FarVec<u8>),
}

impl Held {
    fn mapping(&self) -> &FarMapping {
        match self {
            Self::Whole(mapping) => mapping,
            Self::Read(slice) => slice.mapping(),
            Self::Write(array) => array.mapping(),
        }
    }

    fn pin(&mut self, span: Range<usize>) -> Result<(), FarError> {
        match self {
            Self::Whole(mapping) => mapping.pin(span),
            Self::Read(slice) => slice.pin(span),
            Self::Write(array) => array.pin(span),
        }
    }

    fn unpin(&mut self) {
        match self {
            Self::Whole(mapping) => mapping.unpin(),
            Self::Read(slice) => slice.unpin(),
            Self::Write(array) => array.unpin(),
        }
    }

    fn discard(&mut self, span: Range<usize>) -> Result<(), FarError> {
        match self {
            Self::Whole(mapping) => mapping.discard(span),
            Self::Write(array) => array.discard(span),
            Self::Read(slice) => Err(FarError::ReadOnly { name: slice.mapping().name().to_owned() }),
        }
    }
}

/// Advice by its name.
pub(crate) fn advice_of(advice: &str) -> PyResult<Advice> {
    Ok(match advice {
        "normal" => Advice::Normal,
        "sequential" => Advice::Sequential,
        "random" => Advice::Random,
        "whole" => Advice::Whole,
        "will_need" => Advice::WillNeed,
        "dont_need" => Advice::DontNeed,
        other => {
            return Err(bad_value(format!(
                "there is no advice {other:?}: normal, sequential, random, whole, will_need or dont_need"
            )));
        }
    })
}

/// Bytes of far memory. Arrays that lie in it keep it alive; it never moves.
#[pyclass(frozen, weakref, name = "Region", module = "outboard._native")]
pub(crate) struct PyRegion {
    held: Owned<Arc<RwLock<Held>>>,
    start: usize,
    len: usize,
    /// Until it is shared.
    is_writable: AtomicBool,
    is_kept: bool,
    name: String,
    chunk: usize,
}

type Lock = Arc<RwLock<Held>>;

fn read(held: &Lock) -> RwLockReadGuard<'_, Held> {
    held.read().unwrap_or_else(PoisonError::into_inner)
}

fn write(held: &Lock) -> RwLockWriteGuard<'_, Held> {
    held.write().unwrap_or_else(PoisonError::into_inner)
}

impl PyRegion {
    pub(crate) fn new(held: Held, is_kept: bool) -> Self {
        let mapping = held.mapping();
        let (start, len) = (mapping.as_ptr().as_ptr() as usize, mapping.len());
        let is_writable = AtomicBool::new(mapping.is_writable());
        let (name, chunk) = (mapping.name().to_owned(), mapping.chunk());
        let held = Owned::new(Arc::new(RwLock::new(held)));
        Self { held, start, len, is_writable, is_kept, name, chunk }
    }

    fn lock(&self) -> PyResult<Lock> {
        self.held.get().cloned()
    }

    /// Does something that may wait long.
    fn slowly<T: Send + 'static>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&Lock) -> Result<T, FarError> + Send + 'static,
    ) -> PyResult<T> {
        let held = self.lock()?;
        wait(py, move || work(&held))?.map_err(raise)
    }
}

#[pymethods]
impl PyRegion {
    #[getter]
    fn address(&self) -> usize {
        self.start
    }

    #[getter]
    fn writable(&self) -> bool {
        self.is_writable.load(Ordering::Relaxed)
    }

    /// Whether it has a name, under which it stays.
    #[getter]
    fn kept(&self) -> bool {
        self.is_kept
    }

    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    #[getter]
    fn chunk(&self) -> usize {
        self.chunk
    }

    fn __len__(&self) -> usize {
        self.len
    }

    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let this = slf.get();
        let place = (this.start as *mut u8, this.len);
        // SAFETY: the interpreter's own view; the region is mapped as long as this object, which nothing moves or shortens.
        unsafe { lend(slf.as_any(), place, this.writable(), view, flags) }
    }

    /// Its bytes, for all that know this interface and not the buffer protocol.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        dict.set_item("version", 3)?;
        dict.set_item("typestr", "|u1")?;
        dict.set_item("shape", PyTuple::new(py, [self.len])?)?;
        dict.set_item("data", (self.start, !self.writable()))?;
        Ok(dict)
    }

    fn advise(&self, py: Python<'_>, start: usize, end: usize, advice: &str) -> PyResult<()> {
        let advice = advice_of(advice)?;
        let held = self.lock()?;
        py.detach(|| read(&held).mapping().advise(start..end, advice)).map_err(raise)
    }

    fn prefetch(&self, py: Python<'_>, spans: Vec<(usize, usize)>) -> PyResult<()> {
        let held = self.lock()?;
        let spans = spans.into_iter().map(|(start, end)| start..end);
        py.detach(|| read(&held).mapping().prefetch(spans)).map_err(raise)
    }

    fn prefault(&self, py: Python<'_>, start: usize, end: usize) -> PyResult<()> {
        self.slowly(py, move |held| read(held).mapping().prefault(start..end))
    }

    fn pin(&self, py: Python<'_>, start: usize, end: usize) -> PyResult<()> {
        self.slowly(py, move |held| write(held).pin(start..end))
    }

    fn unpin(&self, py: Python<'_>) -> PyResult<()> {
        let held = self.lock()?;
        py.detach(|| write(&held).unpin());
        Ok(())
    }

    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        self.slowly(py, |held| read(held).mapping().flush())
    }

    #[pyo3(signature = (deadline=None))]
    fn sync(&self, py: Python<'_>, deadline: Option<f64>) -> PyResult<u64> {
        let deadline = deadline.map(seconds).transpose()?.unwrap_or(PATIENCE);
        self.slowly(py, move |held| read(held).mapping().sync(deadline))
    }

    fn discard(&self, py: Python<'_>, start: usize, end: usize) -> PyResult<()> {
        self.slowly(py, move |held| write(held).discard(start..end))
    }

    /// Gives up the claim to write, so that other processes may read it too. It stays where it is, and may only be read.
    fn share(&self, py: Python<'_>) -> PyResult<()> {
        let held = self.lock()?;
        let shared = wait(py, move || match &mut *write(&held) {
            Held::Whole(mapping) => mapping.share().map(|()| true),
            Held::Read(_) => Ok(true),
            Held::Write(_) => Ok(false),
        });
        if !shared?.map_err(raise)? {
            return Err(refuse(format!(
                "“{}” was opened by its name: drop it, and open it anew to read it as others may",
                self.name
            )));
        }
        self.is_writable.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// Copies bytes from `start` on into memory of this process, or raises what plain access would end the process for.
    fn try_read(&self, py: Python<'_>, start: usize, into: &Bound<'_, PyAny>, deadline: f64) -> PyResult<()> {
        let (held, mut into, deadline) = (self.lock()?, Loan::write(into)?, seconds(deadline)?);
        wait(py, move || read(&held).mapping().try_read(start, into.bytes_mut(), deadline))?.map_err(raise)
    }

    /// Copies bytes of this process into it, or raises what plain access would end the process for.
    fn try_write(
        &self,
        py: Python<'_>,
        start: usize,
        from: &Bound<'_, PyAny>,
        deadline: f64,
    ) -> PyResult<()> {
        let (held, from, deadline) = (self.lock()?, Loan::read(from)?, seconds(deadline)?);
        wait(py, move || read(&held).mapping().try_write(start, from.bytes(), deadline))?.map_err(raise)
    }

    fn traffic<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let held = self.lock()?;
        let traffic = py.detach(|| read(&held).mapping().traffic());
        let counts = PyDict::new(py);
        counts.set_item("direct", traffic.direct)?;
        counts.set_item("by_agent", traffic.by_agent)?;
        counts.set_item("by_copy", traffic.by_copy)?;
        counts.set_item("saved", traffic.saved)?;
        Ok(counts)
    }

    fn explain(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let held = self.lock()?;
        Ok(py.detach(|| read(&held).mapping().explain()))
    }

    fn __repr__(&self) -> String {
        format!("<far memory of {} bytes at {:#x}>", self.len, self.start)
    }
}
