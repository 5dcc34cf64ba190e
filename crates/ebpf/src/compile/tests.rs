//! What only the compiler promises. What all executors promise is tried on all of them elsewhere.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::{Architecture, Compiler};
use crate::continuation::Continuation;
use crate::executor::{Engine, Exit};
use crate::helper::{Argument, Helper, HelperAnswer, HelperHost, HelperMemory, Helpers, Quantity, Returns};
use crate::instance::Instance;
use crate::interpret::Interpreter;
use crate::memory::MemoryFault;
use crate::program::Program;
use crate::text::assemble;
use crate::trap::{Trap, Why};

fn program(text: &str) -> Program {
    Program::new(assemble(text, &Helpers::default()).unwrap(), Helpers::default()).unwrap()
}

#[test]
fn code_for_another_processor_can_be_made_but_not_run() {
    let program = program("call local twice\nexit\n.function twice\nmov r0, r1\nadd r0, r1\nexit");
    let compiler = Compiler::new(Architecture::Aarch64).unwrap();
    for code in compiler.machine_code(&program).unwrap() {
        // Every instruction of aarch64 has four bytes; `ret` is one that must be there.
        let (instructions, rest) = code.as_chunks::<4>();
        assert!(rest.is_empty());
        assert!(instructions.contains(&0xd65f_03c0_u32.to_le_bytes()));
    }
    assert_eq!(compiler.compile(program.into()).is_ok(), Architecture::native() == Architecture::Aarch64);
}

/// Waits for ever.
struct Late;

impl HelperHost for Late {
    fn call(&mut self, _: &Helper, _: &[u64; 5], _: &mut HelperMemory<'_>) -> HelperAnswer {
        HelperAnswer::Pending
    }
}

#[test]
fn what_a_stranger_made_up_stays_suspect_however_often_it_waits() {
    let wait = Helper {
        id: 1,
        name: "wait".to_owned(),
        arguments: Vec::new(),
        returns: Returns::Scalar,
        may_suspend: true,
    };
    let helpers = Helpers::new(vec![wait]).unwrap();
    let text = "mov r6, r1\ncall wait\ncall wait\nldxdw r0, [r6+0]\nexit";
    let program = Arc::new(Program::new(assemble(text, &helpers).unwrap(), helpers).unwrap());
    let compiled = Compiler::native().unwrap().compile(program.clone()).unwrap();
    let interpreter = Interpreter::new(program.clone());
    let main = program.entry("main").unwrap();
    let wild = 0x1234_5678;
    for executor in [&compiled as &dyn Engine, &interpreter] {
        let mut instance = Instance::default();
        instance.set_context(&[7; 8]).unwrap();
        assert_eq!(executor.start(&mut instance, main, &mut Late, 100), Exit::Suspended);
        instance.frames[0].saved[0] = wild;
        let mut bytes = Vec::new();
        assert!(instance.save(&mut bytes));
        let forged = Continuation::parse(&bytes).unwrap();
        instance.restore(&program, &forged, 100).unwrap();
        assert_eq!(executor.resume(&mut instance, &mut Late, 0), Exit::Suspended);
        let exit = compiled.resume(&mut instance, &mut Late, 0);
        let why = Why::Memory(MemoryFault::Outside { address: wild, length: 8 });
        assert_eq!(exit, Exit::Trapped(Trap { index: 3, why }));
    }
}

#[test]
fn what_a_helper_was_asked_can_be_made_up_too() {
    let buffer = Returns::Buffer { slot: Quantity::Fixed(0), length: Quantity::Argument(0) };
    let fetch = Helper {
        id: 1,
        name: "fetch".to_owned(),
        arguments: vec![Argument::Scalar],
        returns: buffer,
        may_suspend: true,
    };
    let helpers = Helpers::new(vec![fetch]).unwrap();
    let text = "mov r1, 4096\ncall fetch\njeq r0, 0, out\nldxdw r0, [r0+4088]\nout:\nexit";
    let program = Arc::new(Program::new(assemble(text, &helpers).unwrap(), helpers).unwrap());
    let compiled = Compiler::native().unwrap().compile(program.clone()).unwrap();
    let main = program.entry("main").unwrap();
    let mut instance = Instance::default();
    assert_eq!(compiled.start(&mut instance, main, &mut Late, 100), Exit::Suspended);
    // As if it had asked for eight bytes, which it gets.
    instance.arguments[0] = 8;
    let mut bytes = Vec::new();
    assert!(instance.save(&mut bytes));
    instance.restore(&program, &Continuation::parse(&bytes).unwrap(), 100).unwrap();
    let (address, _) = instance.pending_memory().unwrap().grant(8).unwrap();
    let exit = compiled.resume(&mut instance, &mut Late, address);
    let why = Why::Memory(MemoryFault::Outside { address: address + 4088, length: 8 });
    assert_eq!(exit, Exit::Trapped(Trap { index: 3, why }));
}

/// Panics when asked.
struct Broken;

impl HelperHost for Broken {
    fn call(&mut self, _: &Helper, _: &[u64; 5], _: &mut HelperMemory<'_>) -> HelperAnswer {
        panic!("the host is broken")
    }
}

#[test]
fn a_host_may_panic_and_the_instance_can_be_used_again() {
    let ask = Helper {
        id: 1,
        name: "ask".to_owned(),
        arguments: Vec::new(),
        returns: Returns::Scalar,
        may_suspend: false,
    };
    let helpers = Helpers::new(vec![ask]).unwrap();
    let text = "call local f\nexit\n.function f\njeq r2, 0, out\ncall ask\nout:\nmov r0, 5\nexit";
    let program = Arc::new(Program::new(assemble(text, &helpers).unwrap(), helpers).unwrap());
    let compiled = Compiler::native().unwrap().compile(program.clone()).unwrap();
    let main = program.entry("main").unwrap();
    let mut instance = Instance::default();
    instance.set_context(&[0; 8]).unwrap();
    let run = AssertUnwindSafe(|| compiled.start(&mut instance, main, &mut Broken, 100));
    let panic = catch_unwind(run).unwrap_err();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"the host is broken"));
    instance.set_context(&[]).unwrap();
    assert_eq!(compiled.start(&mut instance, main, &mut Broken, 100), Exit::Returned(5));
}

#[test]
fn what_is_compiled_can_be_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<super::Compiled>();
    shared::<Compiler>();
}
