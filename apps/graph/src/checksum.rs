//! One number for all the bits of a result.

use crate::FarNumber;

/// Two results with the same number are the same, as far as one may trust 64 bits.
pub(crate) fn checksum<T: FarNumber>(values: &[T]) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    values.iter().fold(values.len() as u64, |sum, value| {
        let mixed = (sum ^ value.bits()).wrapping_mul(FACTOR);
        mixed ^ mixed >> 32
    })
}

/// Writes it as text: many readers of JSON keep only 53 bits of a number.
pub(crate) fn as_text<S: serde::Serializer>(checksum: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{checksum:016x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_length_and_sign_of_zero_count() {
        let sums = [
            checksum::<f32>(&[]),
            checksum(&[0.0f32]),
            checksum(&[-0.0f32]),
            checksum(&[0.0f32, 1.0]),
            checksum(&[1.0f32, 0.0]),
        ];
        let distinct = std::collections::HashSet::from(sums);
        assert_eq!(distinct.len(), sums.len());
        assert_eq!(checksum(&[1u32, 2]), checksum(&[1u64, 2]));
    }
}
