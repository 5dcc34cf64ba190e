//! Waiting in such a way that Ctrl-C is heard.

use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::sync::MutexExt;

use crate::errors::refuse;

/// How long a wait lasts at most before signals are looked at.
pub(crate) const LOOK: Duration = Duration::from_millis(50);

/// Locks what another thread may have locked that waits for the interpreter: without the interpreter's lock, if it takes a moment.
pub(crate) fn locked<'a, T>(py: Python<'_>, mutex: &'a Mutex<T>) -> MutexGuard<'a, T> {
    mutex.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner)
}

/// Does what may wait long on a thread of its own, without the interpreter's lock, and looks for signals meanwhile. After one that
/// raises, as Ctrl-C does, the work goes on to its end, of which no one is told.
pub(crate) fn wait<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    let (done, mut end) = sync_channel(1);
    let thread = Builder::new().name("outboard-wait".to_owned()).spawn(move || {
        // After Ctrl-C nothing waits for it.
        let _ = done.send(work());
    });
    thread.map_err(|error| refuse(format!("cannot start a thread to wait with: {error}")))?;
    loop {
        let (back, came) = py.detach(move || {
            let came = end.recv_timeout(LOOK);
            (end, came)
        });
        end = back;
        match came {
            Ok(value) => return Ok(value),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(refuse("a thread of the library has ended by a panic, which stderr shows"));
            }
        }
    }
}

/// Turns `step` again and again without the interpreter's lock until it says something, and looks for signals meanwhile. A step must
/// not take long.
pub(crate) fn until<T: Send>(py: Python<'_>, mut step: impl FnMut() -> Option<T> + Send) -> PyResult<T> {
    loop {
        let said = py.detach(|| {
            let began = std::time::Instant::now();
            loop {
                match step() {
                    Some(said) => return Some(said),
                    None if began.elapsed() > LOOK => return None,
                    None => {}
                }
            }
        });
        match said {
            Some(said) => return Ok(said),
            None => py.check_signals()?,
        }
    }
}
