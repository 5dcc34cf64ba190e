//! What a call does to those who wait for it, and how a helper does it.

use std::ops::Range;

use super::state::State;
use super::value::Value;
use crate::helper::{ARGUMENTS, Argument, Helper, Quantity, Returns};
use crate::memory::{GRANTS, STACK, grant_address};

/// What a function, with all that it calls, may do outside of its own frame.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Effects {
    /// The addresses of the stack, below its own frame, among which it may write.
    pub(crate) written: Option<Range<u64>>,
    /// The slots in which buffers may be granted, one bit each.
    pub(crate) grants: u16,
}

impl Effects {
    /// Something in these addresses is written by a function whose frame begins at `frame`.
    pub(crate) fn write(&mut self, addresses: Range<u64>, frame: u64) {
        let (start, end) = (addresses.start.max(STACK), addresses.end.min(frame));
        if start < end {
            self.written = Some(match &self.written {
                Some(before) => before.start.min(start)..before.end.max(end),
                None => start..end,
            });
        }
    }

    /// Takes in what a called function may do.
    pub(crate) fn include(&mut self, called: &Effects, frame: u64) {
        if let Some(written) = &called.written {
            self.write(written.clone(), frame);
        }
        self.grants |= called.grants;
    }

    /// Forgets what may be otherwise after a call with these effects.
    pub(crate) fn apply(&self, state: &mut State) {
        if let Some(written) = &self.written {
            state.forget(written.clone());
        }
        state.forget_grants(self.grants);
    }
}

/// What is known after a helper answered, and what it may have done.
pub(crate) fn call_helper(state: &mut State, helper: &Helper, effects: &mut Effects) {
    let arguments: [Value; ARGUMENTS] = std::array::from_fn(|number| state.registers[number + 1]);
    for (argument, address) in helper.arguments.iter().zip(arguments) {
        let Argument::Writes(length) = *argument else { continue };
        let end = address.greatest().saturating_add(quantity(length, &arguments).greatest());
        let addresses = address.least()..end;
        effects.write(addresses.clone(), state.frame());
        state.forget(addresses);
    }
    let Returns::Buffer { slot, length } = helper.returns else {
        return state.after_call(Value::ANY);
    };
    let (slots, answer) = match quantity(slot, &arguments).as_constant() {
        Some(slot) if slot < GRANTS as u64 => {
            let granted = u32::try_from(quantity(length, &arguments).least()).unwrap_or(u32::MAX);
            let address = Value::constant(grant_address(slot as usize));
            (1 << slot, Value { or_zero: true, granted, ..address })
        }
        Some(_) => (0, Value::constant(0)),
        None => (u16::MAX, Value::between(0, grant_address(GRANTS - 1))),
    };
    effects.grants |= slots;
    state.forget_grants(slots);
    state.after_call(answer);
}

fn quantity(quantity: Quantity, arguments: &[Value; ARGUMENTS]) -> Value {
    match quantity {
        Quantity::Fixed(number) => Value::constant(number.into()),
        Quantity::Argument(number) => arguments[usize::from(number) % ARGUMENTS],
    }
}
