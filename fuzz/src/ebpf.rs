//! The engine for functions that travel: what comes as bytes is refused or runs, the same on both executors.

use std::sync::{Arc, LazyLock};

use outboard_ebpf::elf::load;
use outboard_ebpf::insn::encode;
use outboard_ebpf::text::{assemble, disassemble};
use outboard_ebpf::{
    Argument, Compiled, Compiler, Continuation, Engine, Exit, FunctionId, Helper, HelperAnswer, HelperHost,
    HelperMemory, Helpers, Instance, Interpreter, Parts, Program, Quantity, Returns,
};

use crate::FuzzVerdict;
use crate::wire::refused;

const FUEL: u64 = 2000;

/// Waits, or grants a buffer.
struct Site {
    waits: bool,
}

impl HelperHost for Site {
    fn call(
        &mut self,
        helper: &Helper,
        &arguments: &[u64; 5],
        memory: &mut HelperMemory<'_>,
    ) -> HelperAnswer {
        if helper.may_suspend && self.waits {
            return HelperAnswer::Pending;
        }
        match memory.grant(32) {
            Ok((address, buffer)) => {
                buffer.fill(arguments[0] as u8);
                HelperAnswer::Value(address)
            }
            Err(_) => HelperAnswer::Value(arguments[0]),
        }
    }
}

fn helpers() -> Helpers {
    let helper = |id, name: &str, returns, may_suspend| Helper {
        id,
        name: name.to_owned(),
        arguments: vec![Argument::Scalar],
        returns,
        may_suspend,
    };
    let buffer = Returns::Buffer { slot: Quantity::Fixed(1), length: Quantity::Fixed(32) };
    let all = vec![helper(1, "fetch", buffer, true), helper(2, "same", Returns::Scalar, false)];
    // A table of two different helpers with good names.
    Helpers::new(all).unwrap_or_default()
}

static COMPILER: LazyLock<Compiler> =
    LazyLock::new(|| Compiler::native().unwrap_or_else(|error| panic!("no compiler: {error}")));

fn compiled(program: &Arc<Program>) -> Compiled {
    COMPILER.compile(program.clone()).unwrap_or_else(|error| panic!("{error}"))
}

/// Runs every entry point on both executors.
fn agree(program: Program) {
    let program = Arc::new(program);
    let (interpreter, compiled) = (Interpreter::new(program.clone()), compiled(&program));
    let names =
        program.functions().iter().filter(|function| function.is_entry).map(|function| &function.name);
    for entry in names.filter_map(|name| program.entry(name)) {
        let expected = run(&interpreter, entry);
        assert_eq!(run(&compiled, entry), expected);
    }
}

fn run(executor: &dyn Engine, entry: FunctionId) -> (Exit, u64, Vec<u8>) {
    let mut instance = Instance::default();
    assert_eq!(instance.set_context(&[0x5a; 40]), Ok(()));
    let exit = executor.start(&mut instance, entry, &mut Site { waits: false }, FUEL);
    (exit, instance.fuel(), instance.context().to_vec())
}

pub(crate) fn program(bytes: &[u8]) -> FuzzVerdict {
    let parts = match Parts::from_bytes(bytes) {
        Ok(parts) => parts,
        Err(error) => return refused(error),
    };
    assert_eq!(encode(&parts.code), bytes);
    match Program::new(parts, helpers()) {
        Ok(program) => {
            agree(program);
            FuzzVerdict::Decoded
        }
        Err(error) => refused(error),
    }
}

const TEXT: &str = "
    .rodata 0102030405060708
    .entry main
        mov r6, r1
        ldxdw r1, [r6+8]
        stxdw [r10-8], r1
        call local inner
        ldxdw r1, [r10-8]
        xor r0, r1
        jgt r0, 1000, +1
        stxw [r6+4], r0
        exit
    .function inner
        mov r7, r1
        call fetch
        jeq r0, 0, out
        and r7, 31
        add r7, r0
        ldxb r0, [r7]
    out:
        exit";

/// The program whose suspended runs are forged.
static TRAVELLER: LazyLock<Arc<Program>> = LazyLock::new(|| {
    let parts = assemble(TEXT, &helpers()).unwrap_or_else(|error| panic!("{error}"));
    Arc::new(Program::new(parts, helpers()).unwrap_or_else(|error| panic!("{error}")))
});
static TRAVELLER_COMPILED: LazyLock<Compiled> = LazyLock::new(|| compiled(&TRAVELLER));

pub(crate) fn program_seeds() -> Vec<Vec<u8>> {
    let small = "mov r0, 5\nlsh r0, 3\nadd r0, r2\nexit";
    let texts = [TEXT, small].map(|text| assemble(text, &helpers()));
    texts.into_iter().flatten().map(|parts| encode(&parts.code)).collect()
}

pub(crate) fn text(bytes: &[u8]) -> FuzzVerdict {
    let Ok(text) = std::str::from_utf8(bytes) else { return FuzzVerdict::Refused };
    match assemble(text, &helpers()) {
        Ok(parts) => {
            let again = disassemble(&parts, &helpers());
            assert_eq!(assemble(&again, &helpers()), Ok(parts));
            FuzzVerdict::Decoded
        }
        Err(error) => refused(error),
    }
}

pub(crate) fn text_seeds() -> Vec<Vec<u8>> {
    vec![TEXT.as_bytes().to_vec()]
}

pub(crate) fn object(bytes: &[u8]) -> FuzzVerdict {
    match load(bytes, &helpers()) {
        Ok(program) => {
            agree(program);
            FuzzVerdict::Decoded
        }
        Err(error) => refused(error),
    }
}

pub(crate) fn object_seeds() -> Vec<Vec<u8>> {
    vec![
        include_bytes!("../../crates/ebpf/tests/objects/lookup-v3.o").to_vec(),
        include_bytes!("../../crates/ebpf/tests/objects/modern-v4.o").to_vec(),
    ]
}

pub(crate) fn continuation(bytes: &[u8]) -> FuzzVerdict {
    let continuation = match Continuation::parse(bytes) {
        Ok(continuation) => continuation,
        Err(error) => return refused(error),
    };
    let mut exits = Vec::new();
    for executor in [&Interpreter::new(TRAVELLER.clone()) as &dyn Engine, &*TRAVELLER_COMPILED] {
        let mut instance = Instance::default();
        if let Err(error) = instance.restore(&TRAVELLER, &continuation, u64::MAX) {
            return refused(error);
        }
        let mut again = Vec::new();
        assert!(instance.save(&mut again));
        assert_eq!(again, bytes, "what was restored is what came");
        // A buffer that a stranger claims to have may have any length, so none is answered.
        let exit = executor.resume(&mut instance, &mut Site { waits: false }, 0);
        exits.push((exit, instance.fuel(), instance.context().to_vec()));
    }
    assert_eq!(exits[0], exits[1]);
    FuzzVerdict::Decoded
}

pub(crate) fn continuation_seeds() -> Vec<Vec<u8>> {
    let interpreter = Interpreter::new(TRAVELLER.clone());
    let mut seeds = Vec::new();
    for word in [5, u64::MAX] {
        let mut instance = Instance::default();
        assert_eq!(instance.set_context(&[word; 3].map(u64::to_le_bytes).concat()), Ok(()));
        let main = TRAVELLER.entry("main").unwrap_or_else(|| panic!("it has one"));
        let exit = interpreter.start(&mut instance, main, &mut Site { waits: true }, FUEL);
        assert_eq!(exit, Exit::Suspended);
        let mut bytes = Vec::new();
        assert!(instance.save(&mut bytes));
        seeds.push(bytes);
    }
    seeds
}
