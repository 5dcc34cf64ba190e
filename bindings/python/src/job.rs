//! A rank of a job.

use std::sync::{Arc, Mutex, PoisonError};

use outboard::{Job, MessagesPlacement};
use pyo3::prelude::*;

use crate::errors::{bad_value, raise};
use crate::messenger::PyMessenger;
use crate::outboard::{PyOutboard, seconds};
use crate::process::Owned;
use crate::wait::{locked, wait};

/// A rank among others.
#[pyclass(frozen, name = "Job", module = "outboard._native")]
pub(crate) struct PyJob {
    job: Owned<Arc<Mutex<Job>>>,
    rank: u32,
    size: u32,
}

#[pymethods]
impl PyJob {
    /// Takes the place that the launcher has told this process.
    #[new]
    fn join(py: Python<'_>) -> PyResult<Self> {
        let job = wait(py, Job::join)?.map_err(raise)?;
        let (rank, size) = (job.rank(), job.size());
        Ok(Self { job: Owned::new(Arc::new(Mutex::new(job))), rank, size })
    }

    #[getter]
    fn rank(&self) -> u32 {
        self.rank
    }

    #[getter]
    fn size(&self) -> u32 {
        self.size
    }

    #[getter]
    fn id(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(locked(py, self.job.get()?).id())
    }

    /// The daemons of this job.
    fn outboard(&self, py: Python<'_>) -> PyResult<PyOutboard> {
        Ok(PyOutboard::new(locked(py, self.job.get()?).outboard().clone()))
    }

    /// Connects this rank with all others.
    #[pyo3(signature = (spaces=1, placement=None, bundle=None, longest=None, deadline=None))]
    fn messenger(
        &self,
        py: Python<'_>,
        spaces: u8,
        placement: Option<&str>,
        bundle: Option<usize>,
        longest: Option<usize>,
        deadline: Option<f64>,
    ) -> PyResult<PyMessenger> {
        let job = Arc::clone(self.job.get()?);
        let mut options = locked(py, &job).messenger_options().with_spaces(spaces);
        if let Some(placement) = placement {
            options = options.with_placement(match placement {
                "auto" => MessagesPlacement::Auto,
                "inline" => MessagesPlacement::Inline,
                "agent" => MessagesPlacement::Agent,
                other => return Err(bad_value(format!("placement={other:?}: auto, inline or agent"))),
            });
        }
        options = bundle.into_iter().fold(options, |options, bundle| options.with_bundle(bundle));
        options = longest.into_iter().fold(options, |options, longest| options.with_longest(longest));
        if let Some(deadline) = deadline {
            options = options.with_deadline(seconds(deadline)?);
        }
        let deadline = options.deadline;
        let messenger =
            wait(py, move || job.lock().unwrap_or_else(PoisonError::into_inner).messenger_with(options))?;
        Ok(PyMessenger::new(messenger.map_err(raise)?, deadline))
    }

    fn explain(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        Ok(locked(py, self.job.get()?).explain())
    }
}
