//! Remote writes that choose their path.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use outboard::{Hint, WriteError, WriteOptions, WritePath, WriteTarget, Writer};
use pyo3::prelude::*;

use crate::bytes::Loan;
use crate::errors::{bad_value, raise};
use crate::memory::PyMemoryRegion;
use crate::outboard::seconds;
use crate::process::Owned;
use crate::wait::{locked, until};

/// How long a look for completions lasts.
const GLANCE: Duration = Duration::from_millis(1);
/// How long the end of all writes is waited for, unless it is said.
const FLUSH: Duration = Duration::from_secs(5);

struct Targets {
    writer: Writer,
    open: HashMap<u64, WriteTarget>,
    /// How many writes have not been told to have ended.
    begun: usize,
}

/// Remote writes to the regions of a memory server.
#[pyclass(frozen, name = "Writer", module = "outboard._native")]
pub(crate) struct PyWriter {
    targets: Owned<Mutex<Targets>>,
}

/// A path by its name.
pub(crate) fn path_of(path: &str) -> PyResult<WritePath> {
    match path {
        "offload" => Ok(WritePath::Offload),
        "unload" => Ok(WritePath::Unload),
        other => Err(bad_value(format!("there is no path {other:?}: offload or unload"))),
    }
}

impl Targets {
    fn target(&mut self, region: &outboard::FarRegion) -> Result<WriteTarget, WriteError> {
        if let Some(target) = self.open.get(&region.id()) {
            return Ok(*target);
        }
        let target = self.writer.open(region)?;
        self.open.insert(region.id(), target);
        Ok(target)
    }

    /// Looks for writes that have ended. Returns whether all have, or how one failed.
    fn look(&mut self) -> Option<Result<(), WriteError>> {
        while self.begun > 0 {
            let ended = self.writer.wait(GLANCE)?;
            self.begun -= 1;
            if let Err(error) = ended.result {
                return Some(Err(error));
            }
        }
        Some(Ok(()))
    }
}

impl PyWriter {
    pub(crate) fn new(writer: Writer) -> Self {
        Self { targets: Owned::new(Mutex::new(Targets { writer, open: HashMap::new(), begun: 0 })) }
    }
}

#[pymethods]
impl PyWriter {
    /// Begins a write. How it ended is told by the next flush.
    #[pyo3(signature = (region, offset, data, path=None, hint=None))]
    fn write(
        &self,
        py: Python<'_>,
        region: &PyMemoryRegion,
        offset: u64,
        data: &Bound<'_, PyAny>,
        path: Option<&str>,
        hint: Option<&str>,
    ) -> PyResult<()> {
        let hint = match hint {
            None => Hint::None,
            Some("hot") => Hint::Hot,
            Some("cold") => Hint::Cold,
            Some("streaming") => Hint::Streaming,
            Some(other) => {
                return Err(bad_value(format!("there is no hint {other:?}: hot, cold or streaming")));
            }
        };
        let options = WriteOptions { hint, path: path.map(path_of).transpose()?, signal: true };
        let (region, data) = (region.get()?, Loan::read(data)?);
        let targets = self.targets.get()?;
        py.detach(|| {
            let mut targets = targets.lock().unwrap_or_else(PoisonError::into_inner);
            let target = targets.target(&region)?;
            // What has ended meanwhile makes room.
            while let Some(ended) = targets.writer.poll() {
                targets.begun -= 1;
                ended.result?;
            }
            let longest = targets.writer.longest().max(1);
            for (number, part) in data.bytes().chunks(longest).enumerate() {
                let at = offset + (number * longest) as u64;
                targets.writer.write_with(target, at, part, options)?;
                targets.begun += 1;
            }
            Ok(())
        })
        .map_err(|error: WriteError| raise(error))
    }

    /// Waits until every write has ended, and raises if one has failed.
    #[pyo3(signature = (deadline=None))]
    fn flush(&self, py: Python<'_>, deadline: Option<f64>) -> PyResult<()> {
        let (began, patience) = (Instant::now(), deadline.map(seconds).transpose()?.unwrap_or(FLUSH));
        let targets = self.targets.get()?;
        let flushed = until(py, || {
            let mut targets = targets.lock().unwrap_or_else(PoisonError::into_inner);
            match targets.look() {
                // The writer says itself which server it waits for.
                None if began.elapsed() > patience => Some(targets.writer.flush()),
                looked => looked,
            }
        })?;
        flushed.map_err(raise)
    }

    /// Has writes from now on begin when all before have ended.
    fn fence(&self, py: Python<'_>) -> PyResult<()> {
        locked(py, self.targets.get()?).writer.fence();
        Ok(())
    }

    /// How many writes have not been told to have ended.
    #[getter]
    fn under_way(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(locked(py, self.targets.get()?).begun)
    }

    fn explain(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        Ok(locked(py, self.targets.get()?).writer.explain())
    }
}
