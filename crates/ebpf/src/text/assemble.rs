//! From text to programs.

use std::collections::HashMap;

use super::names;
use crate::helper::Helpers;
use crate::insn::{Insn, Operand, Reg};
use crate::program::{MAX_DATA, MAX_SLOTS, Parts, is_name};

/// A text that is no program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {mistake}")]
pub struct AssembleError {
    /// Which line, the first is 1.
    pub line: usize,
    /// What is wrong with it.
    pub mistake: Mistake,
}

/// What is wrong with a line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Mistake {
    /// No instruction or directive has this name.
    #[error("there is no instruction `{0}`")]
    Mnemonic(String),
    /// Too many or too few.
    #[error("expected {wanted} operands, found {found}")]
    Operands {
        /// How many there should be.
        wanted: usize,
        /// How many there are.
        found: usize,
    },
    /// Something else was expected there.
    #[error("expected {wanted}, found `{found}`")]
    Expected {
        /// What.
        wanted: &'static str,
        /// What was there.
        found: String,
    },
    /// A name that is not defined anywhere.
    #[error("there is no label `{0}`")]
    NoLabel(String),
    /// A name that is defined twice.
    #[error("the label `{0}` is already taken")]
    LabelTwice(String),
    /// A helper that the table does not have.
    #[error("there is no helper `{0}`")]
    NoHelper(String),
    /// A target that the instruction cannot reach.
    #[error("the target is {0} instructions away, too far or outside of the program")]
    Distance(i64),
    /// More code or data than a program can have.
    #[error("the program becomes too long")]
    TooLong,
}

/// Where an instruction goes, before all labels are known.
struct Reference {
    line: usize,
    index: usize,
    target: String,
}

/// Reads a text; names of helpers are looked up in the table.
pub fn assemble(text: &str, helpers: &Helpers) -> Result<Parts, AssembleError> {
    let mut assembler = Assembler::new(helpers);
    for (line, text) in (1..).zip(text.lines()) {
        assembler.line = line;
        assembler.read(text).map_err(|mistake| AssembleError { line, mistake })?;
    }
    assembler.finish()
}

struct Assembler<'a> {
    helpers: &'a Helpers,
    parts: Parts,
    labels: HashMap<String, u32>,
    references: Vec<Reference>,
    line: usize,
}

impl<'a> Assembler<'a> {
    fn new(helpers: &'a Helpers) -> Assembler<'a> {
        let (labels, references) = (HashMap::new(), Vec::new());
        Assembler { helpers, parts: Parts::default(), labels, references, line: 0 }
    }

    fn finish(mut self) -> Result<Parts, AssembleError> {
        for reference in std::mem::take(&mut self.references) {
            let Reference { line, index, target } = reference;
            self.resolve(index, &target).map_err(|mistake| AssembleError { line, mistake })?;
        }
        if self.parts.entries.is_empty() {
            self.parts.entries.push(("main".to_owned(), 0));
        }
        Ok(self.parts)
    }

    /// Puts the target where `index` expects it.
    fn resolve(&mut self, index: usize, target: &str) -> Result<(), Mistake> {
        let next = index as i64 + 1;
        let place = if target.starts_with(['+', '-']) {
            let distance: i32 = target.parse().map_err(|_| expected("a label or a distance", target))?;
            next + i64::from(distance)
        } else {
            let label = self.labels.get(target).ok_or_else(|| Mistake::NoLabel(target.to_owned()))?;
            i64::from(*label)
        };
        let distance = place - next;
        let is_short = matches!(self.parts.code[index], Insn::Branch { .. } | Insn::Jump { long: false, .. });
        let reachable = (0..self.parts.code.len() as i64).contains(&place)
            && (!is_short || i16::try_from(distance).is_ok());
        if !reachable {
            return Err(Mistake::Distance(distance));
        }
        match &mut self.parts.code[index] {
            Insn::Branch { target, .. } | Insn::Jump { target, .. } | Insn::CallLocal { target } => {
                *target = place as u32;
            }
            // Only these were pushed with a target.
            _ => {}
        }
        Ok(())
    }

    fn read(&mut self, line: &str) -> Result<(), Mistake> {
        let line = line.split([';', '#']).next().unwrap_or_default().trim();
        if line.is_empty() {
            return Ok(());
        }
        if let Some(label) = line.strip_suffix(':') {
            let valid =
                label.strip_prefix('@').map_or(is_name(label), |digits| digits.parse::<u32>().is_ok());
            return if valid { self.label(label) } else { Err(expected("a label", label)) };
        }
        let (mnemonic, rest) = split(line);
        match mnemonic {
            ".rodata" => data(&mut self.parts.rodata, rest),
            ".data" => data(&mut self.parts.data, rest),
            ".entry" => {
                self.function(rest)?;
                self.parts.entries.push((rest.to_owned(), self.parts.code.len() as u32));
                Ok(())
            }
            ".function" => {
                self.function(rest)?;
                self.parts.locals.push((rest.to_owned(), self.parts.code.len() as u32));
                Ok(())
            }
            "lock" => {
                let (mnemonic, rest) = split(rest);
                let insn = atomic(mnemonic, &operands(rest))?;
                self.push(insn)
            }
            _ => self.instruction(mnemonic, rest),
        }
    }

    fn function(&mut self, name: &str) -> Result<(), Mistake> {
        if is_name(name) { self.label(name) } else { Err(expected("the function's name", name)) }
    }

    fn label(&mut self, name: &str) -> Result<(), Mistake> {
        match self.labels.insert(name.to_owned(), self.parts.code.len() as u32) {
            None => Ok(()),
            Some(_) => Err(Mistake::LabelTwice(name.to_owned())),
        }
    }

    fn push(&mut self, insn: Insn) -> Result<(), Mistake> {
        if self.parts.code.len() + insn.slots() > MAX_SLOTS {
            return Err(Mistake::TooLong);
        }
        self.parts.code.push(insn);
        if insn.slots() == 2 {
            self.parts.code.push(Insn::SecondHalf);
        }
        Ok(())
    }

    /// Pushes an instruction whose target is not known yet.
    fn push_reference(&mut self, insn: Insn, target: &str) -> Result<(), Mistake> {
        let index = self.parts.code.len();
        self.references.push(Reference { line: self.line, index, target: target.to_owned() });
        self.push(insn)
    }

    fn instruction(&mut self, mnemonic: &str, rest: &str) -> Result<(), Mistake> {
        let operands = operands(rest);
        if let Some((condition, width)) = names::find_with_width(names::CONDITIONS, mnemonic) {
            let [left, right, target] = exactly(&operands)?;
            let (left, right) = (register(left)?, second_operand(right)?);
            return self.push_reference(Insn::Branch { width, condition, left, right, target: 0 }, target);
        }
        match mnemonic {
            "ja" | "ja32" => {
                let [target] = exactly(&operands)?;
                self.push_reference(Insn::Jump { target: 0, long: mnemonic == "ja32" }, target)
            }
            "call" => {
                let [callee] = exactly(&operands)?;
                match callee.strip_prefix("local").filter(|rest| rest.starts_with(char::is_whitespace)) {
                    Some(target) => self.push_reference(Insn::CallLocal { target: 0 }, target.trim()),
                    None => {
                        let id = self.helper(callee)?;
                        self.push(Insn::CallHelper { id })
                    }
                }
            }
            _ => {
                let insn = plain(mnemonic, &operands)?;
                self.push(insn)
            }
        }
    }

    fn helper(&self, callee: &str) -> Result<u32, Mistake> {
        if callee.starts_with(|first: char| first.is_ascii_digit()) {
            return number(callee, 0, u32::MAX.into()).map(|id| id as u32);
        }
        let found = self.helpers.all().iter().find(|helper| helper.name == callee);
        found.map(|helper| helper.id).ok_or_else(|| Mistake::NoHelper(callee.to_owned()))
    }
}

/// Instructions that go nowhere.
fn plain(mnemonic: &str, operands: &[&str]) -> Result<Insn, Mistake> {
    if let Some((op, width)) = names::find_with_width(names::ALU, mnemonic) {
        let [dst, src] = exactly(operands)?;
        return Ok(Insn::Alu { width, op, dst: register(dst)?, src: second_operand(src)? });
    }
    if let Some(((), width)) = names::find_with_width(&[("neg", ())], mnemonic) {
        let [dst] = exactly(operands)?;
        return Ok(Insn::Neg { width, dst: register(dst)? });
    }
    if let Some((from, width)) = names::find(names::SIGNED_MOVES, mnemonic) {
        let [dst, src] = exactly(operands)?;
        return Ok(Insn::MovSigned { width, from, dst: register(dst)?, src: register(src)? });
    }
    if let Some((op, size)) = names::find(names::SWAPS, mnemonic) {
        let [dst] = exactly(operands)?;
        return Ok(Insn::Swap { op, size, dst: register(dst)? });
    }
    if let Some((size, signed)) = names::find(names::LOADS, mnemonic) {
        let [dst, place] = exactly(operands)?;
        let (base, offset) = memory(place)?;
        return Ok(Insn::Load { size, signed, dst: register(dst)?, base, offset });
    }
    if let Some(size) = names::find(names::STORES_OF_CONSTANTS, mnemonic) {
        let [place, src] = exactly(operands)?;
        let (base, offset) = memory(place)?;
        return Ok(Insn::Store { size, base, offset, src: Operand::Imm(constant(src)?) });
    }
    if let Some(size) = names::find(names::STORES_OF_REGISTERS, mnemonic) {
        let [place, src] = exactly(operands)?;
        let (base, offset) = memory(place)?;
        return Ok(Insn::Store { size, base, offset, src: Operand::Reg(register(src)?) });
    }
    match mnemonic {
        "lddw" => {
            let [dst, value] = exactly(operands)?;
            let value = number(value, i64::MIN.into(), u64::MAX.into())? as u64;
            Ok(Insn::LoadImm { dst: register(dst)?, value })
        }
        "exit" => {
            let [] = exactly(operands)?;
            Ok(Insn::Exit)
        }
        _ => Err(Mistake::Mnemonic(mnemonic.to_owned())),
    }
}

fn atomic(mnemonic: &str, operands: &[&str]) -> Result<Insn, Mistake> {
    let found = names::find_with_width(names::ATOMICS, mnemonic);
    let ((op, fetch), width) = found.ok_or_else(|| Mistake::Mnemonic(format!("lock {mnemonic}")))?;
    let [place, src] = exactly(operands)?;
    let (base, offset) = memory(place)?;
    Ok(Insn::Atomic { width, op, fetch, base, offset, src: register(src)? })
}

fn expected(wanted: &'static str, found: &str) -> Mistake {
    Mistake::Expected { wanted, found: found.to_owned() }
}

/// The first word, and what follows it.
fn split(line: &str) -> (&str, &str) {
    let (first, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    (first, rest.trim())
}

fn operands(rest: &str) -> Vec<&str> {
    if rest.is_empty() { Vec::new() } else { rest.split(',').map(str::trim).collect() }
}

fn exactly<'a, const N: usize>(operands: &[&'a str]) -> Result<[&'a str; N], Mistake> {
    operands.try_into().map_err(|_| Mistake::Operands { wanted: N, found: operands.len() })
}

fn register(text: &str) -> Result<Reg, Mistake> {
    let digits = text.strip_prefix('%').unwrap_or(text).strip_prefix('r');
    let number = digits.filter(|digits| digits.bytes().all(|digit| digit.is_ascii_digit()));
    let register = number.and_then(|digits| Reg::new(digits.parse().ok()?));
    register.ok_or_else(|| expected("a register", text))
}

fn second_operand(text: &str) -> Result<Operand, Mistake> {
    if text.starts_with(['r', '%']) {
        Ok(Operand::Reg(register(text)?))
    } else {
        Ok(Operand::Imm(constant(text)?))
    }
}

/// 32 bits, signed or not.
fn constant(text: &str) -> Result<i32, Mistake> {
    number(text, i32::MIN.into(), u32::MAX.into()).map(|value| value as u32 as i32)
}

/// `[r1+4]`
fn memory(text: &str) -> Result<(Reg, i16), Mistake> {
    let wrong = || expected("an address such as [r1+4]", text);
    let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).ok_or_else(wrong)?.trim();
    let sign = inner.find(['+', '-']).unwrap_or(inner.len());
    let (base, offset) = inner.split_at(sign);
    let offset = if offset.is_empty() { 0 } else { number(offset, i16::MIN.into(), i16::MAX.into())? };
    Ok((register(base.trim())?, offset as i16))
}

/// Decimal or hexadecimal, with an optional sign.
fn number(text: &str, least: i128, most: i128) -> Result<i128, Mistake> {
    let (negative, magnitude) = match text.split_at_checked(1) {
        Some(("-", rest)) => (true, rest.trim_start()),
        Some(("+", rest)) => (false, rest.trim_start()),
        _ => (false, text),
    };
    let parsed = match magnitude.strip_prefix("0x") {
        Some(hex) if !hex.starts_with('+') => u64::from_str_radix(hex, 16),
        _ if magnitude.starts_with('+') => return Err(expected("a number", text)),
        _ => magnitude.parse(),
    };
    let value = parsed.map(|value| if negative { -i128::from(value) } else { value.into() });
    value
        .ok()
        .filter(|value| (least..=most).contains(value))
        .ok_or_else(|| expected("a number in range", text))
}

fn data(section: &mut Vec<u8>, hex: &str) -> Result<(), Mistake> {
    let digits: Vec<u8> = hex.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    if section.len() + digits.len() / 2 > MAX_DATA {
        return Err(Mistake::TooLong);
    }
    let (pairs, rest) = digits.as_chunks::<2>();
    let digit = |byte: u8| char::from(byte).to_digit(16);
    for pair in pairs {
        let (Some(high), Some(low)) = (digit(pair[0]), digit(pair[1])) else {
            return Err(expected("bytes in hex", hex));
        };
        section.push((high << 4 | low) as u8);
    }
    if rest.is_empty() { Ok(()) } else { Err(expected("bytes in hex", hex)) }
}
