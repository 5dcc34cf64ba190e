//! The executors there are, and what they make of a program.

use std::sync::{Arc, LazyLock};

use outboard_ebpf::text::assemble;
use outboard_ebpf::{
    Architecture, CompileEffort, Compiler, Engine, Exit, HelperHost, Helpers, Instance, Interpreter, NoHost,
    Program,
};

/// Enough for whatever ends at all.
pub(crate) const FUEL: u64 = 100_000;

/// Every executor for this program, each with its name.
pub(crate) fn executors(program: &Arc<Program>) -> Vec<(&'static str, Box<dyn Engine>)> {
    static COMPILER: LazyLock<Compiler> = LazyLock::new(|| Compiler::native().unwrap());
    // What is spent on longer functions, by turns.
    let effort =
        if program.code().len().is_multiple_of(2) { CompileEffort::Half } else { CompileEffort::Little };
    let hasty = COMPILER.clone().with_effort(effort);
    vec![
        ("interpreter", Box::new(Interpreter::new(program.clone()))),
        ("compiled", Box::new(COMPILER.compile(program.clone()).unwrap())),
        ("compiled in haste", Box::new(hasty.compile(program.clone()).unwrap())),
    ]
}

/// A program from its text.
pub(crate) fn program(text: &str, helpers: &Helpers) -> Arc<Program> {
    let parts = assemble(text, helpers).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let program = Program::new(parts, helpers.clone()).unwrap_or_else(|error| panic!("{error}\n{text}"));
    compile_for_aarch64(&program);
    Arc::new(program)
}

/// Tries that code can be made for the other processor, wherever this runs.
pub(crate) fn compile_for_aarch64(program: &Program) {
    static COMPILER: LazyLock<Compiler> = LazyLock::new(|| Compiler::new(Architecture::Aarch64).unwrap());
    for code in COMPILER.machine_code(program).unwrap() {
        assert!(code.len().is_multiple_of(4), "every instruction has four bytes");
    }
}

/// What a run left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) exit: Exit,
    pub(crate) fuel: u64,
    pub(crate) context: Vec<u8>,
}

/// Runs a program's first function on one executor.
pub(crate) fn outcome(
    executor: &dyn Engine,
    context: &[u8],
    host: &mut dyn HelperHost,
    fuel: u64,
) -> Outcome {
    let mut instance = Instance::default();
    instance.set_context(context).unwrap();
    let first = &executor.program().functions().iter().find(|function| function.is_entry).unwrap().name;
    let function = executor.program().entry(first).unwrap();
    let exit = executor.start(&mut instance, function, host, fuel);
    Outcome { exit, fuel: instance.fuel(), context: instance.context().to_vec() }
}

/// Runs a program that calls no helper on all executors, and gives what they agree on.
pub(crate) fn run(text: &str, context: &[u8]) -> Outcome {
    let program = program(text, &Helpers::default());
    let mut outcomes = Vec::new();
    for (name, executor) in executors(&program) {
        outcomes.push((name, outcome(&*executor, context, &mut NoHost, FUEL)));
    }
    let (first_name, first) = outcomes.swap_remove(0);
    for (name, other) in outcomes {
        assert_eq!(other, first, "{name} against {first_name}\n{text}");
    }
    first
}

/// What a program without context returns on all executors.
pub(crate) fn result(text: &str) -> u64 {
    match run(text, &[]).exit {
        Exit::Returned(value) => value,
        exit => panic!("{exit:?}\n{text}"),
    }
}
