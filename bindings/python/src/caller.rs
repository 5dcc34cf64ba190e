//! Functions that run where a region is.

use std::sync::{Mutex, MutexGuard, PoisonError};

use outboard::{CallError, CallId, Caller, FunctionHandle, FunctionImage, FunctionOptions, Rights};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::batch::{Batched, Pending, Rows, run};
use crate::bytes::{Loan, Received};
use crate::errors::raise;
use crate::memory::{PyMemoryRegion, rights};
use crate::process::Owned;
use crate::wait::locked;

/// How many calls of a batch are under way at a time.
const WINDOW: usize = 256;

/// A connection by which functions are called.
#[pyclass(frozen, name = "Caller", module = "outboard._native")]
pub(crate) struct PyCaller {
    caller: Owned<Mutex<Caller>>,
}

/// A function that is registered.
#[pyclass(frozen, name = "Function", module = "outboard._native")]
pub(crate) struct PyFunction {
    handle: FunctionHandle,
    reply_max: usize,
}

struct Calls<'a> {
    caller: &'a mut Caller,
    function: FunctionHandle,
    arguments: Rows<'a>,
    keys: Option<Rows<'a>>,
    values: Vec<u64>,
    replies: Vec<u8>,
    each: usize,
    lengths: Vec<i64>,
}

impl Batched for Calls<'_> {
    type Error = CallError;

    fn begin(&mut self, number: usize) -> Result<CallId, CallError> {
        let arguments = self.arguments.get(number);
        match &self.keys {
            Some(keys) => self.caller.begin_keyed(self.function, keys.get(number), arguments),
            None => self.caller.begin(self.function, arguments),
        }
    }

    fn drain(&mut self, pending: &mut Pending) -> Result<usize, CallError> {
        let (values, lengths, each, mut failure) = (&mut self.values, &mut self.lengths, self.each, None);
        let replies = &mut self.replies;
        let count = self.caller.drain(|id, result| {
            let Some(number) = pending.end(id) else { return };
            match result {
                Ok((value, reply)) => {
                    (values[number], lengths[number]) = (value, reply.len() as i64);
                    let len = reply.len().min(each);
                    replies[number * each..][..len].copy_from_slice(&reply[..len]);
                }
                Err(error) => failure = Some(error),
            }
        });
        failure.map_or(Ok(count), Err)
    }
}

fn lock(caller: &Mutex<Caller>) -> MutexGuard<'_, Caller> {
    caller.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PyCaller {
    pub(crate) fn new(caller: Caller) -> Self {
        Self { caller: Owned::new(Mutex::new(caller)) }
    }
}

#[pymethods]
impl PyCaller {
    /// Registers a function of an object that clang has made, or of a program in the text form of the engine.
    #[pyo3(signature = (code, entry, regions, fuel=None, reply_max=4096))]
    fn register(
        &self,
        py: Python<'_>,
        code: &Bound<'_, PyAny>,
        entry: &str,
        regions: Vec<(Bound<'_, PyMemoryRegion>, bool)>,
        fuel: Option<u64>,
        reply_max: u32,
    ) -> PyResult<PyFunction> {
        let image = match code.extract::<String>() {
            Ok(text) => FunctionImage::from_text(&text, entry),
            Err(_) => FunctionImage::from_object(Loan::read(code)?.bytes(), entry),
        };
        let mut options = FunctionOptions::default().with_reply_max(reply_max);
        options = fuel.into_iter().fold(options, FunctionOptions::with_fuel);
        for (region, writable) in regions {
            let rights = if writable { Rights::ALL } else { rights(false) };
            options = options.with_region(&region.get().get()?, rights);
        }
        let (image, caller) = (image.map_err(raise)?, self.caller.get()?);
        let handle = py.detach(|| lock(caller).register(&image, options)).map_err(raise)?;
        Ok(PyFunction { handle, reply_max: reply_max as usize })
    }

    /// Calls a function and waits for what it returns and replies.
    #[pyo3(signature = (function, arguments, key=None))]
    fn call<'py>(
        &self,
        py: Python<'py>,
        function: &PyFunction,
        arguments: &Bound<'_, PyAny>,
        key: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<(u64, Bound<'py, PyBytes>)> {
        let (arguments, key) = (Loan::read(arguments)?, key.map(Loan::read).transpose()?);
        let caller = self.caller.get()?;
        let reply = py.detach(|| match &key {
            Some(key) => lock(caller).call_keyed(function.handle, key.bytes(), arguments.bytes()),
            None => lock(caller).call(function.handle, arguments.bytes()),
        });
        let reply = reply.map_err(raise)?;
        Ok((reply.value, PyBytes::new(py, &reply.bytes)))
    }

    /// Calls a function `count` times, and returns what each call returned, replied, and how long each reply was.
    #[pyo3(signature = (function, arguments, argument_bytes, count, reply_bytes, keys=None, key_bytes=0))]
    #[allow(clippy::too_many_arguments, reason = "the package's Python code has names for them")]
    fn call_many(
        &self,
        py: Python<'_>,
        function: &PyFunction,
        arguments: &Bound<'_, PyAny>,
        argument_bytes: usize,
        count: usize,
        reply_bytes: usize,
        keys: Option<&Bound<'_, PyAny>>,
        key_bytes: usize,
    ) -> PyResult<(Received, Received, Received)> {
        let (arguments, keys) = (Loan::read(arguments)?, keys.map(Loan::read).transpose()?);
        let each = reply_bytes.min(function.reply_max);
        let mut caller = locked(py, self.caller.get()?);
        let mut batch = Calls {
            caller: &mut caller,
            function: function.handle,
            arguments: Rows::equal(arguments.bytes(), argument_bytes),
            keys: keys.as_ref().map(|keys| Rows::equal(keys.bytes(), key_bytes)),
            values: vec![0; count],
            replies: vec![0; count * each],
            each,
            lengths: vec![0; count],
        };
        run(py, &mut batch, count, WINDOW)?;
        let (values, lengths) = (Received::of_words(&batch.values), Received::of_words(&batch.lengths));
        Ok((values, Received::new(batch.replies), lengths))
    }

    #[getter]
    fn server(&self, py: Python<'_>) -> PyResult<String> {
        Ok(locked(py, self.caller.get()?).site())
    }
}

#[pymethods]
impl PyFunction {
    #[getter]
    fn reply_max(&self) -> usize {
        self.reply_max
    }
}
