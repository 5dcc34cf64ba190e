//! The measured functions in this project's engine.

use std::sync::Arc;

use outboard_ebpf::elf::load;
use outboard_ebpf::insn::encode;
use outboard_ebpf::text::assemble;
use outboard_ebpf::{
    Argument, Compiled, Compiler, Continuation, Engine, Exit, FunctionId, Helper, HelperAnswer, HelperHost,
    HelperMemory, Helpers, Instance, Interpreter, NoHost, Program, Returns,
};

use crate::BenchError;

/// More than anything here needs.
const FUEL: u64 = 1 << 40;

fn failed(what: impl std::fmt::Display) -> BenchError {
    BenchError::Function { why: what.to_string() }
}

/// A function and what it needs to be called.
pub(super) struct Function<E> {
    executor: E,
    instance: Instance,
    entry: FunctionId,
}

/// The program that this text is.
pub(super) fn program_of_text(text: &str) -> Result<Arc<Program>, BenchError> {
    let helpers = Helpers::default();
    let parts = assemble(text, &helpers).map_err(failed)?;
    Ok(Arc::new(Program::new(parts, helpers).map_err(failed)?))
}

/// The program that this object is.
pub(super) fn program_of_object(object: &[u8]) -> Result<Arc<Program>, BenchError> {
    Ok(Arc::new(load(object, &Helpers::default()).map_err(failed)?))
}

/// For the processor that this runs on.
pub(super) fn compiler() -> Result<Compiler, BenchError> {
    Compiler::native().map_err(failed)
}

impl Function<Interpreter> {
    pub(super) fn interpreted(program: Arc<Program>, context: &[u8]) -> Result<Self, BenchError> {
        Self::new(Interpreter::new(program), context)
    }
}

impl Function<Compiled> {
    pub(super) fn compiled(program: Arc<Program>, context: &[u8]) -> Result<Self, BenchError> {
        Self::new(compiler()?.compile(program).map_err(failed)?, context)
    }
}

impl<E: Engine> Function<E> {
    /// The first function of a program.
    fn new(executor: E, context: &[u8]) -> Result<Self, BenchError> {
        let program = executor.program();
        let entry = program.entry(&program.functions()[0].name);
        let entry = entry.ok_or_else(|| failed("the first function is no entry point"))?;
        let mut instance = Instance::default();
        instance.set_context(context).map_err(failed)?;
        Ok(Function { executor, instance, entry })
    }

    #[inline]
    pub(super) fn call(&mut self) -> Exit {
        self.executor.start(&mut self.instance, self.entry, &mut NoHost, FUEL)
    }

    /// A figure of a function that does something else would be a lie.
    pub(super) fn must_return(&mut self, expected: u64) -> Result<(), BenchError> {
        match self.call() {
            Exit::Returned(found) if found == expected => Ok(()),
            exit => Err(failed(format!("it should return {expected:#x}, but: {exit:?}"))),
        }
    }

    pub(super) fn bytecode(&self) -> Vec<u8> {
        encode(self.executor.program().code())
    }
}

/// A helper that answers at once, or later.
struct Site {
    answers: bool,
}

impl HelperHost for Site {
    fn call(&mut self, _: &Helper, _: &[u64; 5], _: &mut HelperMemory<'_>) -> HelperAnswer {
        if self.answers { HelperAnswer::Value(7) } else { HelperAnswer::Pending }
    }
}

/// A function that calls a helper, and keeps something on its stack and in a register meanwhile.
pub(super) struct Waiting {
    compiled: Compiled,
    here: Instance,
    there: Instance,
    entry: FunctionId,
    bytes: Vec<u8>,
}

const WAITING: &str = "
    .entry main
        mov r6, r2
        stxdw [r10-8], r1
        mov r1, 3
        call wait
        ldxdw r1, [r10-8]
        ldxdw r1, [r1]
        add r0, r6
        add r0, r1
        exit";

impl Waiting {
    pub(super) fn new() -> Result<Waiting, BenchError> {
        let wait = Helper {
            id: 1,
            name: "wait".to_owned(),
            arguments: vec![Argument::Scalar],
            returns: Returns::Scalar,
            may_suspend: true,
        };
        let helpers = Helpers::new(vec![wait]).map_err(failed)?;
        let parts = assemble(WAITING, &helpers).map_err(failed)?;
        let program = Arc::new(Program::new(parts, helpers).map_err(failed)?);
        let entry = program.entry("main").ok_or_else(|| failed("no main"))?;
        let compiled = compiler()?.compile(program).map_err(failed)?;
        let [mut here, there] = [Instance::default(), Instance::default()];
        here.set_context(&[5; 64]).map_err(failed)?;
        Ok(Waiting { compiled, here, there, entry, bytes: Vec::new() })
    }

    #[inline]
    pub(super) fn answered_at_once(&mut self) {
        let exit = self.compiled.start(&mut self.here, self.entry, &mut Site { answers: true }, FUEL);
        std::hint::black_box(exit);
    }

    #[inline]
    pub(super) fn suspend_and_resume(&mut self) {
        let mut site = Site { answers: false };
        if self.compiled.start(&mut self.here, self.entry, &mut site, FUEL) == Exit::Suspended {
            std::hint::black_box(self.compiled.resume(&mut self.here, &mut site, 7));
        }
    }

    /// Waits from now on.
    pub(super) fn suspend(&mut self) -> Result<(), BenchError> {
        match self.compiled.start(&mut self.here, self.entry, &mut Site { answers: false }, FUEL) {
            Exit::Suspended => Ok(()),
            exit => Err(failed(format!("it should wait, but: {exit:?}"))),
        }
    }

    /// Becomes bytes, is checked, goes on in the other instance.
    #[inline]
    pub(super) fn travel_and_resume(&mut self) {
        self.bytes.clear();
        self.here.save(&mut self.bytes);
        let Ok(continuation) = Continuation::parse(&self.bytes) else { return };
        if self.there.restore(self.compiled.program(), &continuation, FUEL).is_ok() {
            std::hint::black_box(self.compiled.resume(&mut self.there, &mut Site { answers: true }, 7));
        }
    }

    /// What a run that has travelled returns, to know that it did.
    #[cfg(test)]
    pub(super) fn result_after_travel(&mut self) -> Option<Exit> {
        self.bytes.clear();
        self.here.save(&mut self.bytes);
        let continuation = Continuation::parse(&self.bytes).ok()?;
        self.there.restore(self.compiled.program(), &continuation, FUEL).ok()?;
        Some(self.compiled.resume(&mut self.there, &mut Site { answers: true }, 7))
    }
}
