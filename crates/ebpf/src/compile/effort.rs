//! How much time compiling may take.

/// How much time is spent on a function, and so how fast its code is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Effort {
    /// Registers of the program stay in memory.
    Little,
    /// No more than to find registers.
    Half,
    /// Everything that Cranelift can do.
    Full,
}

impl Effort {
    /// For a function of so many slots, in a program of so many in all. What is spent grows faster than functions
    /// do, so that long ones get less.
    pub(super) fn for_slots(function: u32, program: usize) -> Effort {
        match (function, program) {
            (..=256, ..=4096) => Effort::Full,
            (..=1024, ..=16384) => Effort::Half,
            _ => Effort::Little,
        }
    }
}
