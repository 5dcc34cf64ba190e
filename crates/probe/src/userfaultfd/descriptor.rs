//! The system calls and ioctls of userfaultfd, for pages of an arena.

use core::ffi::c_void;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};

use linux_raw_sys::general as raw;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, Updater, opcode};
use rustix::mm::UserfaultfdFlags;

use super::arena::Arena;
use super::{Features, Route};

const GROUP: u8 = raw::UFFDIO as u8;
const API: Opcode = opcode::read_write::<raw::uffdio_api>(GROUP, raw::_UFFDIO_API as u8);
const REGISTER: Opcode = opcode::read_write::<raw::uffdio_register>(GROUP, raw::_UFFDIO_REGISTER as u8);
const UNREGISTER: Opcode = opcode::read::<raw::uffdio_range>(GROUP, raw::_UFFDIO_UNREGISTER as u8);
const COPY: Opcode = opcode::read_write::<raw::uffdio_copy>(GROUP, raw::_UFFDIO_COPY as u8);
const MOVE: Opcode = opcode::read_write::<raw::uffdio_move>(GROUP, raw::_UFFDIO_MOVE as u8);
const PROTECT: Opcode =
    opcode::read_write::<raw::uffdio_writeprotect>(GROUP, raw::_UFFDIO_WRITEPROTECT as u8);
const POISON: Opcode = opcode::read_write::<raw::uffdio_poison>(GROUP, raw::_UFFDIO_POISON as u8);
const NEW: Opcode = opcode::none(raw::USERFAULTFD_IOC as u8, 0);

/// `UFFDIO_WRITEPROTECT_MODE_WP`.
const PROTECT_MODE_SET: u64 = 1;

/// What faults of a range are wanted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Watch {
    Missing,
    MissingAndProtected,
}

/// A userfaultfd of this process. Nobody reads its messages.
pub(super) struct Userfaultfd(OwnedFd);

impl Userfaultfd {
    /// Asks for one.
    pub(super) fn open(route: Route) -> Result<Self, Errno> {
        let flags = UserfaultfdFlags::CLOEXEC | UserfaultfdFlags::NONBLOCK;
        let flags = match route {
            Route::Syscall => flags,
            Route::UserModeOnly => flags | UserfaultfdFlags::from_bits_retain(raw::UFFD_USER_MODE_ONLY),
            Route::Device => {
                let device = rustix::fs::open(super::DEVICE, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
                // SAFETY: the opcode takes the flags as an integer and answers with a new descriptor.
                return unsafe { rustix::ioctl::ioctl(device, NewDescriptor(flags)) }.map(Self);
            }
        };
        // SAFETY: only arenas are ever registered with it.
        unsafe { rustix::mm::userfaultfd(flags) }.map(Self)
    }

    /// The handshake: asks for features and learns all that there are. Possible once.
    pub(super) fn agree(&self, wanted: Features) -> Result<Features, Errno> {
        let mut api = raw::uffdio_api { api: raw::UFFD_API.into(), features: wanted.bits(), ioctls: 0 };
        // SAFETY: reads and writes the struct only.
        unsafe { self.update::<API, _>(&mut api)? };
        Ok(Features::from_bits(api.features))
    }

    /// Watches all of `arena`, until what is returned is dropped. Its bytes are out of reach meanwhile.
    pub(super) fn watch<'a>(&'a self, arena: &'a mut Arena, watch: Watch) -> Result<Watched<'a>, Errno> {
        let mode = match watch {
            Watch::Missing => raw::UFFDIO_REGISTER_MODE_MISSING,
            Watch::MissingAndProtected => raw::UFFDIO_REGISTER_MODE_MISSING | raw::UFFDIO_REGISTER_MODE_WP,
        };
        let range = raw::uffdio_range { start: arena.address(0), len: arena.len() };
        let mut register = raw::uffdio_register { range, mode: mode.into(), ioctls: 0 };
        // SAFETY: changes who handles faults of the arena, which nobody can touch while it is borrowed.
        unsafe { self.update::<REGISTER, _>(&mut register)? };
        Ok(Watched { owner: self, arena })
    }

    /// Calls the ioctl `OPCODE` with a struct that the kernel reads and writes.
    ///
    /// # Safety
    ///
    /// `T` is the struct that belongs to `OPCODE`, and all addresses in it are those of an arena that the caller
    /// has borrowed.
    unsafe fn update<const OPCODE: Opcode, T>(&self, value: &mut T) -> Result<(), Errno> {
        // SAFETY: by the contract above.
        unsafe { rustix::ioctl::ioctl(self.0.as_fd(), Updater::<OPCODE, T>::new(value)) }
    }
}

/// An arena whose faults go to a userfaultfd.
pub(super) struct Watched<'a> {
    owner: &'a Userfaultfd,
    arena: &'a mut Arena,
}

impl Watched<'_> {
    /// Where a page begins.
    pub(super) fn address(&self, page: usize) -> u64 {
        self.arena.address(page)
    }

    /// Copies page `from` to the absent page `to`, write-protected if `protect`.
    pub(super) fn copy(&mut self, from: usize, to: usize, protect: bool) -> Result<(), Errno> {
        let mode = if protect { raw::UFFDIO_COPY_MODE_WP } else { 0 };
        let (dst, src, len) = (self.address(to), self.address(from), self.arena.page_size() as u64);
        let mut copy = raw::uffdio_copy { dst, src, len, mode: mode.into(), copy: 0 };
        // SAFETY: both pages lie in the arena borrowed here.
        unsafe { self.owner.update::<COPY, _>(&mut copy) }
    }

    /// Moves page `from` to the absent page `to`, and leaves nothing behind.
    pub(super) fn relocate(&mut self, from: usize, to: usize) -> Result<(), Errno> {
        let (dst, src, len) = (self.address(to), self.address(from), self.arena.page_size() as u64);
        let mut relocation = raw::uffdio_move { dst, src, len, mode: 0, move_: 0 };
        // SAFETY: both pages lie in the arena borrowed here.
        unsafe { self.owner.update::<MOVE, _>(&mut relocation) }
    }

    /// Makes stores to a page wait for a handler, or no longer.
    pub(super) fn protect(&mut self, page: usize, set: bool) -> Result<(), Errno> {
        let mode = if set { PROTECT_MODE_SET } else { 0 };
        let mut protect = raw::uffdio_writeprotect { range: self.range(page), mode };
        // SAFETY: the page lies in the arena borrowed here.
        unsafe { self.owner.update::<PROTECT, _>(&mut protect) }
    }

    /// Makes an absent page raise SIGBUS.
    pub(super) fn poison(&mut self, page: usize) -> Result<(), Errno> {
        let mut poison = raw::uffdio_poison { range: self.range(page), mode: 0, updated: 0 };
        // SAFETY: the page lies in the arena borrowed here. It is never touched again: see `Trials`.
        unsafe { self.owner.update::<POISON, _>(&mut poison) }
    }

    fn range(&self, page: usize) -> raw::uffdio_range {
        raw::uffdio_range { start: self.address(page), len: self.arena.page_size() as u64 }
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        let mut range = raw::uffdio_range { start: self.arena.address(0), len: self.arena.len() };
        // SAFETY: ends what `watch` began for the same range.
        let ended = unsafe { self.owner.update::<UNREGISTER, _>(&mut range) };
        // Giving the arena back while it is watched could make its reader wait for ever. The kernel refuses only
        // ranges that were never registered.
        assert_eq!(ended, Ok(()), "cannot unregister what was registered");
    }
}

/// `USERFAULTFD_IOC_NEW` on the device.
struct NewDescriptor(UserfaultfdFlags);

// SAFETY: the argument is an integer, nothing in this process's memory changes, and the answer is a descriptor that
// nobody else owns.
unsafe impl Ioctl for NewDescriptor {
    type Output = OwnedFd;

    const IS_MUTATING: bool = false;

    fn opcode(&self) -> Opcode {
        NEW
    }

    fn as_ptr(&mut self) -> *mut c_void {
        core::ptr::without_provenance_mut(self.0.bits() as usize)
    }

    unsafe fn output_from_ptr(output: IoctlOutput, _: *mut c_void) -> rustix::io::Result<OwnedFd> {
        // SAFETY: called after success only, when the kernel has just made this descriptor for us.
        Ok(unsafe { OwnedFd::from_raw_fd(output) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As in the kernel's headers, which are the same on x86-64 and aarch64.
    #[test]
    fn opcodes_are_the_kernels() {
        assert_eq!(API, 0xc018_aa3f);
        assert_eq!(REGISTER, 0xc020_aa00);
        assert_eq!(UNREGISTER, 0x8010_aa01);
        assert_eq!(COPY, 0xc028_aa03);
        assert_eq!(MOVE, 0xc028_aa05);
        assert_eq!(PROTECT, 0xc018_aa06);
        assert_eq!(POISON, 0xc020_aa08);
        assert_eq!(NEW, 0xaa00);
    }
}
