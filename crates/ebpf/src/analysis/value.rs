//! What can be known about a number: a range of equally spaced values, and a little more for addresses.
//!
//! Addresses are numbers like any other. Where areas begin is fixed, so that the range of an address tells the
//! area as well as the offset.

use crate::memory::{AREA_SHIFT, AREAS, CONTEXT};

/// What a number is beside its range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// Nothing special.
    Plain,
    /// The length of the context.
    ContextLength,
    /// The address of the first byte behind the context.
    ContextEnd,
}

/// A set of numbers: `low`, `low + stride`, and so on to `high`, and perhaps zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Value {
    pub(crate) low: u64,
    pub(crate) high: u64,
    /// Zero if there is one value only.
    pub(crate) stride: u64,
    /// Whether it can be zero also outside of the range.
    pub(crate) or_zero: bool,
    /// If it lies in an area of a granted buffer: that buffer has at least so many bytes, unless the value is the
    /// zero outside of the range.
    pub(crate) granted: u32,
    pub(crate) meaning: Meaning,
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// The smallest number of the form 2^n - 1 that is not below `value`.
fn mask_above(value: u64) -> u64 {
    u64::MAX.checked_shr(value.leading_zeros()).unwrap_or(0)
}

impl Value {
    /// Anything.
    pub(crate) const ANY: Value = Value::between(0, u64::MAX);
    /// Anything whose upper half is zero.
    pub(crate) const ANY_WORD: Value = Value::between(0, u32::MAX as u64);

    pub(crate) const fn constant(value: u64) -> Value {
        Value::between(value, value)
    }

    /// Everything from `low` to `high`, both included.
    pub(crate) const fn between(low: u64, high: u64) -> Value {
        let stride = if low == high { 0 } else { 1 };
        Value { low, high, stride, or_zero: false, granted: 0, meaning: Meaning::Plain }
    }

    /// Every `stride`-th from `low` to `high` at most.
    fn spaced(low: u64, high: u64, stride: u64) -> Value {
        let high = if stride == 0 { low } else { high - (high - low) % stride };
        let stride = if high == low { 0 } else { stride };
        Value { stride, ..Value::between(low, high) }
    }

    pub(crate) fn as_constant(&self) -> Option<u64> {
        (self.low == self.high && !self.or_zero).then_some(self.low)
    }

    /// Whether this concrete number is one of them. What else is known of it is not looked at.
    pub(crate) fn contains(&self, number: u64) -> bool {
        if self.or_zero && number == 0 {
            return true;
        }
        let within = (self.low..=self.high).contains(&number);
        within && (self.stride <= 1 || (number - self.low).is_multiple_of(self.stride))
    }

    /// The area that all of the range lies in.
    pub(crate) fn area(&self) -> Option<usize> {
        let area = (self.low >> AREA_SHIFT) as usize;
        (area == (self.high >> AREA_SHIFT) as usize && (1..AREAS).contains(&area)).then_some(area)
    }

    /// As a range alone.
    fn plain(self) -> Value {
        let low = if self.or_zero { 0 } else { self.low };
        let stride = if self.or_zero { gcd(self.stride, self.low) } else { self.stride };
        Value::spaced(low, self.high, stride)
    }

    /// What is in either.
    pub(crate) fn join(self, other: Value) -> Value {
        if self == other {
            return self;
        }
        let is_zero = |value: &Value| value.as_constant() == Some(0);
        let is_address = |value: &Value| value.low >> AREA_SHIFT != 0;
        if is_zero(&other) && is_address(&self) {
            return Value { or_zero: true, meaning: Meaning::Plain, ..self };
        }
        if is_zero(&self) && is_address(&other) {
            return Value { or_zero: true, meaning: Meaning::Plain, ..other };
        }
        let (low, high) = (self.low.min(other.low), self.high.max(other.high));
        let stride = gcd(gcd(self.stride, other.stride), self.low.abs_diff(other.low));
        let same_area = self.area().is_some() && self.area() == other.area();
        Value {
            low,
            high,
            stride,
            or_zero: self.or_zero || other.or_zero,
            granted: if same_area { self.granted.min(other.granted) } else { 0 },
            meaning: if self.meaning == other.meaning { self.meaning } else { Meaning::Plain },
        }
    }

    /// What `self` becomes when it grows to `joined`, so that it cannot grow often: bounds that move go on to the
    /// next of the `thresholds`, which are in order.
    pub(crate) fn widen(self, joined: Value, thresholds: &[u64]) -> Value {
        let mut wide = joined;
        if joined.stride == 0 {
            return wide;
        }
        if joined.high > self.high {
            let next = thresholds.partition_point(|threshold| *threshold < joined.high);
            let limit = thresholds.get(next).copied().unwrap_or(u64::MAX);
            wide.high = limit - (limit - joined.low) % joined.stride;
        }
        if joined.low < self.low {
            let next = thresholds.partition_point(|threshold| *threshold <= joined.low);
            let limit = if next > 0 { thresholds[next - 1] } else { 0 };
            wide.low = limit + (joined.low - limit) % joined.stride;
        }
        if wide.area() != joined.area() {
            wide.granted = 0;
        }
        wide
    }

    /// What of it lies between `low` and `high`; nothing, if nothing does.
    pub(crate) fn within(self, low: u64, high: u64) -> Option<Value> {
        let zero = self.or_zero && low == 0;
        let step = self.stride.max(1);
        let first = match low.checked_sub(self.low) {
            Some(distance) => {
                distance.div_ceil(step).checked_mul(step).and_then(|distance| self.low.checked_add(distance))
            }
            None => Some(self.low),
        };
        let first = first.filter(|first| *first <= self.high.min(high));
        let Some(first) = first else {
            return zero.then_some(Value::constant(0));
        };
        let cut = Value::spaced(first, self.high.min(high), step);
        Some(Value { or_zero: zero, granted: self.granted, meaning: self.meaning, ..cut })
    }

    /// What of it is not this number.
    pub(crate) fn without(self, number: u64) -> Option<Value> {
        let mut left = self;
        if number == 0 {
            left.or_zero = false;
        }
        if number == left.low && number == left.high {
            return left.or_zero.then_some(Value::constant(0));
        }
        if number == left.low {
            left.low += left.stride;
        } else if number == left.high {
            left.high -= left.stride;
        }
        if left.low == left.high {
            left.stride = 0;
        }
        Some(left)
    }

    /// Its lower half.
    pub(crate) fn lower_half(self) -> Value {
        if self.high <= u32::MAX.into() {
            return self;
        }
        let value = self.plain();
        if value.low >> 32 == value.high >> 32 {
            let half = u64::from(u32::MAX);
            return Value::spaced(value.low & half, value.high & half, value.stride);
        }
        Value::ANY_WORD
    }

    /// Sum.
    pub(crate) fn add(self, other: Value) -> Value {
        let (a, b) = (self.plain(), other.plain());
        let (low, carry_low) = a.low.overflowing_add(b.low);
        let (high, carry_high) = a.high.overflowing_add(b.high);
        if carry_low != carry_high || low > high {
            return Value::ANY;
        }
        let mut sum = Value::spaced(low, high, gcd(a.stride, b.stride));
        for (address, distance) in [(self, b), (other, a)] {
            if !address.or_zero && address.granted > 0 && sum.area() == address.area() {
                sum.granted = address.granted;
            }
            if address.meaning == Meaning::ContextLength && distance.as_constant() == Some(CONTEXT) {
                sum.meaning = Meaning::ContextEnd;
            }
        }
        sum
    }

    /// Difference.
    pub(crate) fn sub(self, other: Value) -> Value {
        let (a, b) = (self.plain(), other.plain());
        let (low, borrow_low) = a.low.overflowing_sub(b.high);
        let (high, borrow_high) = a.high.overflowing_sub(b.low);
        if borrow_low != borrow_high || low > high {
            return Value::ANY;
        }
        let mut difference = Value::spaced(low, high, gcd(a.stride, b.stride));
        if !self.or_zero && difference.area() == self.area() {
            difference.granted = self.granted;
        }
        difference
    }

    /// Product.
    pub(crate) fn mul(self, other: Value) -> Value {
        let (a, b) = (self.plain(), other.plain());
        let Some(high) = a.high.checked_mul(b.high) else { return Value::ANY };
        let low = a.low * b.low;
        let stride = match (a.as_constant(), b.as_constant()) {
            (Some(constant), _) => b.stride * constant,
            (_, Some(constant)) => a.stride * constant,
            _ => 1,
        };
        Value::spaced(low, high, stride)
    }

    /// Quotient without sign; zero if divided by zero.
    pub(crate) fn div(self, other: Value) -> Value {
        let (a, b) = (self.plain(), other.plain());
        let low = if b.low == 0 { 0 } else { a.low / b.high };
        let high = a.high / b.low.max(1);
        Value::between(low, high)
    }

    /// Remainder without sign; the dividend itself if divided by zero.
    pub(crate) fn modulo(self, other: Value) -> Value {
        let (a, b) = (self.plain(), other.plain());
        if a.high < b.low || b.high == 0 {
            return a;
        }
        Value::between(0, if b.low == 0 { a.high } else { a.high.min(b.high - 1) })
    }

    /// Bitwise or.
    pub(crate) fn or(self, other: Value) -> Value {
        let (a, b) = (self.plain(), other.plain());
        match (a.as_constant(), b.as_constant()) {
            (Some(a), Some(b)) => Value::constant(a | b),
            _ => Value::between(a.low.max(b.low), mask_above(a.high | b.high)),
        }
    }

    /// Bitwise exclusive or.
    pub(crate) fn xor(self, other: Value) -> Value {
        let (a, b) = (self.plain(), other.plain());
        match (a.as_constant(), b.as_constant()) {
            (Some(a), Some(b)) => Value::constant(a ^ b),
            _ => Value::between(0, mask_above(a.high | b.high)),
        }
    }

    /// Bitwise and.
    pub(crate) fn and(self, other: Value) -> Value {
        let (a, b) = (self.plain(), other.plain());
        match (a.as_constant(), b.as_constant()) {
            (Some(a), Some(b)) => Value::constant(a & b),
            (Some(mask), _) => b.masked(mask),
            (_, Some(mask)) => a.masked(mask),
            _ => Value::between(0, a.high.min(b.high)),
        }
    }

    fn masked(self, mask: u64) -> Value {
        if mask == 0 || mask == u64::MAX {
            return if mask == 0 { Value::constant(0) } else { self };
        }
        let step = 1u64 << mask.trailing_zeros();
        // A mask that only clears lower bits keeps the order of numbers.
        if mask.leading_ones() + mask.trailing_zeros() == u64::BITS {
            return Value::spaced(self.low & mask, self.high & mask, step);
        }
        // What lies within the ones of a mask that only clears upper bits stays as it is.
        if step == 1 && mask_above(mask) == mask && self.high <= mask {
            return self;
        }
        Value::spaced(0, self.high.min(mask), step)
    }

    /// Shift to the left by a known distance.
    pub(crate) fn shift_left(self, distance: u32) -> Value {
        let value = self.plain();
        if value.high.leading_zeros() < distance {
            return Value::ANY;
        }
        Value::spaced(value.low << distance, value.high << distance, value.stride << distance)
    }

    /// Shift to the right by a known distance.
    pub(crate) fn shift_right(self, distance: u32) -> Value {
        let value = self.plain();
        Value::between(value.low >> distance, value.high >> distance)
    }

    /// The greatest of them.
    pub(crate) fn greatest(&self) -> u64 {
        self.high
    }

    /// The least of them.
    pub(crate) fn least(&self) -> u64 {
        if self.or_zero { 0 } else { self.low }
    }
}

#[cfg(test)]
mod tests;
