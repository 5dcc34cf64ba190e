//! What compiled code and the engine around it agree on: where things are in an instance, and what calls return.

use std::mem::offset_of;

use crate::instance::{CallFrame, Instance};
use crate::memory::{AREAS, MemoryArea, ProgramMemory, STACK_AREA};

/// What compiled code finds in an instance while it runs, beside the run's own state.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct Native {
    /// The address of the [`Run`](super::run::Run), for the way back from compiled code.
    pub(super) run: usize,
    /// The index of the helper that is being called.
    pub(super) helper: u32,
    /// Where a function that is entered goes on: behind this slot, less one. Zero if it begins.
    pub(super) resume: u32,
}

/// What compiled functions, and the way to helpers, return.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct Outcome {
    /// r0, or the address that was wrong.
    pub(super) value: u64,
    /// One of the constants below.
    pub(super) status: u64,
}

/// The function returned, the helper answered.
pub(super) const RETURNED: u64 = 0;
/// The run is suspended.
pub(super) const SUSPENDED: u64 = 1;
/// The run ended; the slot is told by the upper bits.
pub(super) const OUT_OF_FUEL: u64 = 2;
/// As above; `value` is the address.
pub(super) const WRONG_ADDRESS: u64 = 3;
/// As above.
pub(super) const TOO_DEEP: u64 = 4;
/// As above; the reason is kept aside.
pub(super) const HELPER_FAILED: u64 = 5;

/// How far the slot is shifted in a status.
pub(super) const INDEX_SHIFT: u32 = 8;

/// The status of a run that ended at this slot.
pub(super) const fn ended(kind: u64, index: u32) -> i64 {
    (kind | (index as u64) << INDEX_SHIFT) as i64
}

const fn offset(bytes: usize) -> i32 {
    assert!(bytes < i32::MAX as usize);
    bytes as i32
}

pub(super) const FUEL: i32 = offset(offset_of!(Instance, fuel));
pub(super) const DEPTH: i32 = offset(offset_of!(Instance, depth));
pub(super) const HELPER: i32 = offset(offset_of!(Instance, native) + offset_of!(Native, helper));
pub(super) const RESUME: i32 = offset(offset_of!(Instance, native) + offset_of!(Native, resume));
pub(super) const FRAMES: i32 = offset(offset_of!(Instance, frames));
pub(super) const FRAME_SIZE: i32 = offset(size_of::<CallFrame>());
pub(super) const FRAME_INDEX: i32 = offset(offset_of!(CallFrame, index));
pub(super) const FRAME_UNUSED: i32 = offset(offset_of!(CallFrame, unused));

/// Where a saved register is in a frame: 6 to 9.
pub(super) const fn frame_saved(register: usize) -> i32 {
    offset(offset_of!(CallFrame, saved) + (register - 6) * 8)
}

const TABLE: usize = offset_of!(Instance, memory) + ProgramMemory::AREAS_OFFSET;
/// Where the table of areas begins.
pub(super) const AREA_TABLE: i32 = offset(TABLE);
/// An entry of the table is as long as two to the power of this.
pub(super) const AREA_ENTRY_SHIFT: i64 = size_of::<MemoryArea>().trailing_zeros() as i64;
const _: () = assert!(size_of::<MemoryArea>().is_power_of_two());

/// Where the native address of an area is.
pub(super) const fn area_base(area: usize) -> i32 {
    assert!(area < AREAS);
    offset(TABLE + area * size_of::<MemoryArea>() + MemoryArea::BASE)
}

/// Where the number of bytes is that can be read.
pub(super) const fn area_readable(area: usize) -> i32 {
    assert!(area < AREAS);
    offset(TABLE + area * size_of::<MemoryArea>() + MemoryArea::READABLE)
}

/// Where the number of bytes is that can be written.
pub(super) const fn area_writable(area: usize) -> i32 {
    assert!(area < AREAS);
    offset(TABLE + area * size_of::<MemoryArea>() + MemoryArea::WRITABLE)
}

/// Where both lengths of the stack are.
pub(super) const STACK_LENGTHS: [i32; 2] = [area_readable(STACK_AREA), area_writable(STACK_AREA)];
