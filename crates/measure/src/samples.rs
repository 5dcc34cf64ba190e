//! Percentiles of measured times.

/// The value below which the share `fraction` of `values` lies; zero if there are none. Sorts them.
pub fn percentile<T: Copy + Into<f64> + PartialOrd>(values: &mut [T], fraction: f64) -> f64 {
    if values.is_empty() {
        return 0.0;
    }
    values.sort_unstable_by(|a, b| a.partial_cmp(b).unwrap_or(core::cmp::Ordering::Equal));
    let last = values.len() - 1;
    values[(last as f64 * fraction).round() as usize].into()
}

#[cfg(test)]
mod tests {
    use super::percentile;

    #[test]
    fn percentiles_are_values_that_occurred() {
        let mut values: Vec<u32> = (1..=101).rev().collect();
        assert_eq!(percentile(&mut values, 0.5), 51.0);
        assert_eq!(percentile(&mut values, 0.99), 100.0);
        assert_eq!(percentile(&mut values, 1.0), 101.0);
        assert_eq!(percentile::<u32>(&mut [], 0.5), 0.0);
    }
}
