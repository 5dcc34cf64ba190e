//! In which process this is, and whether it is ending.

use std::process;
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::prelude::*;

use crate::errors::refuse;

static IS_LEAVING: AtomicBool = AtomicBool::new(false);

/// The interpreter ends: what is dropped from here on is left to the kernel and to the memory server, which need no time of it.
#[pyfunction]
#[pyo3(name = "_leave")]
pub(crate) fn leave() {
    IS_LEAVING.store(true, Ordering::Relaxed);
}

/// The process that made something. Its threads and links are not in a child that was forked, which can use nothing of it and must
/// not try to end it.
#[derive(Clone, Copy)]
pub(crate) struct Home(u32);

impl Home {
    pub(crate) fn here() -> Self {
        Self(process::id())
    }

    pub(crate) fn is_here(self) -> bool {
        self.0 == process::id()
    }

    /// Whether what belongs here should be ended rather than left as it is.
    pub(crate) fn may_drop(self) -> bool {
        self.is_here() && !IS_LEAVING.load(Ordering::Relaxed)
    }

    pub(crate) fn check(self) -> PyResult<()> {
        if self.is_here() {
            return Ok(());
        }
        let parent = self.0;
        Err(refuse(format!(
            "this belongs to process {parent}, from which this one was forked: a forked child has nothing of its parent's \
             outboard; open it anew here, or start children with multiprocessing.get_context(\"spawn\")"
        )))
    }
}

/// Something that is ended only in the process that made it, and without the interpreter's lock.
pub(crate) struct Owned<T: Send> {
    value: Option<T>,
    home: Home,
}

impl<T: Send> Owned<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { value: Some(value), home: Home::here() }
    }

    /// It, in its own process, until it was closed.
    pub(crate) fn get(&self) -> PyResult<&T> {
        self.home.check()?;
        self.value.as_ref().ok_or_else(|| refuse("it is closed"))
    }
}

impl<T: Send> Drop for Owned<T> {
    fn drop(&mut self) {
        let Some(value) = self.value.take() else { return };
        if self.home.may_drop() {
            // It may wait for others, who may want the lock of the interpreter.
            Python::attach(|py| py.detach(|| drop(value)));
        } else {
            std::mem::forget(value);
        }
    }
}
