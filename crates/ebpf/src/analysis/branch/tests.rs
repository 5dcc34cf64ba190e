//! Numbers for which a branch is taken, or is not, are among what is known then.

use fastrand::Rng;

use super::{Branch, assume};
use crate::analysis::state::State;
use crate::analysis::value::Value;
use crate::insn::{Condition, Operand, Reg, Width};

const CONDITIONS: [Condition; 11] = [
    Condition::Equal,
    Condition::NotEqual,
    Condition::Greater,
    Condition::GreaterEqual,
    Condition::Less,
    Condition::LessEqual,
    Condition::SignedGreater,
    Condition::SignedGreaterEqual,
    Condition::SignedLess,
    Condition::SignedLessEqual,
    Condition::Set,
];

fn holds(condition: Condition, width: Width, a: u64, b: u64) -> bool {
    let (a, b) = if width == Width::W32 { (a << 32, b << 32) } else { (a, b) };
    let (signed_a, signed_b) = (a as i64, b as i64);
    match condition {
        Condition::Equal => a == b,
        Condition::NotEqual => a != b,
        Condition::Greater => a > b,
        Condition::GreaterEqual => a >= b,
        Condition::Less => a < b,
        Condition::LessEqual => a <= b,
        Condition::SignedGreater => signed_a > signed_b,
        Condition::SignedGreaterEqual => signed_a >= signed_b,
        Condition::SignedLess => signed_a < signed_b,
        Condition::SignedLessEqual => signed_a <= signed_b,
        Condition::Set => a & b != 0,
    }
}

/// A set of numbers, and one of them. Small ones and those around the signs of both widths are frequent.
fn value(rng: &mut Rng) -> (Value, u64) {
    let middle = [0, 20, 1 << 31, 1 << 32, 1 << 63, u64::MAX - 20, 0x5_0000_0000][rng.usize(..7)];
    let low = middle + rng.u64(..10);
    let steps = rng.u64(..4);
    let stride = rng.u64(1..5);
    let mut value = Value::constant(low);
    for step in 0..=steps {
        value = value.join(Value::constant(low.saturating_add(step * stride)));
    }
    value.or_zero = rng.u8(..4) == 0;
    let number = if value.or_zero && rng.bool() {
        0
    } else {
        value.low + value.stride * rng.u64(..=(value.high - value.low) / value.stride.max(1))
    };
    (value, number)
}

#[test]
fn numbers_stay_on_their_side_of_a_branch() {
    let mut rng = Rng::with_seed(3);
    let [left, right] = [1, 2].map(|number| Reg::new(number).unwrap());
    for _ in 0..500_000 {
        let ((a, x), (b, y)) = (value(&mut rng), value(&mut rng));
        let mut state = State::of_call(0);
        state.set(left, a);
        state.set(right, b);
        let condition = CONDITIONS[rng.usize(..CONDITIONS.len())];
        let width = if rng.bool() { Width::W32 } else { Width::W64 };
        let imm = rng.i32(-20..40);
        let (operand, y) =
            if rng.bool() { (Operand::Reg(right), y) } else { (Operand::Imm(imm), i64::from(imm) as u64) };
        let taken = holds(condition, width, x, y);
        let branch = Branch { width, condition, left, right: operand };
        let told =
            || format!("{condition:?} {width:?}: {x:#x} of {a:?}, {y:#x} of {b:?}, {operand:?}: {taken}");
        let after = assume(&state, branch, taken).unwrap_or_else(|| panic!("{}", told()));
        assert!(after.get(left).contains(x), "{}: {:?}", told(), after.get(left));
        assert!(
            operand != Operand::Reg(right) || after.get(right).contains(y),
            "{}: {:?}",
            told(),
            after.get(right)
        );
    }
}
