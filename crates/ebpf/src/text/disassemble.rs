//! From programs to text.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::names;
use crate::helper::Helpers;
use crate::insn::{Insn, Operand, Width};
use crate::program::Parts;

/// The whole program, so that [`assemble`](super::assemble()) gives the same parts again, if its functions'
/// names are as the text form wants them; those of a [`Program`](crate::Program) are.
pub fn disassemble(parts: &Parts, helpers: &Helpers) -> String {
    let mut text = String::new();
    for (name, bytes) in [("rodata", &parts.rodata), ("data", &parts.data)] {
        for line in bytes.chunks(32) {
            let hex: String = line.iter().map(|byte| format!("{byte:02x}")).collect();
            text += &format!(".{name} {hex}\n");
        }
    }
    let mut functions: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for (kind, named) in [("entry", &parts.entries), ("function", &parts.locals)] {
        for (name, start) in named {
            functions.entry(*start).or_default().push(format!(".{kind} {name}\n"));
        }
    }
    let targets: std::collections::BTreeSet<u32> = parts.code.iter().filter_map(target).collect();
    let mut functions = functions.into_iter().peekable();
    for (index, insn) in (0..).zip(&parts.code) {
        while let Some((_, lines)) = functions.next_if(|(start, _)| *start <= index) {
            text.extend(lines);
        }
        if targets.contains(&index) {
            text += &format!("@{index}:\n");
        }
        if *insn != Insn::SecondHalf {
            text += &format!("    {}\n", instruction(insn, helpers));
        }
    }
    // Functions without instructions are for the program to refuse, not for the text.
    text.extend(functions.flat_map(|(_, lines)| lines));
    text
}

fn target(insn: &Insn) -> Option<u32> {
    match insn {
        Insn::CallLocal { target } => Some(*target),
        _ => insn.jump_target(),
    }
}

/// One instruction; where it goes is told as `@` and the slot.
pub fn instruction(insn: &Insn, helpers: &Helpers) -> String {
    match *insn {
        Insn::Alu { width, op, dst, src } => {
            format!("{}{} {dst}, {}", names::name_of(names::ALU, op), suffix(width), operand(src))
        }
        Insn::Neg { width, dst } => format!("neg{} {dst}", suffix(width)),
        Insn::MovSigned { width, from, dst, src } => {
            format!("{} {dst}, {src}", names::name_of(names::SIGNED_MOVES, (from, width)))
        }
        Insn::Swap { op, size, dst } => format!("{} {dst}", names::name_of(names::SWAPS, (op, size))),
        Insn::LoadImm { dst, value } => format!("lddw {dst}, {value:#x}"),
        Insn::SecondHalf => String::new(),
        Insn::Load { size, signed, dst, base, offset } => {
            format!("{} {dst}, [{base}{offset:+}]", names::name_of(names::LOADS, (size, signed)))
        }
        Insn::Store { size, base, offset, src } => {
            let table = match src {
                Operand::Imm(_) => names::STORES_OF_CONSTANTS,
                Operand::Reg(_) => names::STORES_OF_REGISTERS,
            };
            format!("{} [{base}{offset:+}], {}", names::name_of(table, size), operand(src))
        }
        Insn::Atomic { width, op, fetch, base, offset, src } => {
            let name = names::name_of(names::ATOMICS, (op, fetch));
            format!("lock {name}{} [{base}{offset:+}], {src}", suffix(width))
        }
        Insn::Jump { target, long } => format!("{} @{target}", if long { "ja32" } else { "ja" }),
        Insn::Branch { width, condition, left, right, target } => {
            let name = names::name_of(names::CONDITIONS, condition);
            format!("{name}{} {left}, {}, @{target}", suffix(width), operand(right))
        }
        Insn::CallLocal { target } => format!("call local @{target}"),
        Insn::CallHelper { id } => match helpers.get(id) {
            Some(helper) => format!("call {}", helper.name),
            None => format!("call {id}"),
        },
        Insn::Exit => "exit".to_owned(),
    }
}

fn suffix(width: Width) -> &'static str {
    if width == Width::W32 { "32" } else { "" }
}

fn operand(operand: Operand) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = match operand {
        Operand::Reg(register) => write!(text, "{register}"),
        Operand::Imm(imm) if (-4096..=4096).contains(&imm) => write!(text, "{imm}"),
        Operand::Imm(imm) => write!(text, "{imm:#x}"),
    };
    text
}
