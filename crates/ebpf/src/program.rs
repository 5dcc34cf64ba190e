//! A program that was checked for everything that can never be right, and is ready to be run.

mod verify;

use sha2::{Digest, Sha256};

use crate::helper::Helpers;
use crate::insn::{Insn, InsnDecodeError, decode, encode};

/// How many slots of eight bytes a program can have.
pub const MAX_SLOTS: usize = 1 << 16;
/// How many bytes of constants, and of variables, a program can have.
pub const MAX_DATA: usize = 1 << 20;

/// The name of a program everywhere: SHA-256 of its code, entry points and data.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ProgramHash(pub [u8; 32]);

impl std::fmt::Display for ProgramHash {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

impl std::fmt::Debug for ProgramHash {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{self}")
    }
}

/// What a program is made of, before it is checked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Parts {
    /// One entry per slot.
    pub code: Vec<Insn>,
    /// Names and first slots of functions that can be started from outside.
    pub entries: Vec<(String, u32)>,
    /// Names of functions that are only called by others, if they have one.
    pub locals: Vec<(String, u32)>,
    /// Constants, at [`RODATA`](crate::memory::RODATA).
    pub rodata: Vec<u8>,
    /// Variables as every run finds them, at [`DATA`](crate::memory::DATA).
    pub data: Vec<u8>,
}

impl Parts {
    /// A program of bytes alone, that starts with its first instruction under the name `main`.
    pub fn from_bytes(bytes: &[u8]) -> Result<Parts, InsnDecodeError> {
        Ok(Parts { code: decode(bytes)?, entries: vec![("main".to_owned(), 0)], ..Parts::default() })
    }
}

/// Whether a function can have this name: letters, digits, `_`, `.` and `$`, and no digit first.
pub fn is_name(name: &str) -> bool {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '.' | '$');
    name.starts_with(|first: char| plain(first) && !first.is_ascii_digit()) && name.chars().all(plain)
}

/// One function: the slots from `start` to before `end`. Every slot belongs to exactly one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// What it is called; `function_N` with its first slot, if the object gives no name.
    pub name: String,
    /// Its first slot, where it begins.
    pub start: u32,
    /// The slot behind its last one.
    pub end: u32,
    /// Whether it can be started from outside.
    pub is_entry: bool,
    /// Whether it, or what it calls, calls a helper that may suspend the run.
    pub may_suspend: bool,
}

impl Function {
    /// How many slots it has.
    pub fn slots(&self) -> usize {
        (self.end - self.start) as usize
    }
}

/// Which function of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FunctionId(pub(crate) u32);

impl FunctionId {
    /// Its place in [`Program::functions`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Something that can never be right.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    /// Not even one instruction.
    #[error("the program is empty")]
    Empty,
    /// More than the engine takes.
    #[error("the program has {slots} instructions, more than {MAX_SLOTS}")]
    TooLong {
        /// How many slots.
        slots: usize,
    },
    /// More than the engine takes.
    #[error("the program has {length} bytes of {what}, more than {MAX_DATA}")]
    TooMuchData {
        /// Constants or variables.
        what: &'static str,
        /// How many bytes.
        length: usize,
    },
    /// Code that is not as [`decode`] makes it.
    #[error("instruction {index}: half of a 64-bit immediate")]
    Half {
        /// The slot.
        index: u32,
    },
    /// A function that begins nowhere.
    #[error("function `{name}` begins at {start}, where no instruction begins")]
    Function {
        /// Its name.
        name: String,
        /// The slot.
        start: u32,
    },
    /// Two functions with one name, two names for one function, or a name that is none.
    #[error("`{name}` is no name for a function, or given twice, or given to a function that has another")]
    Name {
        /// The name.
        name: String,
    },
    /// A jump into another function, out of the program, or into the middle of an instruction.
    #[error("instruction {index}: jumps to {target}, which is not an instruction of the same function")]
    Jump {
        /// The slot.
        index: u32,
        /// Where to.
        target: u32,
    },
    /// The last instruction of a function is neither a jump nor an exit.
    #[error("instruction {index}: the function `{name}` goes on behind its end")]
    FallsOff {
        /// The slot.
        index: u32,
        /// The function.
        name: String,
    },
    /// The frame pointer is not for programs to change.
    #[error("instruction {index}: writes r10")]
    WritesFramePointer {
        /// The slot.
        index: u32,
    },
    /// The site has no such helper.
    #[error("instruction {index}: calls helper {id}, which is unknown here")]
    UnknownHelper {
        /// The slot.
        index: u32,
        /// The helper.
        id: u32,
    },
    /// A function whose variables would have to travel.
    #[error(
        "instruction {index}: takes the address of a variable, but `{name}` can be suspended; \
         functions that can be suspended have constants, a context and a stack, but no variables"
    )]
    Variable {
        /// The slot.
        index: u32,
        /// The function.
        name: String,
    },
}

impl ProgramError {
    /// The instruction that is wrong, if it is one.
    pub fn index(&self) -> Option<u32> {
        match *self {
            ProgramError::Half { index }
            | ProgramError::Jump { index, .. }
            | ProgramError::FallsOff { index, .. }
            | ProgramError::WritesFramePointer { index }
            | ProgramError::UnknownHelper { index, .. }
            | ProgramError::Variable { index, .. } => Some(index),
            ProgramError::Function { start, .. } => Some(start),
            ProgramError::Empty
            | ProgramError::TooLong { .. }
            | ProgramError::TooMuchData { .. }
            | ProgramError::Name { .. } => None,
        }
    }
}

/// A program: what exists of this type is well-formed, see [`ProgramError`].
#[derive(Debug)]
pub struct Program {
    code: Box<[Insn]>,
    block_costs: Box<[u32]>,
    functions: Box<[Function]>,
    rodata: Box<[u8]>,
    data: Box<[u8]>,
    helpers: Helpers,
    hash: ProgramHash,
}

impl Program {
    /// Checks `parts`, which call helpers from this table.
    pub fn new(parts: Parts, helpers: Helpers) -> Result<Program, ProgramError> {
        let functions = verify::verify(&parts, &helpers)?;
        let hash = hash(&parts);
        let block_costs = verify::block_costs(&parts.code, &functions);
        Ok(Program {
            code: parts.code.into(),
            block_costs,
            functions,
            rodata: parts.rodata.into(),
            data: parts.data.into(),
            helpers,
            hash,
        })
    }

    /// Its instructions, one entry per slot. Targets are instructions of the same function, calls go to first
    /// slots of functions, and the last instruction of a function does not fall through.
    pub fn code(&self) -> &[Insn] {
        &self.code
    }

    /// What is charged when the basic block that begins at this slot is entered: the number of its slots. Zero
    /// where no block begins.
    ///
    /// Blocks begin at functions' first slots, at targets, and behind jumps, branches, calls and exits.
    pub fn block_cost(&self, index: u32) -> u32 {
        self.block_costs[index as usize]
    }

    /// Its functions, by their first slot.
    pub fn functions(&self) -> &[Function] {
        &self.functions
    }

    /// The function with this name, if it can be started from outside.
    pub fn entry(&self, name: &str) -> Option<FunctionId> {
        let found = self.functions.iter().position(|function| function.is_entry && function.name == name);
        found.map(|index| FunctionId(index as u32))
    }

    /// The function that this slot belongs to.
    pub fn function_at(&self, index: u32) -> Option<FunctionId> {
        let found = self.functions.partition_point(|function| function.end <= index);
        (found < self.functions.len()).then_some(FunctionId(found as u32))
    }

    /// One of its functions.
    pub fn function(&self, id: FunctionId) -> &Function {
        &self.functions[id.index()]
    }

    /// Its constants.
    pub fn rodata(&self) -> &[u8] {
        &self.rodata
    }

    /// Its variables, as every run finds them.
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// The helpers it was checked against.
    pub fn helpers(&self) -> &Helpers {
        &self.helpers
    }

    /// Its name everywhere.
    pub fn hash(&self) -> ProgramHash {
        self.hash
    }
}

/// Every part goes in behind its length, so that no part can pass for the end of another.
fn hash(parts: &Parts) -> ProgramHash {
    let mut hasher = Sha256::new();
    let mut part = |bytes: &[u8]| {
        hasher.update((bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    };
    part(b"outboard eBPF program, version 1");
    part(&encode(&parts.code));
    part(&parts.rodata);
    part(&parts.data);
    let mut entries: Vec<_> = parts.entries.iter().collect();
    entries.sort();
    for (name, start) in entries {
        part(name.as_bytes());
        part(&start.to_le_bytes());
    }
    ProgramHash(hasher.finalize().into())
}

#[cfg(test)]
mod tests;
