//! Programs as machine code, made with Cranelift, for x86-64 and aarch64.

mod access;
mod arithmetic;
mod calls;
mod code;
mod effort;
mod error;
mod fuel;
mod homes;
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

pub use effort::CompileEffort;
pub use error::CompileError;
pub(crate) use layout::Native;

use crate::analysis::Analysis;
use crate::executor::{Engine, Exit};
use crate::helper::HelperHost;
use crate::insn::{Insn, Size, Width};
use crate::instance::{CallFrame, Instance};
use crate::interpret::Interpreter;
use crate::memory::{CONTEXT, MemoryAccess};
use crate::near::approach;
use crate::program::{FunctionId, Program};
use crate::trap::{Trap, Why};
use code::{Checked, Miss, NativeFunction, Proven};
use layout::Outcome;
use plan::Plan;
use run::{Failure, Run};

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
    /// For functions that can be looked at for long.
    thorough: OwnedTargetIsa,
    /// For functions so long that this would take too long.
    quick: OwnedTargetIsa,
    architecture: Architecture,
    effort: CompileEffort,
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
        let thorough = target(architecture, "speed")?;
        let quick = target(architecture, "none")?;
        Ok(Compiler { thorough, quick, architecture, effort: CompileEffort::Full })
    }

    /// This compiler, but it spends no more than this on any function: for programs that run once or twice.
    /// Unless told otherwise, it spends everything on all but long ones.
    pub fn with_effort(self, effort: CompileEffort) -> Compiler {
        Compiler { effort, ..self }
    }

    /// The machine code of a program, which does not depend on where it is: with what is proven taken for granted,
    /// and with everything checked.
    pub fn machine_code(&self, program: &Program) -> Result<[Vec<u8>; 2], CompileError> {
        let analysis = Analysis::new(program);
        let proven = unit::compile(&Plan::proven(program, &analysis), self)?;
        let checked = unit::compile(&Plan::checked(program), self)?;
        Ok([proven.code, checked.code])
    }

    /// Compiles a program, to be run here. Code for runs in which what was proven need not hold is compiled by the first
    /// of them.
    pub fn compile(&self, program: Arc<Program>) -> Result<Compiled, CompileError> {
        self.compile_with(program, None)
    }

    /// Compiles a program, to be run by threads that have no time to compile. The first run in which what was proven need
    /// not hold calls `miss`; such runs are interpreted until another thread has called [`Compiled::complete`].
    pub fn compile_in_parts(
        &self,
        program: Arc<Program>,
        miss: impl Fn() + Send + Sync + 'static,
    ) -> Result<Compiled, CompileError> {
        self.compile_with(program, Some(Box::new(miss)))
    }

    fn compile_with(&self, program: Arc<Program>, miss: Option<Miss>) -> Result<Compiled, CompileError> {
        if self.architecture != Architecture::native() {
            return Err(CompileError::Architecture {
                architecture: self.architecture.triple().to_owned(),
                reason: "this is another processor".to_owned(),
            });
        }
        let checked = Checked::new(self.clone(), program.clone(), miss);
        let analysis = Analysis::new(&program);
        let proven = match Proven::new(self, &analysis, &program) {
            Ok(proven) if !proven.is_empty() => proven,
            Err(error) if !is_less_when_checked(&program, &analysis) => return Err(error),
            _ => {
                checked.compile()?;
                Proven::default()
            }
        };
        Ok(Compiled { interpreter: Interpreter::new(program), proven, checked })
    }

    /// How much work [`compile`](Self::compile) is, counted in steps, and not more than [`MAX_WORK`](Self::MAX_WORK) for
    /// either kind of code, whatever the program is. This translates the program, and compiles nothing.
    pub fn work(&self, program: &Program) -> Result<u64, CompileError> {
        let analysis = Analysis::new(program);
        let proven = match analysis.is_complete() {
            true => unit::work(&Plan::proven(program, &analysis), self),
            false => Ok(0),
        };
        match proven {
            Ok(work) if work > 0 => Ok(work),
            Err(error) if !is_less_when_checked(program, &analysis) => Err(error),
            _ => unit::work(&Plan::checked(program), self),
        }
    }

    /// How much work a program may be for the compiler. What would be more is refused.
    pub const MAX_WORK: u64 = effort::MAX_WORK;
}

/// What is too much at every depth may be possible for all depths at once, although more has to be checked.
fn is_less_when_checked(program: &Program, analysis: &Analysis) -> bool {
    analysis.bodies().count() > program.functions().len()
}

fn target(architecture: Architecture, effort: &str) -> Result<OwnedTargetIsa, CompileError> {
    let failed = |reason: String| CompileError::Architecture {
        architecture: architecture.triple().to_owned(),
        reason,
    };
    let mut flags = settings::builder();
    for (name, value) in [
        ("opt_level", effort),
        ("unwind_info", "false"),
        ("enable_probestack", "false"),
        ("enable_verifier", if cfg!(debug_assertions) { "true" } else { "false" }),
    ] {
        flags.set(name, value).map_err(|error| failed(error.to_string()))?;
    }
    let builder = isa::lookup_by_name(architecture.triple()).map_err(|error| failed(error.to_string()))?;
    builder.finish(settings::Flags::new(flags)).map_err(|error| failed(error.to_string()))
}

/// Runs a program as machine code.
#[derive(Debug)]
pub struct Compiled {
    proven: Proven,
    checked: Checked,
    /// For programs that are too much for the compiler, of which there should be none.
    interpreter: Interpreter,
}

impl Engine for Compiled {
    fn program(&self) -> &Arc<Program> {
        self.interpreter.program()
    }

    #[inline]
    fn start(
        &self,
        instance: &mut Instance,
        function: FunctionId,
        host: &mut dyn HelperHost,
        fuel: u64,
    ) -> Exit {
        let Some(code) = self.proven.start_quietly(function, instance, fuel) else {
            return self.start_usually(instance, function, host, fuel);
        };
        let length = instance.context().len() as u64;
        // SAFETY: the code was compiled from this program, which the instance is bound to, and what it takes for
        // granted was looked at; it calls no helper, and accesses the instance, which is borrowed here, with its context,
        // its stack and the program's constants.
        let Outcome { value, status } = unsafe { code(instance, CONTEXT, length, 0, 0, 0) };
        if status == layout::RETURNED {
            return Exit::Returned(value);
        }
        self.ended(instance, None, value, status)
    }

    #[inline]
    fn resume(&self, instance: &mut Instance, host: &mut dyn HelperHost, value: u64) -> Exit {
        match self.proven.resume_quickly(instance) {
            Some(code) => self.resume_quickly(instance, host, value, code),
            None => self.resume_usually(instance, host, value),
        }
    }
}

impl Compiled {
    /// Compiles what [`compile_in_parts`](Compiler::compile_in_parts) left out.
    pub fn complete(&self) {
        self.checked.complete();
    }

    /// Lets the processor begin to bring the code of a function into its caches, for a run that starts soon.
    #[inline]
    pub fn approach(&self, function: FunctionId) {
        self.proven.approach(function);
        approach(&**self.program());
    }

    /// Goes on with a run that has not called any other function of its program.
    #[inline]
    fn resume_quickly(
        &self,
        instance: &mut Instance,
        host: &mut dyn HelperHost,
        value: u64,
        code: NativeFunction,
    ) -> Exit {
        let CallFrame { index, .. } = instance.frames[0];
        if let Err(why) = instance.end_suspension(self.program(), value) {
            return Exit::Trapped(Trap { index, why });
        }
        instance.memory.set_frames(1);
        instance.native.resume = index + 1;
        self.enter(instance, host, code, [value, 0])
    }

    #[inline(never)]
    fn resume_usually(&self, instance: &mut Instance, host: &mut dyn HelperHost, value: u64) -> Exit {
        let CallFrame { index, .. } = instance.frames[instance.depth as usize];
        let is_proven = self.proven.is_met_by(instance);
        if !is_proven && self.checked.code().is_none() {
            return self.interpreter.resume(instance, host, value);
        }
        if let Err(why) = instance.end_suspension(self.program(), value) {
            return Exit::Trapped(Trap { index, why });
        }
        if is_proven {
            // From here on it is as good as any other.
            instance.is_foreign = false;
        }
        self.go_on(instance, host, value, is_proven)
    }

    /// Starts whatever there is.
    #[inline(never)]
    fn start_usually(
        &self,
        instance: &mut Instance,
        function: FunctionId,
        host: &mut dyn HelperHost,
        fuel: u64,
    ) -> Exit {
        match self.proven.start(function, instance, fuel) {
            Some(entry) => self.begin(instance, function, host, fuel, entry.code),
            None => self.start_checked(instance, function, host, fuel),
        }
    }

    #[cold]
    fn start_checked(
        &self,
        instance: &mut Instance,
        function: FunctionId,
        host: &mut dyn HelperHost,
        fuel: u64,
    ) -> Exit {
        match self.checked.code() {
            Some(code) => self.begin(instance, function, host, fuel, code.function(function.index())),
            None => self.interpreter.start(instance, function, host, fuel),
        }
    }

    #[inline]
    fn begin(
        &self,
        instance: &mut Instance,
        function: FunctionId,
        host: &mut dyn HelperHost,
        fuel: u64,
        code: NativeFunction,
    ) -> Exit {
        instance.begin(self.program(), function, fuel);
        instance.memory.set_frames(1);
        instance.native.resume = 0;
        let length = instance.context().len() as u64;
        self.enter(instance, host, code, [CONTEXT, length])
    }

    /// Enters the functions that wait for each other, the innermost first.
    fn go_on(&self, instance: &mut Instance, host: &mut dyn HelperHost, value: u64, is_proven: bool) -> Exit {
        let mut value = value;
        for depth in (0..=instance.depth).rev() {
            let CallFrame { index, .. } = instance.frames[depth as usize];
            // Frames are well-formed, so that there is a function for every one.
            let function = self.program().function_at(index);
            let code = match (function, self.checked.code()) {
                (Some(function), _) if is_proven => self.proven.function(function, depth),
                (Some(function), Some(code)) => Some(code.function(function.index())),
                _ => None,
            };
            let Some(code) = code else { return Exit::Trapped(Trap { index, why: Why::Undeclared }) };
            instance.depth = depth;
            instance.memory.set_frames(depth as usize + 1);
            instance.native.resume = index + 1;
            match self.enter(instance, host, code, [value, 0]) {
                Exit::Returned(returned) => value = returned,
                other => return other,
            }
        }
        Exit::Returned(value)
    }

    /// Calls compiled code, and tells how that ended.
    #[inline]
    fn enter(
        &self,
        instance: &mut Instance,
        host: &mut dyn HelperHost,
        code: NativeFunction,
        [r1, r2]: [u64; 2],
    ) -> Exit {
        let mut run = Run { program: self.program(), host, failure: None };
        instance.native.run = (&raw mut run).expose_provenance();
        // SAFETY: the code was compiled from this program, which the instance is bound to, and what it takes for
        // granted was looked at; it accesses the instance, which is borrowed here, what the instance's table of areas
        // tells, and `run` by way of `call_host`.
        let Outcome { value, status } = unsafe { code(instance, r1, r2, 0, 0, 0) };
        match status {
            layout::RETURNED => Exit::Returned(value),
            layout::SUSPENDED => {
                instance.suspend();
                Exit::Suspended
            }
            _ => self.ended(instance, run.failure.take(), value, status),
        }
    }

    #[cold]
    #[inline(never)]
    fn ended(&self, instance: &Instance, failure: Option<Failure>, value: u64, status: u64) -> Exit {
        let index = (status >> layout::INDEX_SHIFT) as u32;
        let why = match (status & ((1 << layout::INDEX_SHIFT) - 1), failure) {
            (_, Some(Failure::Panic(panic))) => resume_unwind(panic),
            (_, Some(Failure::Trap(why))) => why,
            (layout::OUT_OF_FUEL, None) => Why::OutOfFuel,
            (layout::TOO_DEEP, None) => Why::TooDeep,
            (_, None) => {
                let (length, access) = access_of(&self.program().code()[index as usize]);
                Why::Memory(instance.memory.fault(value, length, access))
            }
        };
        Exit::Trapped(Trap { index, why })
    }
}

/// What an instruction does to memory.
fn access_of(insn: &Insn) -> (u64, MemoryAccess) {
    match insn {
        Insn::Load { size, .. } => (size.bytes().into(), MemoryAccess::Read),
        Insn::Store { size, .. } => (size.bytes().into(), MemoryAccess::Write),
        Insn::Atomic { width: Width::W32, .. } => (Size::Word.bytes().into(), MemoryAccess::Write),
        _ => (Size::Double.bytes().into(), MemoryAccess::Write),
    }
}
