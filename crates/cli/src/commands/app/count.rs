//! How many of something, as people write it.

/// Reads `2000000`, `2M` or `2Mi`.
pub(super) fn count(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, u64); 6] = [
        ("Ki", 1 << 10),
        ("Mi", 1 << 20),
        ("Gi", 1 << 30),
        ("K", 1_000),
        ("M", 1_000_000),
        ("G", 1_000_000_000),
    ];
    let unit = UNITS.iter().find_map(|(unit, size)| Some((text.strip_suffix(unit)?, *size)));
    let (digits, size) = unit.unwrap_or((text, 1));
    let wrong = || "expected a number, such as 1000, 20M or 4Mi".to_owned();
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    number.checked_mul(size).ok_or_else(|| "the number is too large".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_units_of_two_kinds() {
        let counts = ["0", "17", "2K", "2Ki", "3M", "3Mi", "1Gi"].map(|text| count(text).unwrap());
        assert_eq!(counts, [0, 17, 2000, 2048, 3_000_000, 3 << 20, 1 << 30]);
        for text in ["", "M", "-1", "1.5M", "3 apples", "99999999999G"] {
            assert!(count(text).is_err(), "{text}");
        }
    }
}
