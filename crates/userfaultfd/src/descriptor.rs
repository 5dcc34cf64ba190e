//! The descriptor and its ioctls.

use core::ffi::c_void;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};

use linux_raw_sys::general as raw;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, Updater, opcode};
use rustix::mm::UserfaultfdFlags;

use crate::message::KernelMessages;
use crate::route::DEVICE;
use crate::{DescriptorSource, Features};

const GROUP: u8 = raw::UFFDIO as u8;
const API: Opcode = opcode::read_write::<raw::uffdio_api>(GROUP, raw::_UFFDIO_API as u8);
const REGISTER: Opcode = opcode::read_write::<raw::uffdio_register>(GROUP, raw::_UFFDIO_REGISTER as u8);
const UNREGISTER: Opcode = opcode::read::<raw::uffdio_range>(GROUP, raw::_UFFDIO_UNREGISTER as u8);
const WAKE: Opcode = opcode::read::<raw::uffdio_range>(GROUP, raw::_UFFDIO_WAKE as u8);
const COPY: Opcode = opcode::read_write::<raw::uffdio_copy>(GROUP, raw::_UFFDIO_COPY as u8);
const MOVE: Opcode = opcode::read_write::<raw::uffdio_move>(GROUP, raw::_UFFDIO_MOVE as u8);
const PROTECT: Opcode =
    opcode::read_write::<raw::uffdio_writeprotect>(GROUP, raw::_UFFDIO_WRITEPROTECT as u8);
const ZEROPAGE: Opcode = opcode::read_write::<raw::uffdio_zeropage>(GROUP, raw::_UFFDIO_ZEROPAGE as u8);
const POISON: Opcode = opcode::read_write::<raw::uffdio_poison>(GROUP, raw::_UFFDIO_POISON as u8);
const NEW: Opcode = opcode::none(raw::USERFAULTFD_IOC as u8, 0);

/// `UFFDIO_WRITEPROTECT_MODE_WP`.
const PROTECT_MODE_SET: u64 = 1;
/// `UFFDIO_COPY_MODE_DONTWAKE`, and those of moving and poisoning.
const MODE_DONTWAKE: u64 = 1;
const _: () = assert!(raw::UFFDIO_COPY_MODE_DONTWAKE as u64 == MODE_DONTWAKE);

/// What faults of a range are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultWatch {
    /// Accesses to absent pages.
    Missing,
    /// Stores to protected pages. Absent pages are the kernel's business, as in any memory.
    Protected,
    /// These, and stores to protected pages.
    MissingAndProtected,
}

/// Whether threads that wait for the pages go on at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// They go on.
    Now,
    /// They wait for [`Userfaultfd::wake`].
    Later,
}

impl Wake {
    const fn mode(self) -> u64 {
        match self {
            Self::Now => 0,
            Self::Later => MODE_DONTWAKE,
        }
    }
}

/// An operation on several pages ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped {
    /// How many bytes are done.
    pub done: usize,
    /// Why it went no further; `AGAIN` is worth another try with the rest.
    pub errno: Errno,
}

/// A userfaultfd of this process.
#[derive(Debug)]
pub struct Userfaultfd(OwnedFd);

impl Userfaultfd {
    /// Asks for one whose reads do not block.
    pub fn open(route: DescriptorSource) -> Result<Self, Errno> {
        let flags = UserfaultfdFlags::CLOEXEC | UserfaultfdFlags::NONBLOCK;
        let flags = match route {
            DescriptorSource::Syscall => flags,
            DescriptorSource::UserModeOnly => {
                flags | UserfaultfdFlags::from_bits_retain(raw::UFFD_USER_MODE_ONLY)
            }
            DescriptorSource::Device => {
                let device = rustix::fs::open(DEVICE, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
                // SAFETY: the opcode takes the flags as an integer and answers with a new descriptor.
                return unsafe { rustix::ioctl::ioctl(device, NewDescriptor(flags)) }.map(Self);
            }
        };
        // SAFETY: a descriptor alone changes nothing; what is registered with it is the caller's contract below.
        unsafe { rustix::mm::userfaultfd(flags) }.map(Self)
    }

    /// Asks by every route, best first.
    pub fn open_best() -> Result<(Self, DescriptorSource), Errno> {
        let mut refused = Errno::NOSYS;
        for route in DescriptorSource::ALL {
            match Self::open(route) {
                Ok(userfaultfd) => return Ok((userfaultfd, route)),
                Err(errno) => refused = errno,
            }
        }
        Err(refused)
    }

    /// The handshake: asks for features and learns all that there are. Possible once.
    pub fn agree(&self, wanted: Features) -> Result<Features, Errno> {
        let mut api = raw::uffdio_api { api: raw::UFFD_API.into(), features: wanted.bits(), ioctls: 0 };
        // SAFETY: reads and writes the struct only.
        unsafe { self.update::<API, _>(&mut api)? };
        Ok(Features::from_bits(api.features))
    }

    /// Faults of these pages come here from now on.
    ///
    /// # Safety
    ///
    /// The range is mapped memory of the caller's, and every thread that touches an absent page of it may wait
    /// until a handler answers.
    pub unsafe fn register(&self, start: usize, len: usize, watch: FaultWatch) -> Result<(), Errno> {
        let mode = match watch {
            FaultWatch::Missing => raw::UFFDIO_REGISTER_MODE_MISSING,
            FaultWatch::Protected => raw::UFFDIO_REGISTER_MODE_WP,
            FaultWatch::MissingAndProtected => {
                raw::UFFDIO_REGISTER_MODE_MISSING | raw::UFFDIO_REGISTER_MODE_WP
            }
        };
        let mut register = raw::uffdio_register { range: range(start, len), mode: mode.into(), ioctls: 0 };
        // SAFETY: by the contract above.
        unsafe { self.update::<REGISTER, _>(&mut register) }
    }

    /// Faults of these pages are the kernel's again; threads that wait go on.
    ///
    /// # Safety
    ///
    /// The range is the caller's, and no code takes the zeros for its bytes that are read from absent pages afterwards.
    pub unsafe fn unregister(&self, start: usize, len: usize) -> Result<(), Errno> {
        // SAFETY: by the contract above.
        unsafe { self.update::<UNREGISTER, _>(&mut range(start, len)) }
    }

    /// Lets threads that wait for these pages try again.
    pub fn wake(&self, start: usize, len: usize) -> Result<(), Errno> {
        // SAFETY: changes no memory.
        unsafe { self.update::<WAKE, _>(&mut range(start, len)) }
    }

    /// Copies pages to absent pages, write-protected if `protect`.
    ///
    /// # Safety
    ///
    /// Both ranges are mapped memory of the caller's, `to` is registered here, and no code relies on `to` being
    /// absent.
    pub unsafe fn copy(
        &self,
        from: usize,
        to: usize,
        len: usize,
        protect: bool,
        wake: Wake,
    ) -> Result<(), Stopped> {
        let protect = if protect { u64::from(raw::UFFDIO_COPY_MODE_WP) } else { 0 };
        let mode = protect | wake.mode();
        let mut copy = raw::uffdio_copy { dst: to as u64, src: from as u64, len: len as u64, mode, copy: 0 };
        // SAFETY: by the contract above.
        let result = unsafe { self.update::<COPY, _>(&mut copy) };
        result.map_err(|errno| stopped(copy.copy, errno))
    }

    /// Makes absent pages zero. They take no memory until they are written.
    ///
    /// # Safety
    ///
    /// The range is the caller's, registered here, and no code relies on its being absent.
    pub unsafe fn zero(&self, start: usize, len: usize, wake: Wake) -> Result<(), Stopped> {
        let mut zero = raw::uffdio_zeropage { range: range(start, len), mode: wake.mode(), zeropage: 0 };
        // SAFETY: by the contract above.
        let result = unsafe { self.update::<ZEROPAGE, _>(&mut zero) };
        result.map_err(|errno| stopped(zero.zeropage, errno))
    }

    /// Moves pages to absent pages, and leaves nothing behind.
    ///
    /// # Safety
    ///
    /// Both ranges are mapped memory of the caller's, both registered here, and no code relies on `from` being
    /// there or on `to` being absent.
    pub unsafe fn relocate(&self, from: usize, to: usize, len: usize, wake: Wake) -> Result<(), Stopped> {
        let mut relocation = raw::uffdio_move {
            dst: to as u64,
            src: from as u64,
            len: len as u64,
            mode: wake.mode(),
            move_: 0,
        };
        // SAFETY: by the contract above.
        let result = unsafe { self.update::<MOVE, _>(&mut relocation) };
        result.map_err(|errno| stopped(relocation.move_, errno))
    }

    /// Makes stores to pages wait for a handler.
    ///
    /// # Safety
    ///
    /// The range is the caller's, and every thread that stores there may wait until a handler answers.
    pub unsafe fn protect(&self, start: usize, len: usize) -> Result<(), Errno> {
        let mut protect = raw::uffdio_writeprotect { range: range(start, len), mode: PROTECT_MODE_SET };
        // SAFETY: by the contract above.
        unsafe { self.update::<PROTECT, _>(&mut protect) }
    }

    /// Allows stores to pages again, and wakes those who wait to store.
    ///
    /// # Safety
    ///
    /// The range is the caller's, and no code relies on its bytes staying as they are.
    pub unsafe fn unprotect(&self, start: usize, len: usize) -> Result<(), Errno> {
        let mut protect = raw::uffdio_writeprotect { range: range(start, len), mode: 0 };
        // SAFETY: by the contract above.
        unsafe { self.update::<PROTECT, _>(&mut protect) }
    }

    /// Makes absent pages raise SIGBUS where they are touched. They cannot be filled any more.
    ///
    /// # Safety
    ///
    /// The range is the caller's, and no code relies on its absent pages being filled.
    pub unsafe fn poison(&self, start: usize, len: usize, wake: Wake) -> Result<(), Stopped> {
        let mut poison = raw::uffdio_poison { range: range(start, len), mode: wake.mode(), updated: 0 };
        // SAFETY: by the contract above.
        let result = unsafe { self.update::<POISON, _>(&mut poison) };
        result.map_err(|errno| stopped(poison.updated, errno))
    }

    /// Takes the faults that wait, as many as there is room for. Returns false if there are none.
    pub fn read(&self, messages: &mut KernelMessages) -> Result<bool, Errno> {
        match rustix::io::read(&self.0, &mut messages.bytes) {
            Ok(filled) => {
                messages.filled = filled;
                Ok(filled > 0)
            }
            Err(Errno::AGAIN | Errno::INTR) => {
                messages.filled = 0;
                Ok(false)
            }
            Err(errno) => Err(errno),
        }
    }

    /// Calls the ioctl `OPCODE` with a struct that the kernel reads and writes.
    ///
    /// # Safety
    ///
    /// `T` is the struct that belongs to `OPCODE`, and the caller may change the pages that it names.
    unsafe fn update<const OPCODE: Opcode, T>(&self, value: &mut T) -> Result<(), Errno> {
        // SAFETY: by the contract above.
        unsafe { rustix::ioctl::ioctl(self.0.as_fd(), Updater::<OPCODE, T>::new(value)) }
    }
}

impl From<OwnedFd> for Userfaultfd {
    /// One that another process has sent: its operations are about the memory of that process, and copy from the memory of this one.
    fn from(descriptor: OwnedFd) -> Self {
        Self(descriptor)
    }
}

impl From<Userfaultfd> for OwnedFd {
    fn from(userfaultfd: Userfaultfd) -> Self {
        userfaultfd.0
    }
}

impl AsFd for Userfaultfd {
    /// Becomes readable when a thread waits.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn range(start: usize, len: usize) -> raw::uffdio_range {
    raw::uffdio_range { start: start as u64, len: len as u64 }
}

/// The kernel counts what it did before it stopped; a negative count repeats the error.
fn stopped(count: i64, errno: Errno) -> Stopped {
    Stopped { done: usize::try_from(count).unwrap_or(0), errno }
}

/// `USERFAULTFD_IOC_NEW` on the device.
struct NewDescriptor(UserfaultfdFlags);

// SAFETY: the argument is an integer, nothing in this process's memory changes, and the answer is a descriptor that
// no other code owns.
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
        assert_eq!(WAKE, 0x8010_aa02);
        assert_eq!(COPY, 0xc028_aa03);
        assert_eq!(MOVE, 0xc028_aa05);
        assert_eq!(PROTECT, 0xc018_aa06);
        assert_eq!(ZEROPAGE, 0xc020_aa04);
        assert_eq!(POISON, 0xc020_aa08);
        assert_eq!(NEW, 0xaa00);
    }
}
