//! Arrays of a graph as files mapped into memory, which is what far memory is compared with.

use std::fs::File;
use std::ptr;

use outboard_graph::CsrView;
use outboard_graph_format::GraphImage;
use rustix::mm::{Advice, MapFlags, ProtFlags};

use crate::BenchError;
use crate::error::Named;

/// A file mapped to be read.
struct MappedFile {
    start: *mut core::ffi::c_void,
    len: usize,
}

impl MappedFile {
    fn open(path: &std::path::Path, random: bool) -> Result<Self, BenchError> {
        let file = File::open(path).named("open")?;
        let len = file.metadata().named("fstat")?.len() as usize;
        // SAFETY: a new mapping at an address of the kernel's choice disturbs nothing.
        let start = unsafe {
            rustix::mm::mmap(ptr::null_mut(), len, ProtFlags::READ, MapFlags::SHARED, &file, 0)
                .named("mmap")?
        };
        if random {
            // SAFETY: advice about our own mapping that discards nothing.
            unsafe { rustix::mm::madvise(start, len, Advice::Random).named("madvise")? };
        }
        Ok(Self { start, len })
    }

    fn words<T: zerocopy::FromBytes>(&self) -> &[T] {
        // SAFETY: mapped as long as `self`, aligned to a page, and the benchmark's own file is not changed meanwhile; any
        // bytes are a value.
        unsafe { core::slice::from_raw_parts(self.start.cast(), self.len / size_of::<T>()) }
    }
}

impl Drop for MappedFile {
    fn drop(&mut self) {
        // SAFETY: mapped by `open`, and no code borrows it any more.
        let _ = unsafe { rustix::mm::munmap(self.start, self.len) };
    }
}

/// Rows in mapped files.
pub(super) struct MappedRows {
    offsets: MappedFile,
    targets: MappedFile,
}

impl MappedRows {
    /// Maps the rows of one direction.
    pub(super) fn open(image: &GraphImage, direction: &str, random: bool) -> Result<Self, BenchError> {
        let file = |array: &str| MappedFile::open(&image.path().join(format!("{direction}.{array}")), random);
        Ok(Self { offsets: file("offsets")?, targets: file("targets")? })
    }

    pub(super) fn view(&self) -> Result<CsrView<'_>, BenchError> {
        CsrView::new(self.offsets.words(), self.targets.words())
            .map_err(|error| BenchError::PeerFailed { why: error.to_string() })
    }
}
