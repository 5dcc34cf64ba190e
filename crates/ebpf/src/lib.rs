//! An eBPF engine whose functions travel: it loads programs, interprets or compiles them, suspends them at a
//! helper call and resumes them elsewhere. It knows nothing of kernels, maps or packets.
//!
//! # What a program can rely on
//!
//! * The instruction set is RFC 9669: base32, base64, divmul32, divmul64, atomic32 and atomic64. Sites are
//!   little-endian.
//! * A function that is started finds the address of its context in r1, the context's length in r2, the end of
//!   its stack frame in r10, and zero everywhere else. A function that is called by another finds its arguments
//!   in r1 to r5, the end of its own frame in r10, and zero everywhere else. Stack frames begin with zeros.
//! * After a call, of a helper or of a function, r0 has the answer and r1 to r5 are zero.
//! * It sees the [areas](memory) of its memory and nothing else. What helpers [grant](HelperMemory::grant) stays
//!   until the same slot is granted anew. Alignment does not matter. Memory is private to the run, so atomic
//!   operations are whole by nature.
//! * Every run finds its variables as they were loaded. A function that may suspend has no variables at all.
//!
//! # What the host can rely on
//!
//! * [`Program::new`] refuses what can never be right. Everything else runs, and either returns, is suspended, or
//!   [traps](Trap): at the same instruction, for the same reason, with the same fuel left, whichever executor runs
//!   it.
//! * Fuel is charged when a basic block is entered: as much as the block has slots, see [`Program::block_cost`].
//!   Where that is more than what is left, the run traps at the first slot of the block and nothing is charged.
//!   A run that resumes enters the block behind the call, and pays for it then.
//! * A load, store or atomic operation that is not allowed changes nothing.
//! * Helpers are held to their declarations, see [`helper`].
//!
//! # For those who write executors
//!
//! What the analysis proves must hold in every state a run can reach by itself. A state that came from
//! elsewhere ([`InstanceState::Restored`]) has well-formed frames, but whatever registers, stack and buffers it likes. A frame
//! has to be zeroed when its function is entered unless no run can tell: a program can make up the address of any
//! byte of its stack, so that only a program all of whose accesses are proven may leave that out. What is not
//! zeroed must not travel, see [`CallFrame::unused`](instance::CallFrame::unused).

#![deny(missing_docs)]

pub mod analysis;
pub mod compile;
pub mod continuation;
pub mod elf;
pub mod executor;
pub mod helper;
pub mod insn;
pub mod instance;
pub mod interpret;
pub mod memory;
mod near;
pub mod program;
pub mod text;
pub mod trap;

pub use analysis::Analysis;
pub use compile::{Architecture, CompileEffort, CompileError, Compiled, Compiler};
pub use continuation::{Continuation, ContinuationError, RestoreError};
pub use executor::{Engine, Exit, Pending};
pub use helper::{
    Argument, Helper, HelperAnswer, HelperHost, HelperMemory, Helpers, NoHost, Quantity, Returns,
};
pub use insn::Insn;
pub use instance::{Instance, InstanceState};
pub use interpret::Interpreter;
pub use memory::{MemoryFault, ProgramLimits};
pub use near::approach;
pub use program::{Function, FunctionId, Parts, Program, ProgramError, ProgramHash};
pub use trap::{Trap, Why};

/// The examples of the guide are tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/ebpf.md")]
struct Guide;
