//! How large tables are.

use std::fs;

use crate::Effort;

/// Words of a rank's table that the processor's caches hold.
pub(super) const SMALL: u64 = (4 << 20) / 8;
/// Words of a rank's table that is far larger than the caches.
const LARGE: u64 = (512 << 20) / 8;
/// So many times the last-level cache.
const TIMES_CACHE: u64 = 100;
/// How much of the memory that is there all tables take at most.
const SHARE: u64 = 2;

/// Words of a rank's table that is far larger than the caches.
pub(super) fn large(effort: Effort) -> u64 {
    match effort {
        Effort::Tiny => SMALL,
        Effort::Quick | Effort::Full => LARGE,
    }
}

/// Words of the table of each of so many ranks that is a hundred times as large as the last-level cache, and what to say if
/// there is not enough memory for that. None if the size of the cache is not known.
pub(super) fn hundred_caches(ranks: u64) -> Option<(u64, Option<String>)> {
    let (cache, available) = (last_level_cache()?, memory_available()?);
    Some(fit(cache, available, ranks))
}

fn fit(cache: u64, available: u64, ranks: u64) -> (u64, Option<String>) {
    let (wanted, most) = (TIMES_CACHE * cache, available / SHARE / ranks);
    let shown = |bytes: u64| format!("{:.1} GiB", bytes as f64 / (1u64 << 30) as f64);
    let reduced = (most < wanted).then(|| {
        format!(
            "tables of {} for each rank instead of {}, {TIMES_CACHE} times the last-level cache: {} of memory are available",
            shown(most),
            shown(wanted),
            shown(available)
        )
    });
    (most.min(wanted) / 8, reduced)
}

/// Bytes of the largest cache of the first core.
fn last_level_cache() -> Option<u64> {
    let size = |index: usize| {
        let text =
            fs::read_to_string(format!("/sys/devices/system/cpu/cpu0/cache/index{index}/size")).ok()?;
        bytes_of(text.trim())
    };
    (0..8).map_while(size).max()
}

/// Reads `32768K`.
fn bytes_of(text: &str) -> Option<u64> {
    let (digits, shift) = match text.char_indices().next_back()? {
        (at, 'K') => (&text[..at], 10),
        (at, 'M') => (&text[..at], 20),
        _ => (text, 0),
    };
    digits.parse::<u64>().ok()?.checked_shl(shift)
}

/// What can be had without swapping.
fn memory_available() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_fit_into_memory() {
        assert_eq!(fit(32 << 20, 64 << 30, 2), ((3200 << 20) / 8, None));
        let (words, reduced) = fit(32 << 20, 4 << 30, 2);
        assert_eq!(words * 8, 1 << 30);
        assert!(reduced.is_some_and(|text| text.contains("1.0 GiB") && text.contains("3.1 GiB")));
    }

    #[test]
    fn sizes_of_caches_are_read() {
        assert_eq!(
            ["32768K", "2M", "64", "", "K"].map(bytes_of),
            [Some(32 << 20), Some(2 << 20), Some(64), None, None]
        );
    }
}
