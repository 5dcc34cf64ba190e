//! Local functions, helpers, exits.

use outboard_ebpf::memory::{CONTEXT, MAX_FRAMES, MemoryFault, frame_end, grant_address};
use outboard_ebpf::{
    Argument, Exit, Helper, HelperAnswer, HelperHost, HelperMemory, Helpers, Quantity, Returns, Trap, Why,
};

use crate::executors::{FUEL, executors, outcome, program, result, run};

#[test]
fn a_function_gets_its_arguments_and_gives_its_result() {
    let text = "
        mov r1, 1
        mov r2, 20
        mov r3, 300
        mov r4, 4000
        mov r5, 50000
        call local sum
        exit
        sum:
        mov r0, r1
        add r0, r2
        add r0, r3
        add r0, r4
        add r0, r5
        exit";
    assert_eq!(result(text), 54321);
}

#[test]
fn the_callers_registers_survive_and_the_arguments_do_not() {
    let set: String = (0..10).map(|register| format!("mov r{register}, {}\n", register + 100)).collect();
    let spoil: String = (0..10).map(|register| format!("mov r{register}, -1\n")).collect();
    for register in 1..10 {
        let text = format!("{set}call local spoil\nmov r0, r{register}\nexit\nspoil:\n{spoil}exit");
        let expected = if register < 6 { 0 } else { register + 100 };
        assert_eq!(result(&text), expected, "r{register}");
    }
    for register in [0, 6, 7, 8, 9] {
        let text = format!("{set}call local look\nexit\nlook:\nmov r0, r{register}\nexit");
        assert_eq!(result(&text), 0, "r{register} is not for the called function to see");
    }
    assert_eq!(result("call local look\nexit\nlook:\nmov r0, r10\nexit"), frame_end(1));
    assert_eq!(result("call local look\nmov r0, r10\nexit\nlook:\nexit"), frame_end(0));
}

#[test]
fn functions_call_each_other_eight_frames_deep_and_no_deeper() {
    // Calls itself as often as r1 says.
    let text = |times: usize| {
        format!(
            "mov r1, {times}\ncall local again\nexit\nagain:\nmov r6, r1\njeq r1, 0, end\nsub r1, 1\n\
                 call local again\nend:\nadd r0, r6\nexit"
        )
    };
    assert_eq!(result(&text(MAX_FRAMES - 2)), 21);
    let Exit::Trapped(trap) = run(&text(MAX_FRAMES - 1), &[]).exit else { panic!("it must not go so deep") };
    assert_eq!(trap, Trap { index: 6, why: Why::TooDeep });
}

/// Answers as the test wants, and keeps what it was asked.
struct Recorder {
    answer: HelperAnswer,
    asked: Vec<Call>,
}

impl HelperHost for Recorder {
    fn call(
        &mut self,
        helper: &Helper,
        &arguments: &[u64; 5],
        memory: &mut HelperMemory<'_>,
    ) -> HelperAnswer {
        self.asked.push((helper.id, arguments));
        match helper.name.as_str() {
            "fill" => {
                let bytes = vec![0xab; arguments[1] as usize];
                assert!(memory.write(arguments[0] + 1, &bytes).is_err(), "one byte behind what it may write");
                match memory.write(arguments[0], &bytes) {
                    Ok(()) => HelperAnswer::Value(0),
                    Err(_) => HelperAnswer::Trap(7),
                }
            }
            "grant" => match memory.grant(arguments[1] as usize) {
                Ok((address, buffer)) => {
                    buffer.fill(0x11);
                    HelperAnswer::Value(address)
                }
                Err(_) => HelperAnswer::Value(0),
            },
            "ask" => {
                assert!(memory.grant(8).is_err(), "it is not declared to grant anything");
                self.answer
            }
            _ => self.answer,
        }
    }
}

fn helpers() -> Helpers {
    let helper = |id, name: &str, arguments: &[Argument], returns| Helper {
        id,
        name: name.to_owned(),
        arguments: arguments.to_vec(),
        returns,
        may_suspend: false,
    };
    let scalars = [Argument::Scalar, Argument::Scalar];
    let buffer = Returns::Buffer { slot: Quantity::Argument(0), length: Quantity::Argument(1) };
    Helpers::new(vec![
        helper(5, "ask", &[], Returns::Scalar),
        helper(6, "fill", &[Argument::Writes(Quantity::Argument(1)), Argument::Scalar], Returns::Scalar),
        helper(0x8000_0001, "grant", &scalars, buffer),
        helper(8, "lie", &[], Returns::Buffer { slot: Quantity::Fixed(2), length: Quantity::Fixed(8) }),
    ])
    .unwrap()
}

type Call = (u32, [u64; 5]);

fn ask(text: &str, answer: HelperAnswer, context: &[u8]) -> (Exit, Vec<u8>, Vec<Call>) {
    let program = program(text, &helpers());
    let run = |executor: &dyn outboard_ebpf::Engine| {
        let mut host = Recorder { answer, asked: Vec::new() };
        let outcome = outcome(executor, context, &mut host, FUEL);
        (outcome.exit, outcome.context, host.asked)
    };
    let mut all: Vec<_> = executors(&program).iter().map(|(_, executor)| run(&**executor)).collect();
    let first = all.swap_remove(0);
    all.iter().for_each(|other| assert_eq!(*other, first, "{text}"));
    first
}

#[test]
fn a_helper_gets_all_argument_registers_and_clears_them() {
    let set: String = (1..10).map(|register| format!("mov r{register}, {register}\n")).collect();
    for register in 0..10 {
        let text = format!("{set}call ask\nmov r0, r{register}\nexit");
        let (exit, _, asked) = ask(&text, HelperAnswer::Value(99), &[]);
        let expected = [99, 0, 0, 0, 0, 0, 6, 7, 8, 9][register];
        assert_eq!(exit, Exit::Returned(expected), "r{register}");
        assert_eq!(asked, [(5, [1, 2, 3, 4, 5])]);
    }
}

#[test]
fn a_helper_can_end_the_run() {
    let (exit, ..) = ask("mov r6, 1\ncall ask\nexit", HelperAnswer::Trap(42), &[]);
    assert_eq!(exit, Exit::Trapped(Trap { index: 1, why: Why::Helper { code: 42 } }));
}

#[test]
fn helpers_are_held_to_what_they_are_declared_to_answer() {
    let trap = |index| Exit::Trapped(Trap { index, why: Why::Undeclared });
    assert_eq!(ask("call ask\nexit", HelperAnswer::Pending, &[]).0, trap(0));
    assert_eq!(ask("call lie\nexit", HelperAnswer::Value(grant_address(2)), &[]).0, trap(0));
    assert_eq!(ask("call lie\nexit", HelperAnswer::Value(CONTEXT), &[1; 8]).0, trap(0));
    assert_eq!(ask("call lie\nexit", HelperAnswer::Value(0), &[]).0, Exit::Returned(0));
}

#[test]
fn helpers_write_what_the_program_points_them_to() {
    let (exit, context, _) = ask("add r1, 2\nmov r2, 3\ncall fill\nexit", HelperAnswer::Value(0), &[0; 8]);
    assert_eq!(exit, Exit::Returned(0));
    assert_eq!(context, [0, 0, 0xab, 0xab, 0xab, 0, 0, 0]);
    let text = "mov r1, r10\nsub r1, 8\nmov r2, 8\ncall fill\nldxdw r0, [r10-8]\nexit";
    assert_eq!(ask(text, HelperAnswer::Value(0), &[]).0, Exit::Returned(0xabab_abab_abab_abab));
    let text = "mov r1, r10\nsub r1, 7\nmov r2, 8\ncall fill\nexit";
    assert_eq!(
        ask(text, HelperAnswer::Value(0), &[]).0,
        Exit::Trapped(Trap { index: 3, why: Why::Helper { code: 7 } })
    );
}

#[test]
fn granted_buffers_can_be_used_until_they_are_granted_anew() {
    let text =
        |tail: &str| format!("mov r1, 3\nmov r2, 16\ncall grant\nmov r6, r0\nstw [r6+8], 1\n{tail}\nexit");
    let (exit, ..) = ask(&text("ldxdw r0, [r6+8]"), HelperAnswer::Value(0), &[]);
    assert_eq!(exit, Exit::Returned(0x1111_1111_0000_0001));
    let outside = |address, length| Why::Memory(MemoryFault::Outside { address, length });
    let (exit, ..) = ask(&text("ldxdw r0, [r6+9]"), HelperAnswer::Value(0), &[]);
    assert_eq!(exit, Exit::Trapped(Trap { index: 5, why: outside(grant_address(3) + 9, 8) }));
    let shorter = "mov r1, 3\nmov r2, 8\ncall grant\nldxw r0, [r6+8]";
    let (exit, ..) = ask(&text(shorter), HelperAnswer::Value(0), &[]);
    assert_eq!(exit, Exit::Trapped(Trap { index: 8, why: outside(grant_address(3) + 8, 4) }));
    let (exit, ..) = ask("mov r1, 11\nmov r2, 16\ncall grant\nexit", HelperAnswer::Value(0), &[]);
    assert_eq!(exit, Exit::Returned(0), "there is no such slot");
}
