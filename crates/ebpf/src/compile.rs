//! Programs as machine code, made with Cranelift, for x86-64 and aarch64.

mod access;
mod arithmetic;
mod calls;
mod layout;
mod pages;
mod plan;
mod run;
#[cfg(test)]
mod tests;
mod translate;
mod unit;

use std::panic::resume_unwind;
use std::sync::Arc;

use cranelift_codegen::isa::{self, OwnedTargetIsa};
use cranelift_codegen::settings::{self, Configurable};

pub(crate) use layout::Native;

use crate::executor::{Executor, Exit};
use crate::helper::Host;
use crate::insn::{Insn, Size, Width};
use crate::instance::{Frame, Instance, State};
use crate::memory::{Access, CONTEXT};
use crate::program::{FunctionId, Program};
use crate::trap::{Trap, Why};
use layout::Outcome;
use pages::Pages;
use plan::Plan;
use run::{Failure, Run};
use unit::Unit;

/// Why a program could not be compiled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// There is no back end for this machine.
    #[error("no code can be made for {architecture}: {reason}")]
    Architecture {
        /// What was wanted.
        architecture: String,
        /// What is missing.
        reason: String,
    },
    /// Cranelift gave up.
    #[error("function `{name}`: {reason}")]
    Function {
        /// The function.
        name: String,
        /// What it said.
        reason: String,
    },
    /// A function that would need too much of the native stack.
    #[error("function `{name}` would need {bytes} bytes of native stack")]
    NativeFrame {
        /// The function.
        name: String,
        /// How many.
        bytes: u32,
    },
    /// Code whose parts are too far from each other.
    #[error("the code is too long")]
    TooLong,
    /// The kernel gave no pages for the code.
    #[error("no pages for the code: {0}")]
    Pages(#[from] rustix::io::Errno),
}

/// A kind of processor that code can be made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Architecture {
    /// x86-64, with System V's calling convention.
    X86_64,
    /// aarch64, little-endian.
    Aarch64,
}

impl Architecture {
    /// The one that this process runs on.
    pub const fn native() -> Architecture {
        if cfg!(target_arch = "aarch64") { Architecture::Aarch64 } else { Architecture::X86_64 }
    }

    fn triple(self) -> &'static str {
        match self {
            Architecture::X86_64 => "x86_64-unknown-linux-gnu",
            Architecture::Aarch64 => "aarch64-unknown-linux-gnu",
        }
    }
}

/// Makes machine code of programs. One is enough for all programs, and it can be shared.
#[derive(Clone)]
pub struct Compiler {
    isa: OwnedTargetIsa,
    architecture: Architecture,
}

impl std::fmt::Debug for Compiler {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Compiler").field("architecture", &self.architecture).finish_non_exhaustive()
    }
}

impl Compiler {
    /// A compiler for the processor that this process runs on.
    pub fn native() -> Result<Compiler, CompileError> {
        Compiler::new(Architecture::native())
    }

    /// A compiler for any processor; what it makes for another than this can be looked at, but not run.
    pub fn new(architecture: Architecture) -> Result<Compiler, CompileError> {
        let failed = |reason: String| CompileError::Architecture {
            architecture: architecture.triple().to_owned(),
            reason,
        };
        let mut flags = settings::builder();
        for (name, value) in [
            ("opt_level", "speed"),
            ("unwind_info", "false"),
            ("enable_probestack", "false"),
            ("enable_verifier", if cfg!(debug_assertions) { "true" } else { "false" }),
        ] {
            flags.set(name, value).map_err(|error| failed(error.to_string()))?;
        }
        let builder =
            isa::lookup_by_name(architecture.triple()).map_err(|error| failed(error.to_string()))?;
        let isa = builder.finish(settings::Flags::new(flags)).map_err(|error| failed(error.to_string()))?;
        Ok(Compiler { isa, architecture })
    }

    /// The machine code of a program, which does not depend on where it is.
    pub fn machine_code(&self, program: &Program) -> Result<Vec<u8>, CompileError> {
        Ok(unit::compile(&Plan::checked(program), &self.isa)?.code)
    }

    /// Compiles a program, to be run here.
    pub fn compile(&self, program: Arc<Program>) -> Result<Compiled, CompileError> {
        if self.architecture != Architecture::native() {
            return Err(CompileError::Architecture {
                architecture: self.architecture.triple().to_owned(),
                reason: "this is another processor".to_owned(),
            });
        }
        let unit = unit::compile(&Plan::checked(&program), &self.isa)?;
        let checked = Code::new(&unit)?;
        Ok(Compiled { program, checked })
    }
}

/// Functions that can be called.
#[derive(Debug)]
struct Code {
    pages: Pages,
    starts: Box<[u32]>,
}

type NativeFunction = unsafe extern "C" fn(*mut Instance, u64, u64, u64, u64, u64) -> Outcome;

impl Code {
    fn new(unit: &Unit) -> Result<Code, CompileError> {
        Ok(Code { pages: Pages::new(&unit.code)?, starts: unit.starts.as_slice().into() })
    }

    fn function(&self, body: usize) -> NativeFunction {
        // SAFETY: at this address is the code of a function that was compiled with this signature.
        unsafe { std::mem::transmute::<*const u8, NativeFunction>(self.pages.at(self.starts[body])) }
    }
}

/// Runs a program as machine code.
#[derive(Debug)]
pub struct Compiled {
    program: Arc<Program>,
    checked: Code,
}

impl Executor for Compiled {
    fn program(&self) -> &Arc<Program> {
        &self.program
    }

    fn start(&self, instance: &mut Instance, function: FunctionId, host: &mut dyn Host, fuel: u64) -> Exit {
        instance.begin(&self.program, function, fuel);
        instance.memory.set_frames(1);
        instance.native.resume = 0;
        let length = instance.context().len() as u64;
        let code = self.checked.function(function.index());
        self.enter(instance, host, code, [CONTEXT, length])
    }

    fn resume(&self, instance: &mut Instance, host: &mut dyn Host, value: u64) -> Exit {
        let mut value = value;
        let innermost = instance.depth as usize;
        let Frame { index, .. } = instance.frames[innermost];
        if let Err(why) = instance.end_suspension(&self.program, value) {
            return Exit::Trapped(Trap { index, why });
        }
        for depth in (0..=innermost).rev() {
            let Frame { index, .. } = instance.frames[depth];
            instance.depth = depth as u32;
            instance.memory.set_frames(depth + 1);
            instance.native.resume = index + 1;
            // Frames are well-formed, so that there is a function for every one.
            let Some(function) = self.program.function_at(index) else {
                return Exit::Trapped(Trap { index, why: Why::Undeclared });
            };
            let code = self.checked.function(function.index());
            match self.enter(instance, host, code, [value, 0]) {
                Exit::Returned(returned) => value = returned,
                other => return other,
            }
        }
        Exit::Returned(value)
    }
}

impl Compiled {
    /// Calls compiled code, and tells how that ended.
    #[inline]
    fn enter(
        &self,
        instance: &mut Instance,
        host: &mut dyn Host,
        code: NativeFunction,
        [r1, r2]: [u64; 2],
    ) -> Exit {
        let mut run = Run { program: &self.program, host, failure: None };
        let run_address = (&raw mut run).expose_provenance();
        instance.native.run = run_address;
        // SAFETY: the code was compiled from this program, which the instance is bound to; it accesses the instance,
        // which is borrowed here, what the instance's table of areas tells, and `run` by way of `call_host`.
        let Outcome { value, status } = unsafe { code(instance, r1, r2, 0, 0, 0) };
        match status {
            layout::RETURNED => Exit::Returned(value),
            layout::SUSPENDED => {
                instance.state = State::Suspended;
                Exit::Suspended
            }
            _ => self.ended(instance, run.failure.take(), value, status),
        }
    }

    #[cold]
    fn ended(&self, instance: &Instance, failure: Option<Failure>, value: u64, status: u64) -> Exit {
        let index = (status >> layout::INDEX_SHIFT) as u32;
        let why = match (status & ((1 << layout::INDEX_SHIFT) - 1), failure) {
            (_, Some(Failure::Panic(panic))) => resume_unwind(panic),
            (_, Some(Failure::Trap(why))) => why,
            (layout::OUT_OF_FUEL, None) => Why::OutOfFuel,
            (layout::TOO_DEEP, None) => Why::TooDeep,
            (_, None) => {
                let (length, access) = access_of(&self.program.code()[index as usize]);
                Why::Memory(instance.memory.fault(value, length, access))
            }
        };
        Exit::Trapped(Trap { index, why })
    }
}

/// What an instruction does to memory.
fn access_of(insn: &Insn) -> (u64, Access) {
    match insn {
        Insn::Load { size, .. } => (size.bytes().into(), Access::Read),
        Insn::Store { size, .. } => (size.bytes().into(), Access::Write),
        Insn::Atomic { width: Width::W32, .. } => (Size::Word.bytes().into(), Access::Write),
        _ => (Size::Double.bytes().into(), Access::Write),
    }
}
