//! What is found out about programs.

use super::{Analysis, Reach};
use crate::helper::{Argument, Helper, Helpers, Quantity, Returns};
use crate::memory::{CONTEXT_AREA, STACK_AREA};
use crate::program::Program;
use crate::text::assemble;

fn helpers() -> Helpers {
    let helper = |id, name: &str, arguments, returns, may_suspend| Helper {
        id,
        name: name.to_owned(),
        arguments,
        returns,
        may_suspend,
    };
    let length = Quantity::Argument(0);
    let buffer = Returns::Buffer { slot: Quantity::Fixed(0), length };
    Helpers::new(vec![
        helper(1, "wait", vec![Argument::Scalar], Returns::Scalar, true),
        helper(2, "fetch", vec![Argument::Scalar], buffer, false),
        helper(3, "fill", vec![Argument::Writes(Quantity::Fixed(8))], Returns::Scalar, false),
    ])
    .unwrap()
}

fn analyse(text: &str) -> (Program, Analysis) {
    let program = Program::new(assemble(text, &helpers()).unwrap(), helpers()).unwrap();
    let analysis = Analysis::new(&program);
    assert!(analysis.is_complete());
    (program, analysis)
}

/// What is said about the accesses of a program, in their order.
fn said(text: &str) -> Vec<String> {
    analyse(text).1.findings().iter().map(ToString::to_string).collect()
}

#[test]
fn fixed_places_are_proven() {
    let text = "stxdw [r10-8], r1\nldxdw r2, [r10-8]\nldxw r0, [r2+60]\nexit";
    assert_eq!(said(text), ["proven: stack -8", "proven: stack -8", "proven: context +60"]);
    let (program, analysis) = analyse(text);
    assert_eq!(analysis.context_of(program.entry("main").unwrap()), Some(64));
    assert_eq!(analysis.findings()[1].reach, Reach::Proven { area: STACK_AREA, offset: Some(504) });
    assert_eq!(analysis.findings()[2].reach, Reach::Proven { area: CONTEXT_AREA, offset: Some(60) });
}

#[test]
fn what_is_outside_is_checked() {
    // Below the stack is where a context of 4 GiB would end.
    assert_eq!(said("ldxdw r0, [r10-513]\nexit"), ["checked: context +4294967295, which may be too far"]);
    assert_eq!(said("ldxdw r0, [r10-4]\nexit"), ["checked: stack -4, which may be too far"]);
    assert_eq!(said("ldxdw r3, [r1+0]\nldxb r0, [r3+0]\nexit")[1], "checked: may be anywhere");
    assert_eq!(said("mov r3, 7\nldxb r0, [r3+0]\nexit"), ["checked: anything from 0x7 to 0x7"]);
    assert_eq!(
        said(".rodata 0102\nlddw r1, 0x300000000\nstb [r1+0], 7\nexit")[0],
        "checked: constants +0, which may be too far"
    );
    assert_eq!(said(".rodata 0102\nlddw r1, 0x300000000\nldxh r0, [r1+0]\nexit")[0], "proven: constants +0");
}

#[test]
fn masks_and_branches_bound_offsets() {
    let masked = "ldxdw r3, [r1+0]\nand r3, 7\nlsh r3, 3\nadd r3, r10\nldxdw r0, [r3-64]\nexit";
    assert_eq!(said(masked)[1], "proven: stack -64 to -8");
    let compared = "ldxdw r3, [r1+0]\njgt r3, 40, out\nadd r1, r3\nldxdw r0, [r1+8]\nout:\nexit";
    assert_eq!(said(compared)[1], "proven: context +8 to +48");
    let lower_half = "ldxw r3, [r1+0]\njgt32 r3, 40, out\nadd r1, r3\nldxdw r0, [r1+8]\nout:\nexit";
    assert_eq!(said(lower_half)[1], "proven: context +8 to +48");
    let signed =
        "ldxdw r3, [r1+0]\njslt r3, 0, out\njsgt r3, 40, out\nadd r1, r3\nldxb r0, [r1+0]\nout:\nexit";
    assert_eq!(said(signed)[1], "proven: context +0 to +40");
}

#[test]
fn loops_that_count_are_proven() {
    let until_equal =
        "mov r3, 0\nloop:\nmov r4, r10\nadd r4, r3\nstxb [r4-16], r3\nadd r3, 1\njne r3, 16, loop\nexit";
    assert_eq!(said(until_equal), ["proven: stack -16 to -1"]);
    let steps = "mov r3, r10\nsub r3, 512\nloop:\nstxdw [r3+0], r2\nadd r3, 8\njne r3, r10, loop\nexit";
    assert_eq!(said(steps), ["proven: stack -512 to -8"]);
    let below = "ldxb r5, [r1+0]\nmov r3, 0\nloop:\njge r3, r5, out\nmov r4, r1\nadd r4, r3\nldxb r0, [r4+1]\nadd r3, 1\nja loop\nout:\nexit";
    assert_eq!(said(below)[1], "proven: context +1 to +255");
    let unbounded = "loop:\nldxb r0, [r1+0]\nadd r1, 1\njne r0, 0, loop\nexit";
    assert_eq!(analyse(unbounded).1.findings()[0].reach, Reach::Anywhere);
}

#[test]
fn the_length_of_the_context_can_be_asked_for() {
    let length = "jlt r2, 2000, out\nldxb r0, [r1+1999]\nout:\nexit";
    let (program, analysis) = analyse(length);
    assert!(analysis.findings()[0].is_proven());
    assert_eq!(analysis.context_of(program.entry("main").unwrap()), Some(0));
    let end = "add r2, r1\nmov r3, r1\nadd r3, 100\njgt r3, r2, out\nldxdw r0, [r1+92]\nout:\nexit";
    let (program, analysis) = analyse(end);
    assert!(analysis.findings()[0].is_proven());
    assert_eq!(analysis.context_of(program.entry("main").unwrap()), Some(0));
}

#[test]
fn granted_buffers_are_known_until_they_are_granted_anew() {
    let asked = "mov r1, 32\ncall fetch\njeq r0, 0, out\nldxdw r0, [r0+24]\nout:\nexit";
    assert_eq!(said(asked), ["proven: buffer 0 +24"]);
    let too_far = "mov r1, 32\ncall fetch\njeq r0, 0, out\nldxdw r0, [r0+25]\nout:\nexit";
    assert_eq!(said(too_far), ["checked: buffer 0 +25, which may be too far"]);
    let unasked = "mov r1, 32\ncall fetch\nldxdw r0, [r0+0]\nexit";
    assert_eq!(said(unasked), ["checked: buffer 0 +0, or zero"]);
    let anew = "mov r1, 32\ncall fetch\njeq r0, 0, out\nmov r6, r0\nmov r1, 8\ncall fetch\nldxdw r0, [r6+0]\nout:\nexit";
    assert_eq!(said(anew), ["checked: buffer 0 +0, which may be too far"]);
}

#[test]
fn what_others_may_write_is_forgotten() {
    let helper =
        "stxdw [r10-8], r1\nmov r1, r10\nadd r1, -8\ncall fill\nldxdw r2, [r10-8]\nldxb r0, [r2+0]\nexit";
    assert_eq!(said(helper)[2], "checked: may be anywhere");
    let beside =
        "stxdw [r10-16], r1\nmov r1, r10\nadd r1, -8\ncall fill\nldxdw r2, [r10-16]\nldxb r0, [r2+0]\nexit";
    assert_eq!(said(beside)[2], "proven: context +0");
    let wild =
        "stxdw [r10-8], r1\nldxdw r3, [r1+0]\nstxb [r3+0], r3\nldxdw r2, [r10-8]\nldxb r0, [r2+0]\nexit";
    assert_eq!(said(wild)[4], "checked: may be anywhere");
    let called = "stxdw [r10-8], r1\nmov r1, r10\ncall local f\nldxdw r2, [r10-8]\nldxb r0, [r2+0]\nexit\n.function f\nstxb [r1-8], r1\nexit";
    assert_eq!(said(called)[2], "checked: may be anywhere");
}

#[test]
fn functions_know_what_they_are_called_with_and_callers_what_they_get() {
    let text = "mov r1, r10\nadd r1, -16\ncall local f\nldxdw r0, [r0+0]\nexit\n.function f\nstxdw [r1+8], r1\nmov r0, r1\nexit";
    assert_eq!(said(text), ["proven: stack -16", "proven: stack -520"]);
    let deep = "call local f\nexit\n.function f\nstxdw [r10-8], r1\ncall local f\nexit";
    let (_, analysis) = analyse(deep);
    assert_eq!(analysis.findings().len(), 7, "once per depth");
    assert!(analysis.findings().iter().all(super::AccessFinding::is_proven));
}

/// The rounds of all loops, and the fuel that `main` uses at most.
fn bounds(text: &str) -> (Vec<Option<u64>>, Option<u64>) {
    let (program, analysis) = analyse(text);
    let rounds = analysis.loops().iter().map(|found| found.rounds).collect();
    (rounds, analysis.fuel_of(program.entry("main").unwrap()))
}

#[test]
fn loops_that_count_are_bounded_and_others_pay() {
    assert_eq!(bounds("jeq r2, 0, a\nmov r3, 1\nmov r3, 2\na:\nexit"), (vec![], Some(4)));
    let counted = "mov r3, 0\nloop:\nadd r3, 1\njne r3, 16, loop\nexit";
    assert_eq!(bounds(counted), (vec![Some(16)], Some(1 + 16 * 2 + 1)));
    let down = "mov r3, 10\nloop:\nsub r3, 2\njgt r3, 1, loop\nexit";
    assert_eq!(bounds(down), (vec![Some(5)], Some(1 + 5 * 2 + 1)));
    let nested = "mov r3, 0\na:\nmov r4, 0\nb:\nadd r4, 1\njlt r4, 3, b\nadd r3, 1\njlt r3, 5, a\nexit";
    assert_eq!(bounds(nested), (vec![Some(5), Some(3)], Some(1 + 5 + 15 * 2 + 5 * 2 + 1)));
    let unbounded = "loop:\nldxb r0, [r1+0]\nadd r1, 1\njne r0, 0, loop\nexit";
    assert_eq!(bounds(unbounded), (vec![None], None));
    let sometimes = "mov r3, 0\nloop:\njeq r2, 0, past\nadd r3, 1\npast:\njlt r3, 5, loop\nexit";
    assert_eq!(bounds(sometimes), (vec![None], None));
    let inner = "mov r3, 0\nloop:\nadd r3, 1\nldxb r5, [r1+0]\njeq r5, 1, loop\njlt r3, 5, loop\nexit";
    assert_eq!(bounds(inner).1, None, "the first way back is taken as often as the context says");
    let called = ".entry main\ncall local f\ncall local f\nexit\n.function f\nmov r0, 1\nexit";
    assert_eq!(bounds(called), (vec![], Some(3 + 2 * 2)));
    let for_ever = ".entry main\ncall local f\nexit\n.function f\nja f2\nf2:\nja f2";
    assert_eq!(bounds(for_ever), (vec![None], None));
}

#[test]
fn programs_of_any_shape_are_looked_at_in_limited_time() {
    let mut nested = String::new();
    for loops in 0..5000 {
        nested +=
            &format!("h{loops}:\nadd r{}, {loops}\nstxdw [r10-{}], r3\n", loops % 10, 8 * (loops % 64 + 1));
    }
    for loops in (0..5000).rev() {
        nested += &format!("jgt r{}, {loops}, h{loops}\n", loops * 3 % 10);
    }
    let mut calls = String::from(".entry main\n");
    for function in 0..1000 {
        calls += &format!(".function f{function}\n");
        for called in 0..9 {
            calls += &format!("add r1, {called}\ncall local f{}\n", (function * 7 + called * 13 + 1) % 1000);
        }
        calls += "exit\n";
    }
    for text in [nested + "exit\n", calls.replacen(".entry main\n.function f0\n", ".entry f0\n", 1)] {
        let program = Program::new(assemble(&text, &helpers()).unwrap(), helpers()).unwrap();
        // That it comes back is the point; whether it found anything depends on the limits.
        Analysis::new(&program);
    }
}
