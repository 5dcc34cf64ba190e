//! Whatever numbers are, what is known of the result has the result in it.

use fastrand::Rng;

use super::Value;
use crate::analysis::transfer::alu;
use crate::insn::{AluOp, Width};

const OPERATIONS: [AluOp; 14] = [
    AluOp::Add,
    AluOp::Sub,
    AluOp::Mul,
    AluOp::Div,
    AluOp::SignedDiv,
    AluOp::Or,
    AluOp::And,
    AluOp::Lsh,
    AluOp::Rsh,
    AluOp::Mod,
    AluOp::SignedMod,
    AluOp::Xor,
    AluOp::Mov,
    AluOp::Arsh,
];

/// What the instruction computes, told apart from everything else in this crate.
fn concrete(op: AluOp, width: Width, a: u64, b: u64) -> u64 {
    let (bits, mask) = if width == Width::W64 { (64, u64::MAX) } else { (32, u64::from(u32::MAX)) };
    let (a, b) = (a & mask, b & mask);
    let signed = |value: u64| i128::from((value << (64 - bits)) as i64 >> (64 - bits));
    let distance = b % bits;
    let value = match op {
        AluOp::Add => u128::from(a) + u128::from(b),
        AluOp::Sub => (i128::from(a) - i128::from(b)) as u128,
        AluOp::Mul => u128::from(a) * u128::from(b),
        AluOp::Div | AluOp::SignedDiv if b == 0 => 0,
        AluOp::Mod | AluOp::SignedMod if b == 0 => u128::from(a),
        AluOp::Div => u128::from(a / b),
        AluOp::Mod => u128::from(a % b),
        AluOp::SignedDiv => (signed(a) / signed(b)) as u128,
        AluOp::SignedMod => (signed(a) % signed(b)) as u128,
        AluOp::Or => u128::from(a | b),
        AluOp::And => u128::from(a & b),
        AluOp::Xor => u128::from(a ^ b),
        AluOp::Mov => u128::from(b),
        AluOp::Lsh => u128::from(a) << distance,
        AluOp::Rsh => u128::from(a >> distance),
        AluOp::Arsh => (signed(a) >> distance) as u128,
    };
    value as u64 & mask
}

fn number(rng: &mut Rng) -> u64 {
    match rng.u8(..6) {
        0 => rng.u64(..16),
        1 => rng.u64(..0x1_0000),
        2 => (rng.u64(1..16) << 32) + rng.u64(..512),
        3 => (rng.u64(..64) as i64 - 32) as u64,
        4 => 1u64 << rng.u32(..64),
        _ => rng.u64(..),
    }
}

/// A set of numbers.
fn value(rng: &mut Rng) -> Value {
    let low = number(rng);
    let mut value = match rng.u8(..4) {
        0 => Value::constant(low),
        1 => Value::between(low.min(low ^ 0xff), low.max(low ^ 0xff)),
        2 => Value::spaced(low, low.saturating_add(rng.u64(..1000)), rng.u64(1..20)),
        _ => Value::constant(low).join(Value::constant(number(rng))),
    };
    value.or_zero = rng.u8(..5) == 0;
    value
}

/// One of the numbers in a set.
fn member(rng: &mut Rng, value: &Value) -> u64 {
    if value.or_zero && rng.bool() {
        return 0;
    }
    match value.stride {
        0 => value.low,
        stride => value.low + rng.u64(..=(value.high - value.low) / stride) * stride,
    }
}

#[test]
fn results_are_among_what_is_known_of_them() {
    let mut rng = Rng::with_seed(1);
    for _ in 0..300_000 {
        let (a, b) = (value(&mut rng), value(&mut rng));
        let (x, y) = (member(&mut rng, &a), member(&mut rng, &b));
        assert!(a.contains(x) && b.contains(y), "{x:#x} of {a:?}, {y:#x} of {b:?}");
        let op = OPERATIONS[rng.usize(..OPERATIONS.len())];
        let width = if rng.bool() { Width::W32 } else { Width::W64 };
        let (known, result) = (alu(width, op, a, b), concrete(op, width, x, y));
        assert!(
            known.contains(result),
            "{op:?} {width:?}: {x:#x} of {a:?}, {y:#x} of {b:?}: {result:#x}, {known:?}"
        );
    }
}

#[test]
fn what_is_joined_widened_or_cut_keeps_its_numbers() {
    let mut rng = Rng::with_seed(2);
    for _ in 0..300_000 {
        let (a, b) = (value(&mut rng), value(&mut rng));
        let x = member(&mut rng, &a);
        let (joined, other) = (a.join(b), b.join(a));
        assert!(joined.contains(x) && other.contains(x), "{x:#x} of {a:?} joined with {b:?}");
        let mut thresholds: Vec<u64> = (0..4).map(|_| number(&mut rng)).collect();
        thresholds.sort_unstable();
        let wide = b.widen(other, &thresholds);
        assert!(wide.contains(x), "{x:#x} of {b:?} widened to {other:?}: {wide:?}");
        let (low, high) = (number(&mut rng), number(&mut rng));
        let cut = a.within(low.min(high), low.max(high));
        assert_eq!(
            cut.is_some_and(|cut| cut.contains(x)),
            (low.min(high)..=low.max(high)).contains(&x),
            "{x:#x} of {a:?} within {low:#x} and {high:#x}: {cut:?}"
        );
        let left = a.without(low);
        assert!(
            x == low || left.is_some_and(|left| left.contains(x)),
            "{x:#x} of {a:?} without {low:#x}: {left:?}"
        );
        let half = a.lower_half();
        assert!(half.contains(x & 0xffff_ffff), "lower half of {x:#x} of {a:?}: {half:?}");
    }
}
