//! Bytes of Python objects for the library, and of the library for Python.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

/// The bytes of an object that has them in one piece: `bytes`, a contiguous array, anything with the buffer protocol.
pub(crate) struct Loan {
    /// On the heap, since the interpreter may keep its address.
    view: Box<ffi::Py_buffer>,
}

// SAFETY: a view stands for memory that stays where it is until it is released, whichever thread looks at it.
unsafe impl Send for Loan {}
// SAFETY: as above.
unsafe impl Sync for Loan {}

impl Loan {
    pub(crate) fn read(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        Self::of(object, ffi::PyBUF_SIMPLE)
    }

    pub(crate) fn write(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        Self::of(object, ffi::PyBUF_WRITABLE)
    }

    fn of(object: &Bound<'_, PyAny>, flags: c_int) -> PyResult<Self> {
        let mut view = Box::new(MaybeUninit::<ffi::Py_buffer>::zeroed());
        // SAFETY: a zeroed view is one that stands for nothing; the object fills it, or there is an exception.
        if unsafe { ffi::PyObject_GetBuffer(object.as_ptr(), view.as_mut_ptr(), flags) } != 0 {
            return Err(PyErr::fetch(object.py()));
        }
        // SAFETY: filled by now.
        Ok(Self { view: unsafe { view.assume_init() } })
    }

    pub(crate) fn len(&self) -> usize {
        self.view.len as usize
    }

    fn start(&self) -> NonNull<u8> {
        NonNull::new(self.view.buf.cast()).unwrap_or(NonNull::dangling())
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: so many bytes lie there as long as the view is not released. That a thread of Python may write them meanwhile is
        // as with any buffer: the bytes that are read are then some of either.
        unsafe { std::slice::from_raw_parts(self.start().as_ptr(), self.len()) }
    }

    /// Its bytes, of one that was asked to be written.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        assert!(self.view.readonly == 0, "it was asked for to be read");
        // SAFETY: as above, and the object has said that it may be written.
        unsafe { std::slice::from_raw_parts_mut(self.start().as_ptr(), self.len()) }
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        // SAFETY: filled by the interpreter, and released once, with its lock.
        Python::attach(|_| unsafe { ffi::PyBuffer_Release(&mut *self.view) });
    }
}

/// Fills `view` with bytes of `object`, as its `__getbuffer__`.
///
/// # Safety
///
/// `view` is one that the interpreter wants filled, and the bytes stay until `object` is gone.
pub(crate) unsafe fn lend(
    object: &Bound<'_, PyAny>,
    (start, len): (*mut u8, usize),
    is_writable: bool,
    view: *mut ffi::Py_buffer,
    flags: c_int,
) -> PyResult<()> {
    if view.is_null() {
        return Err(PyBufferError::new_err("there is no view to fill"));
    }
    let (len, is_readonly) = (len as ffi::Py_ssize_t, c_int::from(!is_writable));
    // SAFETY: the caller's promise; the view takes a reference to the object.
    let failed =
        unsafe { ffi::PyBuffer_FillInfo(view, object.as_ptr(), start.cast(), len, is_readonly, flags) };
    if failed == 0 { Ok(()) } else { Err(PyErr::fetch(object.py())) }
}

/// Bytes that the library has made, which an array can be made of without another copy.
#[pyclass(frozen, module = "outboard._native")]
pub(crate) struct Received {
    /// Of which only the views of Python write, which are the program's own concern.
    bytes: std::cell::UnsafeCell<Vec<u8>>,
}

// SAFETY: the bytes are used by views alone, which the program keeps apart as with any array.
unsafe impl Sync for Received {}

impl Received {
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        Self { bytes: bytes.into() }
    }

    /// The values one behind the other, as this machine has them.
    pub(crate) fn of_words<T: Copy>(words: &[T]) -> Self {
        // SAFETY: numbers, of which every byte is initialised.
        let bytes = unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), size_of_val(words)) };
        Self::new(bytes.to_vec())
    }
}

#[pymethods]
impl Received {
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let bytes = slf.get().bytes.get();
        // SAFETY: no other reference to the vector is ever made; its bytes stay where they are until it is dropped.
        let place = unsafe { ((*bytes).as_mut_ptr(), (*bytes).len()) };
        // SAFETY: the interpreter's own view, and the bytes are this object's.
        unsafe { lend(slf.as_any(), place, true, view, flags) }
    }

    fn __len__(&self) -> usize {
        // SAFETY: as above.
        unsafe { (*self.bytes.get()).len() }
    }
}
