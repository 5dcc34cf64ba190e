//! What only the compiler promises. What all executors promise is tried on all of them elsewhere.

use super::{Architecture, Compiler};
use crate::helper::Helpers;
use crate::program::Program;
use crate::text::assemble;

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
