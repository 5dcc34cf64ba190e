use proptest::prelude::*;

use super::*;
use crate::helper::{Argument, Helper, Helpers, Quantity, Returns};
use crate::insn::{AluOp, AtomicOp, Condition, Insn, Operand, Reg, Size, SwapOp, Width, decode, encode};
use crate::program::Parts;

fn helpers() -> Helpers {
    let helper = |id, name: &str| Helper {
        id,
        name: name.to_owned(),
        arguments: vec![Argument::Scalar, Argument::Reads(Quantity::Argument(0))],
        returns: Returns::Scalar,
        may_suspend: false,
    };
    Helpers::new(vec![helper(7, "ask"), helper(u32::MAX, "tell")]).unwrap()
}

fn register() -> impl Strategy<Value = Reg> {
    (0..11u8).prop_map(|number| Reg::new(number).unwrap())
}

fn operand() -> impl Strategy<Value = Operand> {
    prop_oneof![
        register().prop_map(Operand::Reg),
        any::<i32>().prop_map(Operand::Imm),
        (-20..20).prop_map(Operand::Imm),
    ]
}

fn width() -> impl Strategy<Value = Width> {
    prop_oneof![Just(Width::W32), Just(Width::W64)]
}

fn from_table<T: Copy + std::fmt::Debug>(table: &'static [(&'static str, T)]) -> impl Strategy<Value = T> {
    proptest::sample::select(table).prop_map(|(_, meaning)| meaning)
}

/// Instructions of all kinds; targets are made good afterwards.
fn instruction_of_any_kind() -> impl Strategy<Value = Insn> {
    prop_oneof![
        (width(), from_table(names::ALU), register(), operand())
            .prop_map(|(width, op, dst, src)| Insn::Alu { width, op, dst, src }),
        (width(), register()).prop_map(|(width, dst)| Insn::Neg { width, dst }),
        (from_table(names::SIGNED_MOVES), register(), register())
            .prop_map(|((from, width), dst, src)| Insn::MovSigned { width, from, dst, src }),
        (from_table(names::SWAPS), register()).prop_map(|((op, size), dst)| Insn::Swap { op, size, dst }),
        (register(), any::<u64>()).prop_map(|(dst, value)| Insn::LoadImm { dst, value }),
        (from_table(names::LOADS), register(), register(), any::<i16>())
            .prop_map(|((size, signed), dst, base, offset)| Insn::Load { size, signed, dst, base, offset }),
        (from_table(names::STORES_OF_CONSTANTS), register(), any::<i16>(), operand())
            .prop_map(|(size, base, offset, src)| Insn::Store { size, base, offset, src }),
        (width(), from_table(names::ATOMICS), register(), any::<i16>(), register()).prop_map(
            |(width, (op, fetch), base, offset, src)| Insn::Atomic { width, op, fetch, base, offset, src }
        ),
        (any::<u32>(), any::<bool>()).prop_map(|(target, long)| Insn::Jump { target, long }),
        (width(), from_table(names::CONDITIONS), register(), operand(), any::<u32>()).prop_map(
            |(width, condition, left, right, target)| Insn::Branch { width, condition, left, right, target }
        ),
        any::<u32>().prop_map(|target| Insn::CallLocal { target }),
        prop_oneof![Just(7), Just(u32::MAX), 0..100u32].prop_map(|id| Insn::CallHelper { id }),
        Just(Insn::Exit),
    ]
}

prop_compose! {
    fn parts()(
        insns in prop::collection::vec(instruction_of_any_kind(), 1..60),
        rodata in prop::collection::vec(any::<u8>(), 0..80),
        data in prop::collection::vec(any::<u8>(), 0..80),
        entry in any::<prop::sample::Index>(),
        local in any::<prop::sample::Index>(),
    ) -> Parts {
        let mut code = Vec::new();
        for insn in insns {
            code.push(insn);
            code.extend((insn.slots() == 2).then_some(Insn::SecondHalf));
        }
        let length = code.len() as u32;
        let begins: Vec<bool> = code.iter().map(|insn| *insn != Insn::SecondHalf).collect();
        let nearby = |target: u32| (0..=target % length).rev().find(|slot| begins[*slot as usize]).unwrap_or(0);
        for insn in &mut code {
            if let Insn::Jump { target, .. } | Insn::Branch { target, .. } | Insn::CallLocal { target } = insn {
                *target = nearby(*target);
            }
        }
        let entries = vec![("main.first$".to_owned(), nearby(entry.index(length as usize) as u32))];
        let locals = vec![("_other".to_owned(), nearby(local.index(length as usize) as u32))];
        Parts { code, entries, locals, rodata, data }
    }
}

proptest! {
    #[test]
    fn what_is_disassembled_assembles_to_the_same(parts in parts()) {
        let text = disassemble(&parts, &helpers());
        prop_assert_eq!(assemble(&text, &helpers()), Ok(parts), "{}", text);
    }

    #[test]
    fn what_is_encoded_decodes_to_the_same(parts in parts()) {
        prop_assert_eq!(decode(&encode(&parts.code)).unwrap(), parts.code);
    }

    #[test]
    fn bytes_that_decode_encode_to_the_same(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        if let Ok(code) = decode(&bytes) {
            prop_assert_eq!(encode(&code), bytes);
        }
    }

    #[test]
    fn any_text_is_assembled_or_refused(text in "([a-z0-9@.:, \\[\\]+\\-%;]{0,20}\n){0,6}") {
        let _ = assemble(&text, &helpers());
    }
}

#[test]
fn slots_with_one_meaningless_bit_are_refused_or_encode_to_the_same() {
    // Every opcode with each other bit set alone: nothing is ignored.
    for opcode in 0..=255u8 {
        for bit in 0..56 {
            let mut bytes = [0; 16];
            bytes[0] = opcode;
            bytes[1 + bit / 8] = 1 << (bit % 8);
            if opcode != 0x18 {
                bytes[8] = 0x95;
            }
            if let Ok(code) = decode(&bytes) {
                assert_eq!(encode(&code), bytes, "opcode {opcode:#x}, bit {bit}");
            }
        }
    }
}

const EVERY_KIND_OF_LINE: &str = "
    .rodata 68 65 6c # constants
    .entry sum
        mov %r0, 0
    loop:
        jeq r2, 0, done ; to a label
        ldxb r3, [r1]
        add r0, r3
        add r1, 0xffffffff
        sub r2, -1
        lock cmpxchg32 [r10-8], r3
        movsx1632 r1, r2
        ja loop
    done:
        jset32 r1, r2, +1
        call ask
        call local twice
        exit
    .function twice
        lddw r0, -2
        be16 r0
        stxh [ r1 + 0x10 ], r2
        exit";

#[test]
fn the_text_form_is_what_its_description_says() {
    let parts = assemble(EVERY_KIND_OF_LINE, &helpers()).unwrap();
    let r = |number| Reg::new(number).unwrap();
    let alu = |op, dst, src| Insn::Alu { width: Width::W64, op, dst: r(dst), src };
    let branch = |width, condition, left, right, target| Insn::Branch {
        width,
        condition,
        left: r(left),
        right,
        target,
    };
    let expected = [
        alu(AluOp::Mov, 0, Operand::Imm(0)),
        branch(Width::W64, Condition::Equal, 2, Operand::Imm(0), 9),
        Insn::Load { size: Size::Byte, signed: false, dst: r(3), base: r(1), offset: 0 },
        alu(AluOp::Add, 0, Operand::Reg(r(3))),
        alu(AluOp::Add, 1, Operand::Imm(-1)),
        alu(AluOp::Sub, 2, Operand::Imm(-1)),
        Insn::Atomic {
            width: Width::W32,
            op: AtomicOp::CompareExchange,
            fetch: true,
            base: r(10),
            offset: -8,
            src: r(3),
        },
        Insn::MovSigned { width: Width::W32, from: Size::Half, dst: r(1), src: r(2) },
        Insn::Jump { target: 1, long: false },
        branch(Width::W32, Condition::Set, 1, Operand::Reg(r(2)), 11),
        Insn::CallHelper { id: 7 },
        Insn::CallLocal { target: 13 },
        Insn::Exit,
        Insn::LoadImm { dst: r(0), value: -2i64 as u64 },
        Insn::SecondHalf,
        Insn::Swap { op: SwapOp::ToBig, size: Size::Half, dst: r(0) },
        Insn::Store { size: Size::Half, base: r(1), offset: 16, src: Operand::Reg(r(2)) },
        Insn::Exit,
    ];
    assert_eq!(parts.code, expected);
    assert_eq!(parts.entries, [("sum".to_owned(), 0)]);
    assert_eq!(parts.locals, [("twice".to_owned(), 13)]);
    assert_eq!(parts.rodata, b"hel");
}

#[test]
fn mistakes_name_their_line() {
    let refused = |text: &str| assemble(text, &helpers()).unwrap_err().to_string();
    assert_eq!(refused("exit\nfly r0"), "line 2: there is no instruction `fly`");
    assert_eq!(refused("mov r0"), "line 1: expected 2 operands, found 1");
    assert_eq!(refused("mov r11, 0"), "line 1: expected a register, found `r11`");
    assert_eq!(refused("mov r0, 0x1ffffffff"), "line 1: expected a number in range, found `0x1ffffffff`");
    assert_eq!(refused("ja nowhere"), "line 1: there is no label `nowhere`");
    assert_eq!(refused("a:\na:"), "line 2: the label `a` is already taken");
    assert_eq!(refused("call fly"), "line 1: there is no helper `fly`");
    assert_eq!(
        refused("ja +1\nexit"),
        "line 1: the target is 1 instructions away, too far or outside of the program"
    );
    assert_eq!(refused("ldxw r0, r1"), "line 1: expected an address such as [r1+4], found `r1`");
    assert_eq!(refused(".rodata 123"), "line 1: expected bytes in hex, found `123`");
}
