//! The longest programs: whatever their shape, a bounded amount of work decides whether they are taken, and what is taken
//! runs as it should.

mod shapes;

use std::sync::Arc;

use outboard_ebpf::program::MAX_SLOTS;
use outboard_ebpf::{
    Analysis, CompileError, Compiler, Engine, Helper, HelperAnswer, HelperHost, HelperMemory, Interpreter,
    Parts, Program,
};

use crate::executors::outcome;

/// Answers everything with nothing.
struct Site;

impl HelperHost for Site {
    fn call(&mut self, _: &Helper, _: &[u64; 5], _: &mut HelperMemory<'_>) -> HelperAnswer {
        HelperAnswer::Value(0)
    }
}

fn program(name: &str, parts: Parts) -> Arc<Program> {
    match Program::new(parts, shapes::helpers()) {
        Ok(program) => Arc::new(program),
        Err(error) => panic!("{name}: {error}"),
    }
}

#[test]
fn the_work_of_loading_is_bounded_whatever_the_program_is() {
    let compiler = Compiler::native().unwrap();
    let (mut taken, mut refused) = (0, 0);
    for (name, parts) in shapes::all(MAX_SLOTS) {
        let program = program(name, parts);
        let steps = Analysis::new(&program).steps();
        assert!(steps <= Analysis::MAX_STEPS, "{name}: {steps} steps");
        match compiler.work(&program) {
            Ok(work) => {
                assert!(work <= Compiler::MAX_WORK, "{name}: {work}");
                taken += 1;
            }
            Err(error) => {
                assert!(matches!(error, CompileError::TooMuch { .. }), "{name}: {error}");
                let message = error.to_string();
                assert!(message.contains(&Compiler::MAX_WORK.to_string()), "{message}");
                refused += 1;
            }
        }
    }
    assert!(taken > 2 * refused && refused > 0, "{taken} taken, {refused} refused");
}

/// A caller that was looked at from its beginning for every function that it calls took four times as long for twice as
/// many functions.
#[test]
fn twice_as_many_functions_are_about_twice_the_work() {
    let shorter = shapes::of_functions(MAX_SLOTS / 4);
    for ((name, shorter), (_, longer)) in shorter.into_iter().zip(shapes::of_functions(MAX_SLOTS / 2)) {
        let [shorter, longer] = [shorter, longer].map(|parts| Analysis::new(&program(name, parts)));
        // Where there is too much to find out, the bound itself is what was spent.
        if shorter.is_complete() && longer.is_complete() {
            let (less, more) = (shorter.steps(), longer.steps());
            assert!(more < 3 * less, "{name}: {less} steps, then {more}");
        }
    }
}

#[test]
fn long_programs_of_all_shapes_run_as_they_should() {
    let compiler = Compiler::native().unwrap();
    for (name, parts) in shapes::all(1500) {
        let program = program(name, parts);
        let compiled = compiler.compile(program.clone()).unwrap_or_else(|error| panic!("{name}: {error}"));
        let interpreter = Interpreter::new(program);
        for (context, fuel) in [(&[0u8; 0][..], 100_000), (&[7; 64], 100_000), (&[7; 64], 700)] {
            let run = |executor: &dyn Engine| outcome(executor, context, &mut Site, fuel);
            assert_eq!(run(&compiled), run(&interpreter), "{name}, {} bytes, {fuel} fuel", context.len());
        }
    }
}

/// Some of the longest are compiled here too; all of them would take minutes with a compiler that was not optimised.
#[test]
fn the_longest_programs_run() {
    let compiler = Compiler::native().unwrap();
    for (name, parts) in shapes::all(MAX_SLOTS) {
        if !matches!(name, "straight line" | "long immediates") {
            continue;
        }
        let program = program(name, parts);
        let compiled = compiler.compile(program.clone()).unwrap_or_else(|error| panic!("{name}: {error}"));
        let interpreter = Interpreter::new(program);
        let run = |executor: &dyn Engine| outcome(executor, &[7; 64], &mut Site, 200_000);
        assert_eq!(run(&compiled), run(&interpreter), "{name}");
    }
}

#[test]
fn runs_that_lack_code_are_interpreted_until_it_is_there() {
    let (tell, told) = std::sync::mpsc::channel();
    let text = "ldxdw r0, [r1+8]\nexit";
    let program = crate::executors::program(text, &shapes::helpers());
    let tell = std::sync::Mutex::new(tell);
    let miss = move || tell.lock().unwrap().send(()).unwrap();
    let compiled = Compiler::native().unwrap().compile_in_parts(program.clone(), miss).unwrap();
    let interpreter = Interpreter::new(program);
    let agree = |context: &[u8]| {
        let run = |executor: &dyn Engine| outcome(executor, context, &mut Site, 100);
        assert_eq!(run(&compiled), run(&interpreter), "{} bytes", context.len());
    };
    agree(&[1; 16]);
    assert_eq!(told.try_iter().count(), 0, "what was proven holds");
    agree(&[1; 8]);
    agree(&[1; 15]);
    assert_eq!(told.try_iter().count(), 1, "it is told once");
    compiled.complete();
    agree(&[1; 8]);
    agree(&[1; 16]);
}
