//! What is known after a branch was taken, or not.

use super::state::State;
use super::transfer::compared;
use super::value::{Meaning, Value};
use crate::insn::{Condition, Operand, Reg, Width};
use crate::memory::CONTEXT;

/// A branch, without its target.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Branch {
    pub(crate) width: Width,
    pub(crate) condition: Condition,
    pub(crate) left: Reg,
    pub(crate) right: Operand,
}

/// What is known if the condition holds, or does not; nothing if that cannot be.
pub(crate) fn assume(state: &State, branch: Branch, holds: bool) -> Option<State> {
    let Branch { width, condition, left, right } = branch;
    let mut after = state.clone();
    if right == Operand::Reg(left) {
        return Some(after);
    }
    let Some((a, b)) = compared(state, width, left, right) else { return Some(after) };
    let condition = if holds { Some(condition) } else { opposite(condition) };
    let Some(condition) = condition else { return Some(after) };
    let sign = 1u64 << if width == Width::W32 { 31 } else { 63 };
    let (a, b) = match condition {
        Condition::Equal => (a.within(b.least(), b.greatest())?, b.within(a.least(), a.greatest())?),
        Condition::NotEqual => {
            let a_left = b.as_constant().map_or(Some(a), |number| a.without(number))?;
            (a_left, a.as_constant().map_or(Some(b), |number| b.without(number))?)
        }
        Condition::Greater => greater(a, b)?,
        Condition::GreaterEqual => greater_or_equal(a, b)?,
        Condition::Less => swapped(greater(b, a))?,
        Condition::LessEqual => swapped(greater_or_equal(b, a))?,
        Condition::SignedGreater => signed(a, b, sign, greater)?,
        Condition::SignedGreaterEqual => signed(a, b, sign, greater_or_equal)?,
        Condition::SignedLess => swapped(signed(b, a, sign, greater))?,
        Condition::SignedLessEqual => swapped(signed(b, a, sign, greater_or_equal))?,
        Condition::Set => (a, b),
    };
    learn(&mut after, left, a);
    if let Operand::Reg(right) = right {
        learn(&mut after, right, b);
    }
    Some(after)
}

fn opposite(condition: Condition) -> Option<Condition> {
    Some(match condition {
        Condition::Equal => Condition::NotEqual,
        Condition::NotEqual => Condition::Equal,
        Condition::Greater => Condition::LessEqual,
        Condition::GreaterEqual => Condition::Less,
        Condition::Less => Condition::GreaterEqual,
        Condition::LessEqual => Condition::Greater,
        Condition::SignedGreater => Condition::SignedLessEqual,
        Condition::SignedGreaterEqual => Condition::SignedLess,
        Condition::SignedLess => Condition::SignedGreaterEqual,
        Condition::SignedLessEqual => Condition::SignedGreater,
        Condition::Set => return None,
    })
}

fn swapped(pair: Option<(Value, Value)>) -> Option<(Value, Value)> {
    pair.map(|(first, second)| (second, first))
}

fn greater(a: Value, b: Value) -> Option<(Value, Value)> {
    let above = b.least().checked_add(1)?;
    let below = a.greatest().checked_sub(1)?;
    Some((a.within(above, u64::MAX)?, b.within(0, below)?))
}

fn greater_or_equal(a: Value, b: Value) -> Option<(Value, Value)> {
    Some((a.within(b.least(), u64::MAX)?, b.within(0, a.greatest())?))
}

/// Numbers without sign compare the same with and without it. Of others, what is greater than such a number is
/// one itself.
fn signed(
    a: Value,
    b: Value,
    sign: u64,
    compare: fn(Value, Value) -> Option<(Value, Value)>,
) -> Option<(Value, Value)> {
    if a.greatest() < sign && b.greatest() < sign {
        return compare(a, b);
    }
    if b.greatest() < sign {
        let a = a.within(0, sign - 1)?;
        return compare(a, b);
    }
    Some((a, b))
}

fn learn(state: &mut State, register: Reg, value: Value) {
    state.set(register, value);
    let length = match value.meaning {
        Meaning::Plain => return,
        Meaning::ContextLength => value.least(),
        Meaning::ContextEnd => value.least().saturating_sub(CONTEXT),
    };
    state.context = state.context.max(u32::try_from(length).unwrap_or(0));
}

#[cfg(test)]
mod tests;
