//! Columns of numbers for Arrow's programs, by its interface for C.

use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr;

use pyo3::ffi;
use pyo3::prelude::*;

use crate::errors::bad_value;

const SCHEMA: &CStr = c"arrow_schema";
const ARRAY: &CStr = c"arrow_array";

/// `ArrowSchema`.
#[repr(C)]
struct Schema {
    format: *const c_char,
    name: *const c_char,
    metadata: *const c_char,
    flags: i64,
    children_len: i64,
    children: *mut *mut Schema,
    dictionary: *mut Schema,
    release: Option<unsafe extern "C" fn(*mut Schema)>,
    private: *mut c_void,
}

/// `ArrowArray`.
#[repr(C)]
struct Column {
    length: i64,
    null_count: i64,
    offset: i64,
    buffers_len: i64,
    children_len: i64,
    buffers: *mut *const c_void,
    children: *mut *mut Column,
    dictionary: *mut Column,
    release: Option<unsafe extern "C" fn(*mut Column)>,
    private: *mut c_void,
}

/// What a column keeps while its reader has it.
struct Kept {
    owner: Py<PyAny>,
    /// No bitmap of values that are missing, and the values.
    buffers: [*const c_void; 2],
}

unsafe extern "C" fn release_schema(schema: *mut Schema) {
    // SAFETY: Arrow's contract: a structure of ours, released once.
    unsafe {
        drop(CString::from_raw((*schema).private.cast()));
        (*schema).release = None;
    }
}

unsafe extern "C" fn release_column(column: *mut Column) {
    // SAFETY: Arrow's contract: a structure of ours, released once, by any thread.
    Python::attach(|_| unsafe {
        let kept = Box::from_raw((*column).private.cast::<Kept>());
        drop(kept.owner);
        (*column).release = None;
    });
}

unsafe extern "C" fn end_schema(capsule: *mut ffi::PyObject) {
    // SAFETY: a capsule of `columns`, whose structure is ours unless its reader has taken its contents, which says no release.
    unsafe {
        let schema = ffi::PyCapsule_GetPointer(capsule, SCHEMA.as_ptr()).cast::<Schema>();
        if let Some(release) = (*schema).release {
            release(schema);
        }
        drop(Box::from_raw(schema));
    }
}

unsafe extern "C" fn end_column(capsule: *mut ffi::PyObject) {
    // SAFETY: as for schemas.
    unsafe {
        let column = ffi::PyCapsule_GetPointer(capsule, ARRAY.as_ptr()).cast::<Column>();
        if let Some(release) = (*column).release {
            release(column);
        }
        drop(Box::from_raw(column));
    }
}

/// Capsules of `length` values at `address`, which `owner` keeps alive, in a format of Arrow.
#[pyfunction]
pub(crate) fn arrow_column<'py>(
    py: Python<'py>,
    owner: Py<PyAny>,
    address: usize,
    length: i64,
    format: &str,
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    let format =
        CString::new(format).map_err(|_| bad_value("a format of Arrow has no zero in it"))?.into_raw();
    let schema = Box::into_raw(Box::new(Schema {
        format,
        name: c"".as_ptr(),
        metadata: ptr::null(),
        flags: 0,
        children_len: 0,
        children: ptr::null_mut(),
        dictionary: ptr::null_mut(),
        release: Some(release_schema),
        private: format.cast(),
    }));
    let kept = Box::into_raw(Box::new(Kept { owner, buffers: [ptr::null(), address as *const c_void] }));
    let column = Box::into_raw(Box::new(Column {
        length,
        null_count: 0,
        offset: 0,
        buffers_len: 2,
        children_len: 0,
        // SAFETY: just made, and on the heap until it is released.
        buffers: unsafe { &raw mut (*kept).buffers }.cast(),
        children: ptr::null_mut(),
        dictionary: ptr::null_mut(),
        release: Some(release_column),
        private: kept.cast(),
    }));
    // SAFETY: each structure is on the heap until its capsule ends it.
    unsafe {
        let schema = ffi::PyCapsule_New(schema.cast(), SCHEMA.as_ptr(), Some(end_schema));
        let column = ffi::PyCapsule_New(column.cast(), ARRAY.as_ptr(), Some(end_column));
        Ok((Bound::from_owned_ptr_or_err(py, schema)?, Bound::from_owned_ptr_or_err(py, column)?))
    }
}
