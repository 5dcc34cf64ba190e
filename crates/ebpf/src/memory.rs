//! What a program sees as memory: areas at fixed virtual addresses, and nothing else.
//!
//! The upper half of an address is the number of an area, the lower half an offset into it. A table with sixteen
//! entries tells for each area where it is and how much of it may be read and written, so an access needs two
//! comparisons, in the interpreter as in compiled code. No area is as long as 4 GiB, so that an offset below
//! zero, which changes the number of the area, never meets one.

mod buffer;

use crate::helper::ReachError;
use crate::program::Program;
use buffer::Buffer;

/// How far an address is shifted to give the number of its area.
pub const AREA_SHIFT: u32 = 32;
/// How many areas there can be. The one with number 0 is always empty.
pub const AREAS: usize = 16;
/// The number of the area that is the run's input and output.
pub const CONTEXT_AREA: usize = 1;
/// The number of the area that has the stack frames.
pub const STACK_AREA: usize = 2;
/// The number of the area with the program's constants.
pub const RODATA_AREA: usize = 3;
/// The number of the area with the program's variables.
pub const DATA_AREA: usize = 4;
/// The number of the first area for buffers that helpers grant.
pub const FIRST_GRANT_AREA: usize = 5;
/// How many buffers helpers can grant.
pub const GRANTS: usize = AREAS - FIRST_GRANT_AREA;

/// How long a stack frame is, in bytes.
pub const FRAME_LEN: usize = 512;
/// How deep functions can call functions, the outermost included.
pub const MAX_FRAMES: usize = 8;

/// The address of an area's first byte.
pub const fn area_address(area: usize) -> u64 {
    (area as u64) << AREA_SHIFT
}

/// The address of the context.
pub const CONTEXT: u64 = area_address(CONTEXT_AREA);
/// The address of the stack: of the outermost frame's lowest byte.
pub const STACK: u64 = area_address(STACK_AREA);
/// The address of the constants.
pub const RODATA: u64 = area_address(RODATA_AREA);
/// The address of the variables.
pub const DATA: u64 = area_address(DATA_AREA);

/// The address of the buffer granted in `slot`.
pub const fn grant_address(slot: usize) -> u64 {
    area_address(FIRST_GRANT_AREA + slot)
}

/// What r10 is at this depth; the outermost function's is 0. Frames follow each other upwards.
pub const fn frame_end(depth: usize) -> u64 {
    STACK + ((depth + 1) * FRAME_LEN) as u64
}

/// An entry of the table of areas, as compiled code reads it.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct MemoryArea {
    base: *mut u8,
    readable: u32,
    writable: u32,
}

impl MemoryArea {
    const EMPTY: MemoryArea = MemoryArea { base: std::ptr::null_mut(), readable: 0, writable: 0 };
    /// Where in an entry the native address of the first byte is.
    pub const BASE: usize = std::mem::offset_of!(MemoryArea, base);
    /// Where in an entry the number of bytes is that can be read, 32 bits.
    pub const READABLE: usize = std::mem::offset_of!(MemoryArea, readable);
    /// Where in an entry the number of bytes is that can be written, 32 bits.
    pub const WRITABLE: usize = std::mem::offset_of!(MemoryArea, writable);
}

/// What a program wants to do with memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MemoryAccess {
    /// Read it.
    Read,
    /// Write it, or read and write it.
    Write,
}

/// An access that a program's memory does not allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum MemoryFault {
    /// There is nothing at this address, or it ends too early.
    #[error("{length} bytes at {address:#x} are outside of what the program has")]
    Outside {
        /// Where.
        address: u64,
        /// How many bytes.
        length: u64,
    },
    /// It can only be read.
    #[error("{length} bytes at {address:#x} can only be read")]
    ReadOnly {
        /// Where.
        address: u64,
        /// How many bytes.
        length: u64,
    },
}

/// How much memory an instance may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProgramLimits {
    /// Bytes of context, 64 KiB unless told. Taken when needed, and kept.
    pub context: usize,
    /// Bytes of each granted buffer, 1 MiB unless told. Taken when needed, and kept.
    pub grant: usize,
}

impl Default for ProgramLimits {
    fn default() -> ProgramLimits {
        ProgramLimits { context: 64 << 10, grant: 1 << 20 }
    }
}

impl ProgramLimits {
    /// Every area is shorter than this, whatever the limits say.
    pub const LONGEST: usize = 1 << 30;
}

/// The memory of one run. What it owns stays where it is during a run, except for a buffer that is granted anew.
#[derive(Debug)]
#[repr(C)]
pub struct ProgramMemory {
    areas: [MemoryArea; AREAS],
    stack: Buffer,
    context: Buffer,
    data: Buffer,
    grants: [Buffer; GRANTS],
    /// Whether any slot has a buffer, so that most runs need not look.
    any_granted: bool,
    limits: ProgramLimits,
}

// SAFETY: the table points only into buffers that the same struct owns, and into the constants of a program, which are
// never written and stay as long as `bind` asks for.
unsafe impl Send for ProgramMemory {}
// SAFETY: as above; through a shared reference memory is only read.
unsafe impl Sync for ProgramMemory {}

impl ProgramMemory {
    pub(crate) fn new(limits: ProgramLimits) -> ProgramMemory {
        ProgramMemory {
            areas: [MemoryArea::EMPTY; AREAS],
            stack: Buffer::zeroed(FRAME_LEN * MAX_FRAMES),
            context: Buffer::default(),
            data: Buffer::default(),
            grants: Default::default(),
            any_granted: false,
            limits,
        }
    }

    /// Where in it the table of areas is.
    pub const AREAS_OFFSET: usize = std::mem::offset_of!(ProgramMemory, areas);

    /// What it may take.
    pub(crate) fn limits(&self) -> ProgramLimits {
        let ProgramLimits { context, grant } = self.limits;
        ProgramLimits {
            context: context.min(ProgramLimits::LONGEST),
            grant: grant.min(ProgramLimits::LONGEST),
        }
    }

    /// Gets ready for a new run of the program that was bound: no frames, no grants, variables as the program has
    /// them if it may have any. The context stays.
    #[inline]
    pub(crate) fn begin(&mut self, program: &Program, with_data: impl FnOnce() -> bool) {
        if self.any_granted {
            self.revoke();
        }
        if !program.data().is_empty() {
            self.refresh_data(program, with_data());
        }
        self.set_frames(0);
    }

    /// Shows the constants of this program from now on.
    ///
    /// # Safety
    ///
    /// The program stays until another is bound, or until this memory is accessed no more.
    #[inline]
    pub(crate) unsafe fn bind(&mut self, program: &Program) {
        let rodata = program.rodata();
        self.areas[RODATA_AREA] =
            MemoryArea { base: rodata.as_ptr().cast_mut(), readable: rodata.len() as u32, writable: 0 };
        self.areas[DATA_AREA] = MemoryArea::EMPTY;
        self.areas[STACK_AREA] = MemoryArea { base: self.stack.as_ptr(), readable: 0, writable: 0 };
    }

    fn revoke(&mut self) {
        self.areas[FIRST_GRANT_AREA..].fill(MemoryArea::EMPTY);
        self.any_granted = false;
    }

    fn refresh_data(&mut self, program: &Program, with_data: bool) {
        if with_data {
            self.data.resize_uncleared(program.data().len()).copy_from_slice(program.data());
            self.areas[DATA_AREA] = self.data.area();
        } else {
            self.areas[DATA_AREA] = MemoryArea::EMPTY;
        }
    }

    /// Makes the lowest `frames` stack frames accessible.
    #[inline]
    pub(crate) fn set_frames(&mut self, frames: usize) {
        debug_assert!(frames <= MAX_FRAMES);
        let length = (frames * FRAME_LEN) as u32;
        (self.areas[STACK_AREA].readable, self.areas[STACK_AREA].writable) = (length, length);
    }

    /// Makes one more frame accessible, with zeros in it.
    #[inline]
    pub(crate) fn push_frame(&mut self, depth: usize) {
        self.set_frames(depth + 1);
        self.frame_mut(depth).fill(0);
    }

    /// The bytes of the frame at this depth, accessible or not.
    pub(crate) fn frame(&self, depth: usize) -> &[u8] {
        &self.stack.bytes()[depth * FRAME_LEN..][..FRAME_LEN]
    }

    /// As [`frame`](Self::frame), to be written.
    pub(crate) fn frame_mut(&mut self, depth: usize) -> &mut [u8] {
        &mut self.stack.bytes_mut()[depth * FRAME_LEN..][..FRAME_LEN]
    }

    pub(crate) fn context(&self) -> &[u8] {
        self.context.bytes()
    }

    pub(crate) fn context_mut(&mut self) -> &mut [u8] {
        self.context.bytes_mut()
    }

    /// Takes another context, or says how long one may be.
    #[inline]
    pub(crate) fn set_context(&mut self, bytes: &[u8]) -> Result<(), usize> {
        let limit = self.limits().context;
        if bytes.len() > limit {
            return Err(limit);
        }
        self.context.resize_uncleared(bytes.len()).copy_from_slice(bytes);
        self.areas[CONTEXT_AREA] = self.context.area();
        Ok(())
    }

    /// The bytes granted in `slot`.
    pub(crate) fn granted(&self, slot: usize) -> &[u8] {
        &self.grants[slot].bytes()[..self.length_of_grant(slot)]
    }

    #[inline]
    pub(crate) fn length_of_grant(&self, slot: usize) -> usize {
        self.areas[FIRST_GRANT_AREA + slot].readable as usize
    }

    /// A zeroed buffer in `slot`, in place of what was there.
    pub(crate) fn grant(&mut self, slot: usize, length: usize) -> Result<&mut [u8], ReachError> {
        let buffer = self.grant_uncleared(slot, length)?;
        buffer.fill(0);
        Ok(buffer)
    }

    /// A buffer in `slot`, in place of what was there, with whatever earlier runs have left in it.
    #[inline]
    pub(crate) fn grant_uncleared(&mut self, slot: usize, length: usize) -> Result<&mut [u8], ReachError> {
        if length > self.limits.grant.min(ProgramLimits::LONGEST) {
            return Err(ReachError::TooLong { length, limit: self.limits().grant });
        }
        self.grants[slot].resize_uncleared(length);
        self.any_granted = true;
        self.areas[FIRST_GRANT_AREA + slot] = self.grants[slot].area();
        Ok(self.grants[slot].bytes_mut())
    }

    /// Takes over what a continuation has, within the limits.
    pub(crate) fn restore(&mut self, context: &[u8], grants: &[&[u8]; GRANTS]) {
        self.context.resize_uncleared(context.len()).copy_from_slice(context);
        self.areas[CONTEXT_AREA] = self.context.area();
        for (slot, bytes) in grants.iter().enumerate().filter(|(_, bytes)| !bytes.is_empty()) {
            self.grants[slot].resize_uncleared(bytes.len()).copy_from_slice(bytes);
            self.areas[FIRST_GRANT_AREA + slot] = self.grants[slot].area();
            self.any_granted = true;
        }
    }

    /// The native address of `length` bytes, if the program may access them so.
    #[inline(always)]
    fn locate(&self, address: u64, length: u64, access: MemoryAccess) -> Option<*mut u8> {
        let area = self.areas.get((address >> AREA_SHIFT) as usize)?;
        let offset = address & ((1 << AREA_SHIFT) - 1);
        let available = if access == MemoryAccess::Read { area.readable } else { area.writable };
        if offset.checked_add(length)? > u64::from(available) {
            return None;
        }
        // SAFETY: `offset` is at most the area's length, so the result is within its allocation or just behind it.
        Some(unsafe { area.base.add(offset as usize) })
    }

    /// Whether the program may access these bytes so. Nothing can be said against no bytes at all.
    pub(crate) fn check(&self, address: u64, length: usize, access: MemoryAccess) -> Result<(), MemoryFault> {
        if length == 0 || self.locate(address, length as u64, access).is_some() {
            Ok(())
        } else {
            Err(self.fault(address, length as u64, access))
        }
    }

    /// Why an access that is not allowed is not allowed.
    #[cold]
    pub(crate) fn fault(&self, address: u64, length: u64, access: MemoryAccess) -> MemoryFault {
        if access == MemoryAccess::Write && self.locate(address, length, MemoryAccess::Read).is_some() {
            MemoryFault::ReadOnly { address, length }
        } else {
            MemoryFault::Outside { address, length }
        }
    }

    /// Bytes that the program may read.
    #[inline]
    pub(crate) fn read(&self, address: u64, length: usize) -> Result<&[u8], MemoryFault> {
        if length == 0 {
            return Ok(&[]);
        }
        let start = self.locate(address, length as u64, MemoryAccess::Read);
        let start = start.ok_or_else(|| self.fault(address, length as u64, MemoryAccess::Read))?;
        // SAFETY: `locate` found so many bytes within one area, which lives as long as `self` and is not written
        // while it is borrowed.
        Ok(unsafe { std::slice::from_raw_parts(start, length) })
    }

    /// Bytes that the program may write.
    #[inline]
    pub(crate) fn write(&mut self, address: u64, length: usize) -> Result<&mut [u8], MemoryFault> {
        if length == 0 {
            return Ok(&mut []);
        }
        let start = self.locate(address, length as u64, MemoryAccess::Write);
        let start = start.ok_or_else(|| self.fault(address, length as u64, MemoryAccess::Write))?;
        // SAFETY: `locate` found so many writable bytes within one area, and areas that can be written are owned by
        // `self` alone, which is borrowed.
        Ok(unsafe { std::slice::from_raw_parts_mut(start, length) })
    }

    /// Reads `N` bytes, aligned or not.
    #[inline(always)]
    pub(crate) fn load<const N: usize>(&self, address: u64) -> Result<[u8; N], MemoryFault> {
        match self.locate(address, N as u64, MemoryAccess::Read) {
            // SAFETY: `locate` found `N` readable bytes within one area.
            Some(start) => Ok(unsafe { start.cast::<[u8; N]>().read_unaligned() }),
            None => Err(self.fault(address, N as u64, MemoryAccess::Read)),
        }
    }

    /// Writes `N` bytes, aligned or not.
    #[inline(always)]
    pub(crate) fn store<const N: usize>(&mut self, address: u64, bytes: [u8; N]) -> Result<(), MemoryFault> {
        match self.locate(address, N as u64, MemoryAccess::Write) {
            Some(start) => {
                // SAFETY: `locate` found `N` writable bytes within one area, which `self` owns alone.
                unsafe { start.cast::<[u8; N]>().write_unaligned(bytes) };
                Ok(())
            }
            None => Err(self.fault(address, N as u64, MemoryAccess::Write)),
        }
    }
}

#[cfg(test)]
mod tests;
