//! NumPy's memory from far memory: a handler as NEP 49 has it.
//!
//! NumPy asks a handler for the memory of every array that is made while the handler is set, and gives an array back to the handler
//! that it came from. This one takes large arrays from an arena of far memory, and leaves the others to NumPy's own handler.

use std::alloc::Layout;
use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_void};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use outboard::FarArena;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::{raise, refuse};
use crate::process::{Home, Owned};
use crate::region::advice_of;
use crate::wait::wait;

/// The name by which NumPy knows capsules with a handler.
const CAPSULE: &CStr = c"mem_handler";
/// Where NumPy's table of functions has what sets a handler, and its own handler.
const SET_HANDLER: usize = 304;
const DEFAULT_HANDLER: usize = 306;
/// Blocks begin at cache lines, which suits vector instructions.
const ALIGN: usize = 64;

/// `PyDataMemAllocator` of NumPy's C interface.
#[repr(C)]
#[derive(Clone, Copy)]
struct Allocator {
    context: *mut c_void,
    malloc: unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void,
    calloc: unsafe extern "C" fn(*mut c_void, usize, usize) -> *mut c_void,
    realloc: unsafe extern "C" fn(*mut c_void, *mut c_void, usize) -> *mut c_void,
    free: unsafe extern "C" fn(*mut c_void, *mut c_void, usize),
}

/// `PyDataMem_Handler` of NumPy's C interface, version 1.
#[repr(C)]
struct NumpyHandler {
    name: [c_char; 127],
    version: u8,
    allocator: Allocator,
}

/// What all arrays of a handler share.
struct Arrays {
    arena: Owned<FarArena>,
    /// The addresses of the arena, which tell far blocks from others.
    first: usize,
    last: usize,
    least: usize,
    home: Home,
    near: Allocator,
    /// The blocks that are taken. NumPy does not always say how long they are.
    blocks: Mutex<HashMap<usize, Layout>>,
    taken: AtomicU64,
    /// Why an array could not be made, since NumPy knows only that there is no memory.
    refusal: Mutex<Option<String>>,
}

// SAFETY: the one pointer in it is to NumPy's own handler, which lives as long as NumPy and is called with the interpreter's lock.
unsafe impl Send for Arrays {}
// SAFETY: as above; everything else in it may be shared.
unsafe impl Sync for Arrays {}

/// What a capsule owns: its handler, which NumPy finds first, and the arrays, which are the handler's context.
#[repr(C)]
struct Boxed {
    handler: NumpyHandler,
    arrays: Arc<Arrays>,
}

impl Arrays {
    fn blocks(&self) -> MutexGuard<'_, HashMap<usize, Layout>> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_far(&self, block: *mut c_void) -> bool {
        (self.first..self.last).contains(&(block as usize))
    }

    /// Whether an array of so many bytes is to lie in far memory. A forked child has none.
    fn wants(&self, bytes: usize) -> bool {
        bytes >= self.least && self.home.is_here()
    }

    fn take(&self, bytes: usize, is_zero: bool) -> *mut c_void {
        let taken = Layout::from_size_align(bytes, ALIGN)
            .map_err(|_| "no array is so long".to_owned())
            .and_then(|layout| {
                let arena = self.arena.get().map_err(|error| error.to_string())?;
                let block = if is_zero { arena.alloc_zeroed(layout) } else { arena.alloc(layout) };
                block.map(|block| (block, layout)).map_err(|error| error.to_string())
            });
        match taken {
            Ok((block, layout)) => {
                self.blocks().insert(block.as_ptr() as usize, layout);
                self.taken.fetch_add(1, Ordering::Relaxed);
                block.as_ptr().cast()
            }
            Err(why) => {
                *self.refusal.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
                ptr::null_mut()
            }
        }
    }

    /// Gives a far block back. What a forked child has of it is its parent's.
    fn give(&self, block: *mut c_void) {
        if !self.home.may_drop() {
            return;
        }
        let (Some(layout), Ok(arena)) = (self.blocks().remove(&(block as usize)), self.arena.get()) else {
            return;
        };
        if let Some(block) = NonNull::new(block.cast()) {
            // SAFETY: it was taken for this layout and is known no more, so it is given back once; NumPy has no array in it.
            unsafe { arena.dealloc(block, layout) };
        }
    }

    /// Makes a block longer or shorter, which may change whether it is far.
    ///
    /// # Safety
    ///
    /// `block` came from this handler, and is NumPy's alone.
    unsafe fn resize(&self, block: *mut c_void, bytes: usize) -> *mut c_void {
        let (old, far) = match self.is_far(block) {
            true if !self.home.is_here() => return ptr::null_mut(),
            true => (self.blocks().get(&(block as usize)).map_or(0, Layout::size), true),
            // SAFETY: what NumPy's own handler gives is from malloc, which knows how long it is.
            false => (unsafe { libc::malloc_usable_size(block) }, false),
        };
        if !far && !self.wants(bytes) {
            // SAFETY: a block of NumPy's own handler goes back to it.
            return unsafe { (self.near.realloc)(self.near.context, block, bytes) };
        }
        if far && self.wants(bytes) {
            return self.lengthen(block, bytes);
        }
        let new = if far {
            // SAFETY: NumPy's own handler takes any length.
            unsafe { (self.near.malloc)(self.near.context, bytes) }
        } else {
            self.take(bytes, false)
        };
        if !new.is_null() {
            // SAFETY: both have as many bytes, and are different blocks.
            unsafe { new.cast::<u8>().copy_from_nonoverlapping(block.cast(), old.min(bytes)) };
            // SAFETY: it is of this handler, and NumPy's no more.
            unsafe { give_back(self, block, old) };
        }
        new
    }

    /// Makes a far block longer or shorter, which stays far.
    fn lengthen(&self, block: *mut c_void, bytes: usize) -> *mut c_void {
        let old = self.blocks().get(&(block as usize)).copied();
        let (Some(old), Ok(new), Ok(arena), Some(place)) =
            (old, Layout::from_size_align(bytes, ALIGN), self.arena.get(), NonNull::new(block.cast()))
        else {
            return ptr::null_mut();
        };
        // SAFETY: it was taken for this layout, and only NumPy uses it.
        match unsafe { arena.realloc(place, old, new) } {
            Ok(moved) => {
                let mut blocks = self.blocks();
                blocks.remove(&(block as usize));
                blocks.insert(moved.as_ptr() as usize, new);
                moved.as_ptr().cast()
            }
            Err(error) => {
                *self.refusal.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.to_string());
                ptr::null_mut()
            }
        }
    }
}

/// # Safety
///
/// `context` is that of a handler of this module, which lives as long as any array of it.
unsafe fn arrays_of<'a>(context: *mut c_void) -> &'a Arrays {
    // SAFETY: the caller's promise; the context is never anything else.
    unsafe { &*context.cast::<Arrays>() }
}

unsafe extern "C" fn malloc(context: *mut c_void, bytes: usize) -> *mut c_void {
    // SAFETY: NumPy gives the context that it was given.
    let arrays = unsafe { arrays_of(context) };
    if arrays.wants(bytes) {
        return arrays.take(bytes, false);
    }
    // SAFETY: NumPy's own function with its own context.
    unsafe { (arrays.near.malloc)(arrays.near.context, bytes) }
}

unsafe extern "C" fn calloc(context: *mut c_void, count: usize, size: usize) -> *mut c_void {
    // SAFETY: NumPy gives the context that it was given.
    let arrays = unsafe { arrays_of(context) };
    match count.checked_mul(size) {
        Some(bytes) if arrays.wants(bytes) => arrays.take(bytes, true),
        // SAFETY: NumPy's own function with its own context.
        _ => unsafe { (arrays.near.calloc)(arrays.near.context, count, size) },
    }
}

unsafe extern "C" fn realloc(context: *mut c_void, block: *mut c_void, bytes: usize) -> *mut c_void {
    if block.is_null() {
        // SAFETY: as this function.
        return unsafe { malloc(context, bytes) };
    }
    // SAFETY: NumPy gives the context that it was given, and a block of this handler.
    unsafe { arrays_of(context).resize(block, bytes) }
}

unsafe extern "C" fn free(context: *mut c_void, block: *mut c_void, bytes: usize) {
    // SAFETY: NumPy gives the context that it was given, and a block of this handler.
    unsafe { give_back(arrays_of(context), block, bytes) }
}

/// # Safety
///
/// `block` came from this handler, and NumPy uses it no more.
unsafe fn give_back(arrays: &Arrays, block: *mut c_void, bytes: usize) {
    if arrays.is_far(block) {
        arrays.give(block);
    } else {
        // SAFETY: NumPy's own function with its own context, and a block that came from there.
        unsafe { (arrays.near.free)(arrays.near.context, block, bytes) };
    }
}

/// Ends a handler: NumPy has neither set it nor an array of it.
unsafe extern "C" fn end(capsule: *mut ffi::PyObject) {
    // SAFETY: the capsule was made of a box by `PyHandler::new`, and ends once.
    unsafe {
        let boxed = ffi::PyCapsule_GetPointer(capsule, CAPSULE.as_ptr()).cast::<Boxed>();
        if !boxed.is_null() {
            drop(Box::from_raw(boxed));
        }
    }
}

/// An entry of NumPy's table of functions for C.
fn numpy(py: Python<'_>, entry: usize) -> PyResult<*mut c_void> {
    let module =
        py.import("numpy._core._multiarray_umath").or_else(|_| py.import("numpy.core._multiarray_umath"))?;
    let table = module.getattr("_ARRAY_API")?;
    // SAFETY: NumPy's capsule of its table, which has no name and lives as long as the module.
    let table = unsafe { ffi::PyCapsule_GetPointer(table.as_ptr(), ptr::null()) }.cast::<*mut c_void>();
    if table.is_null() {
        return Err(PyErr::fetch(py));
    }
    // SAFETY: NumPy 1.22 and newer have these entries, which the package asks for.
    Ok(unsafe { *table.add(entry) })
}

/// A handler of NumPy's memory, and the far memory that its arrays lie in.
#[pyclass(frozen, name = "Handler", module = "outboard._native")]
pub(crate) struct PyHandler {
    /// None of one that was found by an array.
    capsule: Option<Py<PyAny>>,
    arrays: Arc<Arrays>,
}

/// The far memory of all handlers, by which arrays are known to lie in it.
static KNOWN: Mutex<Vec<Weak<Arrays>>> = Mutex::new(Vec::new());

/// The handler whose far memory has these addresses, whether it is still set or not.
#[pyfunction]
pub(crate) fn handler_at(first: usize, last: usize) -> Option<PyHandler> {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    known.retain(|arrays| arrays.strong_count() > 0);
    let mut known = known.iter().filter_map(Weak::upgrade);
    let arrays =
        known.find(|arrays| arrays.first <= first && last <= arrays.last && arrays.home.is_here())?;
    Some(PyHandler { capsule: None, arrays })
}

impl PyHandler {
    pub(crate) fn new(py: Python<'_>, arena: FarArena, least: usize) -> PyResult<Self> {
        let mapping = arena.mapping();
        let first = mapping.as_ptr().as_ptr() as usize;
        let last = first + mapping.len();
        // SAFETY: an entry that points to a capsule, which NumPy keeps.
        let near = unsafe {
            let capsule = *numpy(py, DEFAULT_HANDLER)?.cast::<*mut ffi::PyObject>();
            let near = ffi::PyCapsule_GetPointer(capsule, CAPSULE.as_ptr()).cast::<NumpyHandler>();
            if near.is_null() {
                return Err(PyErr::fetch(py));
            }
            (*near).allocator
        };
        let arrays = Arc::new(Arrays {
            arena: Owned::new(arena),
            first,
            last,
            least: least.max(1),
            home: Home::here(),
            near,
            blocks: Mutex::default(),
            taken: AtomicU64::new(0),
            refusal: Mutex::default(),
        });
        let mut name = [0; 127];
        for (place, byte) in name.iter_mut().zip(b"outboard") {
            *place = *byte as c_char;
        }
        let context = Arc::as_ptr(&arrays).cast_mut().cast();
        let allocator = Allocator { context, malloc, calloc, realloc, free };
        let handler = NumpyHandler { name, version: 1, allocator };
        let boxed = Box::into_raw(Box::new(Boxed { handler, arrays: Arc::clone(&arrays) }));
        // SAFETY: the handler is the first field of the box, and lives until the capsule ends it.
        let capsule = unsafe {
            let capsule = ffi::PyCapsule_New(boxed.cast(), CAPSULE.as_ptr(), Some(end));
            Bound::from_owned_ptr_or_err(py, capsule)?.unbind()
        };
        KNOWN.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(&arrays));
        Ok(Self { capsule: Some(capsule), arrays })
    }
}

#[pymethods]
impl PyHandler {
    /// Has NumPy use this handler in this context of this thread, and returns the one before.
    fn set(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.arrays.home.check()?;
        set(py, self.capsule.as_ref().ok_or_else(|| refuse("this handler was found by an array"))?)
    }

    /// Has NumPy use an earlier handler again.
    #[staticmethod]
    fn restore(py: Python<'_>, handler: Py<PyAny>) -> PyResult<()> {
        set(py, &handler).map(|_| ())
    }

    /// The addresses of far memory that arrays have.
    #[getter]
    fn addresses(&self) -> (usize, usize) {
        (self.arrays.first, self.arrays.last)
    }

    /// Why an array could not be made, the last time that one could not.
    fn take_refusal(&self) -> Option<String> {
        self.arrays.refusal.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Fetches bytes of arrays in the background, by their distances from the first address.
    fn prefetch(&self, py: Python<'_>, spans: Vec<(usize, usize)>) -> PyResult<()> {
        let arena = self.arrays.arena.get()?;
        let spans = spans.into_iter().map(|(start, end)| start..end);
        py.detach(|| arena.mapping().prefetch(spans)).map_err(raise)
    }

    /// Says how all arrays are used.
    fn advise(&self, py: Python<'_>, start: usize, end: usize, advice: &str) -> PyResult<()> {
        let (arena, advice) = (self.arrays.arena.get()?, advice_of(advice)?);
        py.detach(|| arena.mapping().advise(start..end, advice)).map_err(raise)
    }

    /// Brings bytes of arrays here.
    fn prefault(&self, py: Python<'_>, start: usize, end: usize) -> PyResult<()> {
        let arrays = Arc::clone(&self.arrays);
        wait(py, move || {
            let Ok(arena) = arrays.arena.get() else { return Ok(()) };
            arena.mapping().prefault(start..end)
        })?
        .map_err(raise)
    }

    /// Gives back the memory of arrays that are gone, here and at the memory server.
    fn trim(&self, py: Python<'_>) -> PyResult<()> {
        let arena = self.arrays.arena.get()?.clone();
        wait(py, move || arena.trim())?.map_err(raise)
    }

    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (arena, counts) = (self.arrays.arena.get()?, PyDict::new(py));
        counts.set_item("arrays", self.arrays.blocks().len())?;
        counts.set_item("arrays_made", self.arrays.taken.load(Ordering::Relaxed))?;
        counts.set_item("allocated", arena.allocated())?;
        counts.set_item("reserved", arena.reserved())?;
        Ok(counts)
    }
}

/// Has NumPy use a handler, and returns the one before.
fn set(py: Python<'_>, capsule: &Py<PyAny>) -> PyResult<Py<PyAny>> {
    let set = numpy(py, SET_HANDLER)?;
    // SAFETY: this entry is a function that takes a capsule and returns one, or none with an exception.
    let before = unsafe {
        let set: unsafe extern "C" fn(*mut ffi::PyObject) -> *mut ffi::PyObject = std::mem::transmute(set);
        Bound::from_owned_ptr_or_err(py, set(capsule.as_ptr()))?
    };
    Ok(before.unbind())
}
