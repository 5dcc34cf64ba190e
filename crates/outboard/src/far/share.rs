//! From one writer to many readers.

use outboard_driver::paging::PageProtection;
use outboard_wire::Rights;

use super::FarError;
use super::mapping::FarMapping;
use super::parts::part_name;

impl FarMapping {
    /// Ends writing: what was written is flushed, and from then on all who [open](super::FarMemory::open) the object by its name may read
    /// it, this process and others. It stays at its addresses, where stores raise SIGSEGV from now on; for many reads open it anew,
    /// since what is [protected](Self::protect) moves slower.
    ///
    /// Only an object with a name that was reserved can be shared. After an error it may not be shared, and may only be read.
    pub fn share(&mut self) -> Result<(), FarError> {
        let all = 0..self.len();
        self.unpin();
        self.protect(all, PageProtection::Read)?;
        self.flush()?;
        let (name, servers) = (self.name().to_owned(), self.servers());
        for number in 0..servers {
            let (memory, part) = (self.memory(), self.part_mut(number));
            let mut server = memory.shared.server(part.at)?;
            let name = part_name(&name, part.stripes);
            // That it can be found again is seen while it is still ours.
            let found = server.open(&name, Rights::READ)?;
            server.release(found)?;
            server.release(part.far.clone())?;
            part.far = server.open(&name, Rights::READ)?;
        }
        Ok(())
    }
}
