//! A site whose answers depend on nothing but the questions, given at once or later.

use outboard_ebpf::{
    Argument, Helper, HelperAnswer, HelperHost, HelperMemory, Helpers, Instance, Quantity, Returns,
};

pub(super) const MIX: u32 = 1;
pub(super) const SUM: u32 = 2;
pub(super) const FILL: u32 = 3;
pub(super) const GRANT: u32 = 4;
pub(super) const WAIT: u32 = 5;
pub(super) const FETCH: u32 = 6;
pub(super) const STAMP: u32 = 7;
pub(super) const ALL: [u32; 7] = [MIX, SUM, FILL, GRANT, WAIT, FETCH, STAMP];

/// The longest buffer that is granted.
pub(super) const LONGEST: u64 = 64;

pub(super) fn helpers() -> Helpers {
    let helper = |id, name: &str, arguments: &[Argument], returns, may_suspend| Helper {
        id,
        name: name.to_owned(),
        arguments: arguments.to_vec(),
        returns,
        may_suspend,
    };
    let (scalar, second) = (Argument::Scalar, Quantity::Argument(1));
    let any_buffer = Returns::Buffer { slot: Quantity::Argument(0), length: second };
    let fixed_buffer = Returns::Buffer { slot: Quantity::Fixed(2), length: Quantity::Fixed(32) };
    Helpers::new(vec![
        helper(MIX, "mix", &[scalar, scalar, scalar], Returns::Scalar, false),
        helper(SUM, "sum", &[Argument::Reads(second), scalar], Returns::Scalar, false),
        helper(FILL, "fill", &[Argument::Writes(second), scalar], Returns::Scalar, true),
        helper(GRANT, "grant", &[scalar, scalar], any_buffer, false),
        helper(WAIT, "wait", &[scalar], Returns::Scalar, true),
        helper(FETCH, "fetch", &[scalar], fixed_buffer, true),
        helper(STAMP, "stamp", &[scalar, Argument::Writes(Quantity::Fixed(8))], Returns::Scalar, false),
    ])
    .unwrap()
}

/// When helpers that may take longer do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pace {
    Never,
    Always,
}

/// The site, with a sum over everything it was asked and answered.
#[derive(Debug)]
pub(super) struct Site {
    pace: Pace,
    pub(super) trace: u64,
}

fn mix(words: &[u64]) -> u64 {
    words.iter().fold(0x9e37_79b9_7f4a_7c15, |sum: u64, word| {
        (sum ^ word).wrapping_mul(0xff51_afd7_ed55_8ccd).rotate_left(29)
    })
}

impl Site {
    pub(super) fn new(pace: Pace) -> Site {
        Site { pace, trace: 0 }
    }

    /// Answers what the instance waits for.
    pub(super) fn answer_later(&mut self, instance: &mut Instance) -> u64 {
        let pending = instance.pending().unwrap();
        let (helper, arguments) = (pending.helper.clone(), pending.arguments);
        match self.answer(&helper, arguments, &mut instance.pending_memory().unwrap()) {
            HelperAnswer::Value(value) => value,
            // A forged continuation waits for what would have been refused at once.
            _ => 0,
        }
    }

    fn answer(
        &mut self,
        helper: &Helper,
        arguments: [u64; 5],
        memory: &mut HelperMemory<'_>,
    ) -> HelperAnswer {
        let [first, second, ..] = arguments;
        let answer = match helper.id {
            SUM => match memory.read(first, second.min(1 << 20) as usize) {
                Ok(bytes) => HelperAnswer::Value(bytes.iter().map(|byte| u64::from(*byte)).sum()),
                Err(_) => HelperAnswer::Trap(1),
            },
            FILL => match memory.writable(first, second.min(1 << 20) as usize) {
                Ok(bytes) => {
                    for (byte, value) in bytes.iter_mut().zip(mix(&arguments).to_le_bytes().iter().cycle()) {
                        *byte = *value;
                    }
                    HelperAnswer::Value(second)
                }
                Err(_) => HelperAnswer::Trap(2),
            },
            GRANT if second > LONGEST => HelperAnswer::Value(0),
            GRANT => grant(memory, second as usize, first),
            FETCH if first & 7 == 7 => HelperAnswer::Value(0),
            FETCH => grant(memory, 32 + (first as usize & 3), first),
            STAMP => match memory.write(second, &first.to_le_bytes()) {
                Ok(()) => HelperAnswer::Value(first ^ second),
                Err(_) => HelperAnswer::Trap(4),
            },
            _ => HelperAnswer::Value(mix(&arguments) >> (first & 63)),
        };
        let [a, b, c, d, e] = arguments;
        let said = if let HelperAnswer::Value(value) = answer { value } else { 0 };
        self.trace = mix(&[self.trace, helper.id.into(), a, b, c, d, e, said]);
        answer
    }
}

fn grant(memory: &mut HelperMemory<'_>, length: usize, seed: u64) -> HelperAnswer {
    match memory.grant(length) {
        Ok((address, buffer)) => {
            buffer.iter_mut().enumerate().for_each(|(index, byte)| *byte = mix(&[seed, index as u64]) as u8);
            HelperAnswer::Value(address)
        }
        Err(_) => HelperAnswer::Trap(3),
    }
}

impl HelperHost for Site {
    fn call(
        &mut self,
        helper: &Helper,
        &arguments: &[u64; 5],
        memory: &mut HelperMemory<'_>,
    ) -> HelperAnswer {
        // Whether something will be refused is said at once, because later there is only a value to give.
        let refused = helper.id == FILL && {
            let length = arguments[1].min(1 << 20) as usize;
            memory.writable(arguments[0], length).is_err()
        };
        if self.pace == Pace::Always && helper.may_suspend && !refused {
            return HelperAnswer::Pending;
        }
        self.answer(helper, arguments, memory)
    }
}
