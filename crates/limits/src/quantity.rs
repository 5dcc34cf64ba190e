//! Sizes and limits, as the kernel writes them and as people read them.

/// `size` in the largest unit that leaves a number of at least one.
pub fn bytes(size: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = size as f64;
    let mut unit = 0;
    // What rounds up to 1024 belongs to the next unit.
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let text = format!("{value:.1}");
    format!("{} {}", text.strip_suffix(".0").unwrap_or(&text), UNITS[unit])
}

/// A number of bytes for messages in which every byte counts: what is no whole number of tenths is also told in bytes.
pub fn size(size: u64) -> String {
    let text = bytes(size);
    let (number, unit) = text.split_once(' ').unwrap_or((&text, "B"));
    let log2 =
        ["B", "KiB", "MiB", "GiB", "TiB", "PiB"].iter().position(|known| *known == unit).unwrap_or(0) * 10;
    let is_whole = !number.contains('.') && size.trailing_zeros() as usize >= log2;
    if is_whole || size == 0 { text } else { format!("{text} ({size} bytes)") }
}

/// A limit in bytes; none is “unlimited”.
pub fn limit(limit: Option<u64>) -> String {
    limit.map_or_else(|| "unlimited".to_owned(), bytes)
}

/// A size such as `48K`, as in a cache's `size`, or `16384 kB`, as in `meminfo`.
pub fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().ok()?;
    let factor = match text[digits..].trim() {
        "" => 1,
        "K" | "kB" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return None,
    };
    number.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_shown_in_a_unit_that_suits_them() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(4096), "4 KiB");
        assert_eq!(bytes(25_276_518_400), "23.5 GiB");
        assert_eq!(bytes((1 << 20) - 1), "1 MiB");
        assert_eq!(bytes(u64::MAX), "16384 PiB");
        assert_eq!(limit(None), "unlimited");
    }

    #[test]
    fn sizes_that_are_rounded_are_told_in_bytes_too() {
        assert_eq!(size(0), "0 B");
        assert_eq!(size(1000), "1000 B");
        assert_eq!(size(64 << 20), "64 MiB");
        assert_eq!(size((1 << 20) - 1), "1 MiB (1048575 bytes)");
        assert_eq!(size(1_500_000), "1.4 MiB (1500000 bytes)");
    }

    #[test]
    fn sizes_are_read_as_the_kernel_writes_them() {
        assert_eq!(parse_size("48K"), Some(49_152));
        assert_eq!(parse_size("   24684100 kB"), Some(25_276_518_400));
        assert_eq!(parse_size("65536\n"), Some(65_536));
        for wrong in ["", "K", "12 parsecs", "99999999999999999999", "18446744073709551615K"] {
            assert_eq!(parse_size(wrong), None, "{wrong}");
        }
    }
}
