//! Programs of a given length, each of a shape that some part of the engine could find hard.

use outboard_ebpf::insn::{AluOp, AtomicOp, Condition, Operand, Reg, Size, Width};
use outboard_ebpf::{Argument, Helper, Helpers, Insn, Parts, Quantity, Returns};

const R: [Reg; 11] = {
    let mut all = [Reg::R0; 11];
    let mut number = 0;
    while number < 11 {
        all[number] = match Reg::new(number as u8) {
            Some(register) => register,
            None => Reg::R0,
        };
        number += 1;
    }
    all
};

/// Answers at once, and one that may wait.
const ASK: u32 = 1;
const WAIT: u32 = 2;

pub(super) fn helpers() -> Helpers {
    let scalars = vec![Argument::Scalar; 2];
    let buffer = Returns::Buffer { slot: Quantity::Argument(0), length: Quantity::Argument(1) };
    let helper = |id, name: &str, returns, may_suspend| Helper {
        id,
        name: name.to_owned(),
        arguments: scalars.clone(),
        returns,
        may_suspend,
    };
    Helpers::new(vec![helper(ASK, "ask", Returns::Scalar, false), helper(WAIT, "wait", buffer, true)])
        .unwrap()
}

fn alu(op: AluOp, dst: usize, src: Operand) -> Insn {
    Insn::Alu { width: Width::W64, op, dst: R[dst], src }
}

fn add(dst: usize, imm: i32) -> Insn {
    alu(AluOp::Add, dst, Operand::Imm(imm))
}

fn mov(dst: usize, imm: i32) -> Insn {
    alu(AluOp::Mov, dst, Operand::Imm(imm))
}

fn jump(target: usize) -> Insn {
    Insn::Jump { target: target as u32, long: true }
}

fn branch(condition: Condition, left: usize, right: i32, target: usize) -> Insn {
    let right = Operand::Imm(right);
    Insn::Branch { width: Width::W64, condition, left: R[left], right, target: target as u32 }
}

fn load(dst: usize, base: usize, offset: i16) -> Insn {
    Insn::Load { size: Size::Double, signed: false, dst: R[dst], base: R[base], offset }
}

fn store(base: usize, offset: i16, src: usize) -> Insn {
    Insn::Store { size: Size::Double, base: R[base], offset, src: Operand::Reg(R[src]) }
}

fn call(target: usize) -> Insn {
    Insn::CallLocal { target: target as u32 }
}

/// Repeats what `part` makes of its first slot and its number, as often as it fits before the end of the program.
fn repeat(slots: usize, code: &mut Vec<Insn>, mut part: impl FnMut(usize, usize) -> Vec<Insn>) {
    for number in 0.. {
        let more = part(code.len(), number);
        if code.len() + more.len() >= slots {
            break;
        }
        code.extend(more);
    }
    code.resize(slots - 1, add(0, 0));
    code.push(Insn::Exit);
}

fn repeated(slots: usize, part: impl FnMut(usize, usize) -> Vec<Insn>) -> Parts {
    let mut code = vec![alu(AluOp::Mov, 6, Operand::Reg(R[1])), mov(7, 0)];
    repeat(slots, &mut code, part);
    main_of(code)
}

fn main_of(code: Vec<Insn>) -> Parts {
    Parts { code, entries: vec![("main".to_owned(), 0)], ..Parts::default() }
}

/// Every shape with its name.
pub(super) fn all(slots: usize) -> Vec<(&'static str, Parts)> {
    let (half, end) = (slots / 2, slots - 1);
    let any = AtomicOp::Add;
    let nothing_known = |at: usize| vec![load(3, 3, (at % 64) as i16)];
    let mut shapes = vec![
        ("straight line", repeated(slots, |_, number| vec![add(number % 6, 1)])),
        (
            "divisions",
            repeated(slots, |_, number| vec![alu(AluOp::SignedMod, number % 6, Operand::Reg(R[7]))]),
        ),
        (
            "accesses that are proven",
            repeated(slots, |_, number| vec![store(10, -8 * (number % 64 + 1) as i16, 7)]),
        ),
        ("accesses that are checked", repeated(slots, |at, _| nothing_known(at))),
        ("atomic operations", {
            let atomic =
                Insn::Atomic { width: Width::W64, op: any, fetch: true, base: R[6], offset: 8, src: R[7] };
            repeated(slots, |_, _| vec![atomic])
        }),
        (
            "long immediates",
            repeated(slots, |_, _| vec![Insn::LoadImm { dst: R[0], value: 1 << 40 }, Insn::SecondHalf]),
        ),
        (
            "branches that join",
            repeated(slots, |at, number| vec![branch(Condition::Equal, 2, number as i32, at + 2), add(7, 1)]),
        ),
        (
            "branches on what was learned",
            repeated(slots, |at, number| {
                vec![branch(Condition::Greater, 7, number as i32, at + 2), add(7, 3)]
            }),
        ),
        (
            "branches to two places",
            repeated(slots, |at, number| {
                vec![branch(Condition::Equal, 2, number as i32, if at < half { half } else { end })]
            }),
        ),
        (
            "loops one after the other",
            repeated(slots, |at, _| vec![mov(8, 10), add(8, -1), branch(Condition::NotEqual, 8, 0, at + 1)]),
        ),
        (
            "loops that never end",
            repeated(slots, |at, _| vec![add(7, 1), branch(Condition::NotEqual, 7, 0, at)]),
        ),
        (
            "loops in themselves",
            repeated(slots, |at, number| {
                vec![add(number % 4 + 6, 1), branch(Condition::Less, number % 4 + 6, 1000, at)]
            }),
        ),
        ("calls of helpers", repeated(slots, |_, _| vec![Insn::CallHelper { id: ASK }])),
        (
            "calls of helpers that wait",
            repeated(slots, |_, _| vec![mov(2, 64), Insn::CallHelper { id: WAIT }]),
        ),
    ];
    shapes.extend(of_jumps(slots));
    shapes.extend(of_loops(slots));
    shapes.extend(of_functions(slots));
    shapes
}

fn of_jumps(slots: usize) -> Vec<(&'static str, Parts)> {
    let half = slots / 2;
    // From the front to the back, one step further, and to the front again.
    let zigzag = (0..half - 1).map(|at| jump(slots - 2 - at));
    let zagzig = (0..half - 1).map(|at| jump(half - 1 - at));
    let mut deep: Vec<Insn> = zigzag.chain([Insn::Exit]).chain(zagzig).collect();
    deep.resize(slots, Insn::Exit);
    let mut backwards = vec![jump(slots - 2)];
    backwards.push(Insn::Exit);
    backwards.extend((2..slots - 1).map(|at| jump(at - 1)));
    backwards.push(Insn::Exit);
    let next = repeated(slots, |at, _| vec![jump(at + 1)]);
    let stack = {
        let mut code: Vec<Insn> = (1..=64).map(|slot| store(10, -8 * slot, 1)).collect();
        code.extend([mov(2, 8)]);
        repeat(slots, &mut code, |at, number| {
            let mut part = vec![add(7, 1); 15];
            part[0] = if number % 2 == 0 {
                Insn::CallHelper { id: WAIT }
            } else {
                branch(Condition::Set, 7, 1, at + 2)
            };
            part
        });
        main_of(code)
    };
    vec![
        ("jumps to and fro", main_of(deep)),
        ("jumps backwards", main_of(backwards)),
        ("jumps to the next", next),
        ("much that is known of the stack", stack),
    ]
}

fn of_loops(slots: usize) -> Vec<(&'static str, Parts)> {
    let nested = |depth: usize, filling: usize| {
        let mut code = vec![mov(7, 0); 2];
        for number in 0..depth {
            code.push(mov(6 + number % 4, 0));
            code.extend(vec![add(0, 1); filling]);
        }
        for number in (0..depth).rev() {
            code.push(add(6 + number % 4, 1));
            let back = 2 + number * (filling + 1) + 1;
            code.push(branch(Condition::Less, 6 + number % 4, 1000, back.min(code.len())));
        }
        code.resize(slots - 1, add(0, 0));
        code.push(Insn::Exit);
        main_of(code)
    };
    let irreducible = repeated(slots, |at, number| {
        let back = at.saturating_sub(3 * (number % 1000)).max(2);
        vec![
            add(8, 1),
            branch(Condition::Less, 8, number as i32, (at + 5).min(slots - 1)),
            branch(Condition::Set, 8, 1, back),
        ]
    });
    let to_the_first = repeated(slots, |at, number| {
        vec![
            branch(Condition::Less, 7, number as i32, if at < slots / 2 { 2 } else { slots / 2 + 2 }),
            add(7, 1),
        ]
    });
    vec![
        ("loops within loops", nested(slots / 7, 0)),
        ("long loops within loops", nested(slots / 400, 150)),
        ("ways into loops", irreducible),
        ("ways back to the first", to_the_first),
    ]
}

pub(super) fn of_functions(slots: usize) -> Vec<(&'static str, Parts)> {
    // A main that calls `functions` others, each made of `body` of its first slot.
    let calls = |functions: usize, length: usize, body: &dyn Fn(usize, usize) -> Vec<Insn>| {
        let mut code: Vec<Insn> =
            (0..functions).map(|number| call(functions + 1 + number * length)).collect();
        code.push(Insn::Exit);
        for number in 0..functions {
            let at = code.len();
            code.extend(body(at, number));
        }
        main_of(code)
    };
    // Functions call the next one, but not deeper than there are frames.
    let chained = |functions: usize, length: usize| {
        calls(functions, length, &move |at, number| {
            let mut body = vec![add(0, 1); length];
            let is_last = number % 7 == 6 || number + 1 == functions;
            body[0] = if is_last { add(0, 2) } else { call(at + length) };
            body[length - 1] = Insn::Exit;
            body
        })
    };
    let same = {
        let mut code = Vec::new();
        let twice = slots / 2 - 2;
        for number in 0..twice {
            code.extend([mov(1, number as i32 * 977), call(2 * twice + 1)]);
        }
        code.extend([Insn::Exit, alu(AluOp::Mov, 0, Operand::Reg(R[1])), Insn::Exit]);
        main_of(code)
    };
    vec![
        ("many functions", calls(slots / 3 - 1, 2, &|_, _| vec![mov(0, 1), Insn::Exit])),
        ("functions of one instruction", calls(slots / 2 - 1, 1, &|_, _| vec![Insn::Exit])),
        ("functions that call the next", chained(slots / 40, 30)),
        ("few functions at all depths", chained(8, slots / 8 - 2)),
        ("one function with many callers", same),
    ]
}
