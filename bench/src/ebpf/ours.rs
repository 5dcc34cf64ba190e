//! The measured functions in this project's engine.

use std::sync::Arc;

use outboard_ebpf::elf::load;
use outboard_ebpf::insn::encode;
use outboard_ebpf::text::assemble;
use outboard_ebpf::{
    Answer, Argument, Compiled, Compiler, Continuation, Executor, Exit, FunctionId, Helper, HelperMemory,
    Helpers, Host, Instance, Interpreter, NoHost, Program, Returns,
};

use crate::BenchError;

/// More than anything here needs.
const FUEL: u64 = 1 << 40;

fn failed(what: impl std::fmt::Display) -> BenchError {
    BenchError::Function { why: what.to_string() }
}

/// What runs a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Engine {
    Interpreted,
    Compiled,
}

/// An executor whose type is known where it is called, as rbpf's and Rust's functions are.
enum Machine {
    Interpreted(Interpreter),
    Compiled(Compiled),
}

impl Machine {
    fn program(&self) -> &Arc<Program> {
        match self {
            Machine::Interpreted(interpreter) => interpreter.program(),
            Machine::Compiled(compiled) => compiled.program(),
        }
    }
}

/// A function and what it needs to be called.
pub(super) struct Function {
    compiler: Compiler,
    machine: Machine,
    instance: Instance,
    entry: FunctionId,
}

impl Function {
    pub(super) fn from_text(text: &str, engine: Engine, context: &[u8]) -> Result<Function, BenchError> {
        let helpers = Helpers::default();
        let parts = assemble(text, &helpers).map_err(failed)?;
        Self::new(Program::new(parts, helpers).map_err(failed)?, engine, context)
    }

    pub(super) fn from_object(object: &[u8], engine: Engine, context: &[u8]) -> Result<Function, BenchError> {
        Self::new(load(object, &Helpers::default()).map_err(failed)?, engine, context)
    }

    fn new(program: Program, engine: Engine, context: &[u8]) -> Result<Function, BenchError> {
        let program = Arc::new(program);
        let compiler = Compiler::native().map_err(failed)?;
        let name = &program.functions()[0].name;
        let entry = program.entry(name).ok_or_else(|| failed("the first function is no entry point"))?;
        let machine = match engine {
            Engine::Interpreted => Machine::Interpreted(Interpreter::new(program)),
            Engine::Compiled => Machine::Compiled(compiler.compile(program).map_err(failed)?),
        };
        let mut instance = Instance::default();
        instance.set_context(context).map_err(failed)?;
        Ok(Function { compiler, machine, instance, entry })
    }

    #[inline]
    pub(super) fn call(&mut self) -> Exit {
        let instance = &mut self.instance;
        match &self.machine {
            Machine::Interpreted(interpreter) => interpreter.start(instance, self.entry, &mut NoHost, FUEL),
            Machine::Compiled(compiled) => compiled.start(instance, self.entry, &mut NoHost, FUEL),
        }
    }

    /// A figure of a function that does something else would be a lie.
    pub(super) fn must_return(&mut self, expected: u64) -> Result<(), BenchError> {
        match self.call() {
            Exit::Returned(found) if found == expected => Ok(()),
            exit => Err(failed(format!("it should return {expected:#x}, but: {exit:?}"))),
        }
    }

    pub(super) fn bytecode(&self) -> Vec<u8> {
        encode(self.machine.program().code())
    }

    pub(super) fn compile(&self) -> Option<Compiled> {
        self.compiler.compile(self.machine.program().clone()).ok()
    }
}

/// A helper that answers at once, or later.
struct Site {
    answers: bool,
}

impl Host for Site {
    fn call(&mut self, _: &Helper, _: [u64; 5], _: &mut HelperMemory<'_>) -> Answer {
        if self.answers { Answer::Value(7) } else { Answer::Pending }
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
        let compiled = Compiler::native().and_then(|compiler| compiler.compile(program)).map_err(failed)?;
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
