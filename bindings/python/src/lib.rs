//! The native half of the Python package `outboard`: the library behind classes of Python.
//!
//! It knows nothing of shapes and dtypes, which are the concern of the package's Python code.

mod arrow;
mod batch;
mod bytes;
mod caller;
mod errors;
mod far;
mod handler;
mod job;
mod kv;
mod memory;
mod messenger;
mod outboard;
mod process;
mod region;
mod server;
mod tree;
mod wait;
mod writer;

use pyo3::prelude::*;

/// What the package's Python code is made of.
#[pymodule(gil_used = true)]
mod _native {
    #[pymodule_export]
    use super::bytes::Received;
    #[pymodule_export]
    use super::caller::{PyCaller, PyFunction};
    #[pymodule_export]
    use super::far::PyFar;
    #[pymodule_export]
    use super::handler::PyHandler;
    #[pymodule_export]
    use super::job::PyJob;
    #[pymodule_export]
    use super::kv::PyKv;
    #[pymodule_export]
    use super::memory::{PyMemory, PyMemoryRegion};
    #[pymodule_export]
    use super::messenger::PyMessenger;
    #[pymodule_export]
    use super::outboard::PyOutboard;
    #[pymodule_export]
    use super::region::PyRegion;
    #[pymodule_export]
    use super::tree::PyTree;
    #[pymodule_export]
    use super::writer::PyWriter;

    #[pymodule_export]
    use super::arrow::arrow_column;
    #[pymodule_export]
    use super::handler::handler_at;
    #[pymodule_export]
    use super::process::leave;
    #[pymodule_export]
    use super::server::private_server;
}
