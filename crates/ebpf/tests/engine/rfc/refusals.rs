//! What is refused before it is run.

use outboard_ebpf::insn::{Flaw, InsnDecodeError, decode};
use outboard_ebpf::text::assemble;
use outboard_ebpf::{Helpers, Parts, Program, ProgramError};

fn slot(opcode: u8, registers: u8, offset: i16, imm: i32) -> [u8; 8] {
    let ([o0, o1], [i0, i1, i2, i3]) = (offset.to_le_bytes(), imm.to_le_bytes());
    [opcode, registers, o0, o1, i0, i1, i2, i3]
}

const EXIT: [u8; 8] = [0x95, 0, 0, 0, 0, 0, 0, 0];

fn flaw(slots: &[[u8; 8]]) -> Flaw {
    let InsnDecodeError { index, flaw } = decode(&slots.concat()).unwrap_err();
    assert_eq!(index, 0);
    flaw
}

#[test]
fn opcodes_without_meaning() {
    for opcode in [
        0x00, 0x08, 0x80, 0x99, 0xe4, 0xf7, 0xe5, 0xf6, 0x8d, 0x86, 0x96, 0x9d, 0x0d, 0x0e, 0x8f, 0xdf, 0xc2,
        0xd3, 0xcb,
    ] {
        assert_eq!(flaw(&[slot(opcode, 0, 0, 0), EXIT]), Flaw::Undefined { opcode }, "{opcode:#x}");
    }
}

#[test]
fn legacy_packet_instructions_are_refused_by_name() {
    for opcode in [0x20, 0x28, 0x30, 0x40, 0x48, 0x50] {
        let flaw = flaw(&[slot(opcode, 0, 0, 0), EXIT]);
        assert_eq!(flaw, Flaw::LegacyPacket { opcode });
        assert!(flaw.to_string().contains("legacy packet instruction"));
    }
}

#[test]
fn operands_without_meaning() {
    for (slot, expected) in [
        (slot(0xbf, 0x0b, 0, 0), Flaw::NoRegister { number: 11 }),
        (slot(0xbf, 0xf0, 0, 0), Flaw::NoRegister { number: 15 }),
        (slot(0x07, 0, 1, 0), Flaw::Reserved { field: "offset" }),
        (slot(0x37, 0, 2, 0), Flaw::Reserved { field: "offset" }),
        (slot(0x0f, 0, 0, 1), Flaw::Reserved { field: "imm" }),
        (slot(0x07, 0x10, 0, 1), Flaw::Reserved { field: "src" }),
        (slot(0x87, 0, 0, 1), Flaw::Reserved { field: "imm" }),
        (slot(0xd4, 0, 0, 8), Flaw::Undefined { opcode: 0xd4 }),
        (slot(0xbf, 0, 7, 0), Flaw::Reserved { field: "offset" }),
        (slot(0xbc, 0, 32, 0), Flaw::Undefined { opcode: 0xbc }),
        (slot(0xb7, 0, 8, 0), Flaw::Undefined { opcode: 0xb7 }),
        (slot(0x99, 0, 0, 0), Flaw::Undefined { opcode: 0x99 }),
        (slot(0xdb, 0, 0, 0xe0), Flaw::Undefined { opcode: 0xdb }),
        (slot(0xdb, 0, 0, 0x02), Flaw::Undefined { opcode: 0xdb }),
        (slot(0x85, 0x20, 0, 1), Flaw::CallByType),
        (slot(0x85, 0x30, 0, 1), Flaw::Reserved { field: "src" }),
        (slot(0x18, 0x10, 0, 1), Flaw::KernelObject { kind: 1 }),
        (slot(0x95, 1, 0, 0), Flaw::Reserved { field: "dst" }),
        (slot(0x05, 0, 1, 0), Flaw::Target { target: 2 }),
        (slot(0x05, 0, -2, 0), Flaw::Target { target: -1 }),
        (slot(0x06, 0, 0, i32::MAX), Flaw::Target { target: i64::from(i32::MAX) + 1 }),
        (slot(0x15, 0, 5, 0), Flaw::Target { target: 6 }),
        (slot(0x85, 0x10, 0, -3), Flaw::Target { target: -2 }),
    ] {
        assert_eq!(flaw(&[slot, EXIT]), expected, "{slot:02x?}");
    }
}

#[test]
fn halves_of_wide_constants() {
    assert_eq!(flaw(&[slot(0x18, 0, 0, 1)]), Flaw::Truncated);
    assert_eq!(flaw(&[slot(0x18, 0, 0, 1), EXIT]), Flaw::Reserved { field: "opcode of the second slot" });
    assert_eq!(flaw(&[slot(0x18, 0, 0, 1), slot(0, 1, 0, 0)]), Flaw::Reserved { field: "dst" });
    assert_eq!(decode(&[0x95, 0, 0]).unwrap_err(), InsnDecodeError { index: 0, flaw: Flaw::Truncated });
}

fn refusal(text: &str) -> ProgramError {
    let helpers = Helpers::default();
    Program::new(assemble(text, &helpers).unwrap(), helpers).unwrap_err()
}

#[test]
fn programs_that_can_never_be_right() {
    let empty = Program::new(Parts::default(), Helpers::default()).unwrap_err();
    assert_eq!(empty, ProgramError::Empty);
    let falls_off = |index, name: &str| ProgramError::FallsOff { index, name: name.to_owned() };
    assert_eq!(refusal("mov r0, 0"), falls_off(0, "main"));
    assert_eq!(refusal("exit\nlddw r0, 1"), falls_off(2, "main"));
    assert_eq!(refusal("jeq r0, 0, -1"), falls_off(0, "main"));
    assert_eq!(refusal("call local f\nf:\nexit"), falls_off(0, "main"));
    assert_eq!(refusal("ja +1\nlddw r0, 1\nexit"), ProgramError::Jump { index: 0, target: 2 });
    assert_eq!(refusal("call local f\nexit\nf:\nja -2"), ProgramError::Jump { index: 2, target: 1 });
    for text in ["mov r10, 0", "ldxb r10, [r1]", "lddw r10, 1", "neg r10", "lock xchg [r1], r10", "be16 r10"]
    {
        assert_eq!(
            refusal(&format!("{text}\nexit")),
            ProgramError::WritesFramePointer { index: 0 },
            "{text}"
        );
    }
    assert_eq!(refusal("exit\ncall 3\nexit"), ProgramError::UnknownHelper { index: 1, id: 3 });
    let name = "function_2".to_owned();
    assert_eq!(refusal("call local +1\nlddw r0, 1\nexit"), ProgramError::Function { name, start: 2 });
}

#[test]
fn variables_do_not_travel() {
    let wait = outboard_ebpf::Helper {
        id: 1,
        name: "wait".to_owned(),
        arguments: Vec::new(),
        returns: outboard_ebpf::Returns::Scalar,
        may_suspend: true,
    };
    let helpers = Helpers::new(vec![wait]).unwrap();
    let data = outboard_ebpf::memory::DATA;
    let text = format!(".data 00\n.entry waits\ncall wait\nexit\n.entry counts\nlddw r1, {data:#x}\nexit\n");
    assert!(Program::new(assemble(&text, &helpers).unwrap(), helpers.clone()).is_ok());
    let text = format!(
        ".data 00\n.entry waits\nlddw r1, {data:#x}\ncall local deep\nexit\n.function deep\ncall wait\nexit\n"
    );
    let error = Program::new(assemble(&text, &helpers).unwrap(), helpers).unwrap_err();
    assert_eq!(error, ProgramError::Variable { index: 0, name: "waits".to_owned() });
}
