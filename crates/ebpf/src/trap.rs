//! Why a run ended without a result.

use crate::memory::MemoryFault;

/// The end of a run that did something it must not, or was not allowed to go on. Both executors give the same
/// trap for the same program and input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[error("instruction {index}: {why}")]
pub struct Trap {
    /// The instruction, counted in slots from the program's beginning.
    pub index: u32,
    /// What was wrong.
    pub why: Why,
}

/// What was wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Why {
    /// The basic block that begins there costs more than the run has left.
    #[error("out of fuel")]
    OutOfFuel,
    /// A load, store or atomic operation on memory that is not the program's.
    #[error(transparent)]
    Memory(#[from] MemoryFault),
    /// A call of a local function from the innermost frame there can be.
    #[error("functions call each other deeper than {} frames", crate::memory::MAX_FRAMES)]
    TooDeep,
    /// A helper refused to go on.
    #[error("the helper ended the run with code {code}")]
    Helper {
        /// Its reason.
        code: u32,
    },
    /// A helper gave an answer that its declaration does not allow.
    #[error("the helper answered what it is not declared to answer")]
    Undeclared,
}
