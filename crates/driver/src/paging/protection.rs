//! The protection of ranges of far memory: rights of the kernel, as of any memory.

use std::fmt;
use std::io;

use outboard_paging::application::{PagedRegion, Span};
use rustix::mm::MprotectFlags;

use super::copying::set_rights;
use super::space::Space;

/// The protection of a range of far memory. A forbidden access raises SIGSEGV where it is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PageProtection {
    /// Nothing. Its bytes are kept.
    None,
    /// It is read.
    Read,
    /// It is read and written.
    ReadWrite,
    /// It is read and run as code.
    ReadExecute,
    /// It is read, written and run as code.
    ReadWriteExecute,
}

impl PageProtection {
    /// Whether it may be read.
    pub fn can_read(self) -> bool {
        self != Self::None
    }

    /// Whether it may be written.
    pub fn can_write(self) -> bool {
        matches!(self, Self::ReadWrite | Self::ReadWriteExecute)
    }

    fn flags(self) -> MprotectFlags {
        match self {
            Self::None => MprotectFlags::empty(),
            Self::Read => MprotectFlags::READ,
            Self::ReadWrite => MprotectFlags::READ | MprotectFlags::WRITE,
            Self::ReadExecute => MprotectFlags::READ | MprotectFlags::EXEC,
            Self::ReadWriteExecute => MprotectFlags::READ | MprotectFlags::WRITE | MprotectFlags::EXEC,
        }
    }
}

impl fmt::Display for PageProtection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "not to be accessed",
            Self::Read => "read-only",
            Self::ReadWrite => "readable and writable",
            Self::ReadExecute => "readable and executable",
            Self::ReadWriteExecute => "readable, writable and executable",
        })
    }
}

impl Space {
    /// Changes what may be done to whole pages of an object, by their addresses. Chunks that can be moved no longer with these
    /// rights are copied from now on. An object that was unmapped has none.
    ///
    /// # Panics
    /// If they are not the object's.
    pub fn set_protection(
        &self,
        region: &PagedRegion,
        addresses: Span,
        protection: PageProtection,
    ) -> io::Result<()> {
        let all = region.addresses();
        let is_inside = all.start <= addresses.start && addresses.end() <= all.end();
        assert!(is_inside, "{addresses:?} is not in {all:?}");
        if addresses.len == 0 {
            return Ok(());
        }
        let Some(_mapped) = region.range() else { return Err(io::ErrorKind::NotFound.into()) };
        // To the kernel a region that may only be read is one whose stores wait: so its chunks can be moved.
        let flags = match protection {
            PageProtection::Read if !region.spec().writable => PageProtection::ReadWrite.flags(),
            protection => protection.flags(),
        };
        // SAFETY: far memory is made of mappings of a space, and this one stays as long as `_mapped`.
        unsafe { set_rights(addresses.start.get(), addresses.len, flags)? };
        Ok(())
    }
}
