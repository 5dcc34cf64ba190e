use proptest::prelude::*;

use super::*;
use crate::text::assemble;

fn program(text: &str) -> Program {
    let helpers = Helpers::default();
    Program::new(assemble(text, &helpers).unwrap(), helpers).unwrap()
}

const TEXT: &str = "
    .rodata 0102
    .entry main
        jeq r1, 0, out
        call local inner
    out:
        lddw r0, 5
        exit
    .function inner
        mov r0, 1
        exit
    .entry other
        ja -1";

#[test]
fn every_slot_belongs_to_one_function() {
    let program = program(TEXT);
    let found: Vec<_> =
        program.functions().iter().map(|f| (f.name.as_str(), f.start, f.end, f.is_entry)).collect();
    assert_eq!(found, [("main", 0, 5, true), ("inner", 5, 7, false), ("other", 7, 8, true)]);
    for index in 0..8 {
        let function = program.function(program.function_at(index).unwrap());
        assert!((function.start..function.end).contains(&index));
    }
    assert_eq!(program.function_at(8), None);
    assert!(program.entry("inner").is_none());
    assert_eq!(program.entry("other").map(|id| id.index()), Some(2));
}

#[test]
fn blocks_begin_where_something_goes_to_or_comes_back() {
    let costs: Vec<u32> = (0..8).map(|index| program(TEXT).block_cost(index)).collect();
    assert_eq!(costs, [1, 1, 3, 0, 0, 2, 0, 1]);
}

#[test]
fn functions_without_a_name_are_called_by_their_slot() {
    let program = program("call local +1\nexit\nexit");
    assert_eq!(program.functions()[1].name, "function_2");
}

#[test]
fn the_hash_depends_on_everything_that_a_run_depends_on() {
    let hash = program(TEXT).hash();
    assert_eq!(program(TEXT).hash(), hash);
    for (from, to) in
        [("0102", "0103"), (".rodata", ".data"), ("r0, 1", "r0, 2"), (".entry other", ".entry another")]
    {
        assert_ne!(program(&TEXT.replacen(from, to, 1)).hash(), hash, "{from} to {to}");
    }
    assert_eq!(hash.to_string().len(), 64);
}

proptest! {
    #[test]
    fn any_instructions_are_a_program_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        if let Ok(parts) = Parts::from_bytes(&bytes) {
            let length = parts.code.len() as u32;
            if let Ok(program) = Program::new(parts, Helpers::default()) {
                let costs: u32 = (0..length).map(|index| program.block_cost(index)).sum();
                prop_assert_eq!(costs, length);
            }
        }
    }
}
