//! What can never be right, and where functions and basic blocks begin.

use super::{Function, MAX_DATA, MAX_SLOTS, Parts, ProgramError};
use crate::helper::Helpers;
use crate::insn::{Insn, Reg};
use crate::memory::{AREA_SHIFT, DATA_AREA};

/// Checks everything, and gives the functions in the order of their first slots.
pub(super) fn verify(parts: &Parts, helpers: &Helpers) -> Result<Box<[Function]>, ProgramError> {
    let code = &parts.code;
    if code.is_empty() {
        return Err(ProgramError::Empty);
    }
    if code.len() > MAX_SLOTS {
        return Err(ProgramError::TooLong { slots: code.len() });
    }
    for (what, bytes) in [("constants", &parts.rodata), ("variables", &parts.data)] {
        if bytes.len() > MAX_DATA {
            return Err(ProgramError::TooMuchData { what, length: bytes.len() });
        }
    }
    halves(code)?;
    let mut functions = functions(parts)?;
    for function in &functions {
        body(code, function, helpers)?;
    }
    suspensions(code, &mut functions, helpers);
    variables(code, &functions)?;
    Ok(functions.into())
}

/// Second halves are where they belong, and only there.
fn halves(code: &[Insn]) -> Result<(), ProgramError> {
    let mut expected = false;
    for (index, insn) in code.iter().enumerate() {
        if (*insn == Insn::SecondHalf) != expected {
            return Err(ProgramError::Half { index: index as u32 });
        }
        expected = insn.slots() == 2;
    }
    if expected { Err(ProgramError::Half { index: code.len() as u32 - 1 }) } else { Ok(()) }
}

fn begins(code: &[Insn], index: u32) -> bool {
    code.get(index as usize).is_some_and(|insn| *insn != Insn::SecondHalf)
}

/// Functions begin where they are named, where they are called, and at the first slot.
fn functions(parts: &Parts) -> Result<Vec<Function>, ProgramError> {
    let mut starts: Vec<(u32, Option<String>, bool)> = Vec::new();
    let named = parts.entries.iter().map(|named| (named, true));
    for ((name, start), is_entry) in named.chain(parts.locals.iter().map(|named| (named, false))) {
        if !begins(&parts.code, *start) {
            return Err(ProgramError::Function { name: name.clone(), start: *start });
        }
        if !super::is_name(name) {
            return Err(ProgramError::Name { name: name.clone() });
        }
        starts.push((*start, Some(name.clone()), is_entry));
    }
    let called = parts.code.iter().filter_map(|insn| match insn {
        Insn::CallLocal { target } => Some(*target),
        _ => None,
    });
    for start in called.chain([0]) {
        if !begins(&parts.code, start) {
            return Err(ProgramError::Function { name: format!("function_{start}"), start });
        }
        starts.push((start, None, false));
    }
    // Behind a name for a slot come the mentions of it without a name, which say nothing new.
    starts.sort_by_key(|start| (start.0, start.1.is_none()));
    starts.dedup_by(|later, first| later.0 == first.0 && later.1.is_none());
    if let Some(pair) = starts.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        return Err(ProgramError::Name { name: pair[1].1.clone().unwrap_or_default() });
    }
    let ends = starts.iter().skip(1).map(|(start, ..)| *start).chain([parts.code.len() as u32]);
    let mut functions = Vec::with_capacity(starts.len());
    for ((start, name, is_entry), end) in starts.iter().zip(ends) {
        let name = name.clone().unwrap_or_else(|| format!("function_{start}"));
        functions.push(Function { name, start: *start, end, is_entry: *is_entry, may_suspend: false });
    }
    let mut names: Vec<&String> = functions.iter().map(|function| &function.name).collect();
    names.sort();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(ProgramError::Name { name: pair[0].clone() }),
        None => Ok(functions),
    }
}

fn slots<'a>(code: &'a [Insn], function: &Function) -> impl DoubleEndedIterator<Item = (u32, &'a Insn)> {
    (function.start..function.end).zip(&code[function.start as usize..function.end as usize])
}

fn body(code: &[Insn], function: &Function, helpers: &Helpers) -> Result<(), ProgramError> {
    for (index, insn) in slots(code, function) {
        if let Some(target) = insn.jump_target() {
            let within = (function.start..function.end).contains(&target);
            if !within || !begins(code, target) {
                return Err(ProgramError::Jump { index, target });
            }
        }
        if insn.written() == Some(Reg::R10) {
            return Err(ProgramError::WritesFramePointer { index });
        }
        if let Insn::CallHelper { id } = *insn
            && helpers.get(id).is_none()
        {
            return Err(ProgramError::UnknownHelper { index, id });
        }
    }
    match slots(code, function).next_back() {
        Some((_, Insn::Jump { .. } | Insn::Exit)) => Ok(()),
        _ => Err(ProgramError::FallsOff { index: function.end - 1, name: function.name.clone() }),
    }
}

/// A function that calls one that may suspend may suspend.
fn suspensions(code: &[Insn], functions: &mut [Function], helpers: &Helpers) {
    let position =
        |functions: &[Function], start: u32| functions.partition_point(|function| function.start < start);
    let mut callers = vec![Vec::new(); functions.len()];
    let mut found = Vec::new();
    for caller in 0..functions.len() {
        for (_, insn) in slots(code, &functions[caller]) {
            match *insn {
                Insn::CallLocal { target } => callers[position(functions, target)].push(caller),
                Insn::CallHelper { id } if helpers.get(id).is_some_and(|helper| helper.may_suspend) => {
                    found.push(caller);
                }
                _ => {}
            }
        }
    }
    while let Some(function) = found.pop() {
        if !std::mem::replace(&mut functions[function].may_suspend, true) {
            found.extend(&callers[function]);
        }
    }
}

/// The variables stay behind when a run travels, so what travels must not know of them. A run that starts in a
/// function that may suspend does not have the area at all; this is for people, who want to know before.
fn variables(code: &[Insn], functions: &[Function]) -> Result<(), ProgramError> {
    for function in functions.iter().filter(|function| function.may_suspend) {
        for (index, insn) in slots(code, function) {
            if let Insn::LoadImm { value, .. } = insn
                && (value >> AREA_SHIFT) as usize == DATA_AREA
            {
                return Err(ProgramError::Variable { index, name: function.name.clone() });
            }
        }
    }
    Ok(())
}

/// See [`Program::block_cost`](super::Program::block_cost).
pub(super) fn block_costs(code: &[Insn], functions: &[Function]) -> Box<[u32]> {
    let mut begins = vec![false; code.len() + 1];
    for function in functions {
        begins[function.start as usize] = true;
    }
    for (index, insn) in code.iter().enumerate() {
        if let Some(target) = insn.jump_target() {
            begins[target as usize] = true;
        }
        if insn.ends_block() {
            begins[index + 1] = true;
        }
    }
    let mut costs = vec![0; code.len()];
    let mut length = 0;
    for index in (0..code.len()).rev() {
        length += 1;
        if begins[index] {
            costs[index] = std::mem::take(&mut length);
        }
    }
    costs.into()
}
