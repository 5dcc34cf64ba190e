//! How much time compiling may take.

/// How much time is spent on a function, and so how fast its code is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CompileEffort {
    /// Registers of the program stay in memory.
    Little,
    /// No more than to find registers.
    Half,
    /// Everything that Cranelift can do.
    Full,
}

/// How much work a program may be for the compiler, see [`CompileEffort::work`]: some seconds' worth. Cranelift itself gives up
/// at about twice as much, after as many seconds.
pub(super) const MAX_WORK: u64 = 1 << 20;
/// More than this is not spent on a function at once, if less effort will do.
pub(super) const MAX_WORK_WITH_EFFORT: u64 = MAX_WORK / 32;
/// What every function costs, however short it is.
const WORK_PER_FUNCTION: u64 = 64;

impl CompileEffort {
    /// For a function of so many slots, in a program of so many in all. What is spent grows faster than functions
    /// do, so that long ones get less.
    pub(super) fn for_slots(function: usize, program: usize) -> CompileEffort {
        match (function, program) {
            (..=256, ..=4096) => CompileEffort::Full,
            (..=1024, ..=16384) => CompileEffort::Half,
            _ => CompileEffort::Little,
        }
    }

    /// How much work a function is for Cranelift, which grows with the instructions that it is given. What it finds out
    /// about them with more effort takes several times as long.
    pub(super) fn work(self, instructions: usize) -> u64 {
        let each = match self {
            CompileEffort::Little => 1,
            CompileEffort::Half => 4,
            CompileEffort::Full => 8,
        };
        WORK_PER_FUNCTION + each * instructions as u64
    }
}

/// How much a translation may be, and how it is made.
#[derive(Clone, Copy)]
pub(super) struct Limit {
    /// How much work it may be to compile it.
    pub(super) work: u64,
    /// With how much effort it will be compiled.
    pub(super) effort: CompileEffort,
}
