//! Whether a process of this machine still lives.

/// When a process was started, in ticks since its machine was: with its number that names it, for numbers come again. Zero if
/// that is not known.
pub(crate) fn started_at(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name before may have spaces and brackets in it.
    let behind_name = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    behind_name.split_ascii_whitespace().nth(19).and_then(|ticks| ticks.parse().ok()).unwrap_or(0)
}

/// Whether the process that was started then is still there.
pub(crate) fn is_alive(pid: u32, started: u64) -> bool {
    started != 0 && started_at(pid) == started
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_lives_and_one_that_had_its_number_does_not() {
        let pid = std::process::id();
        let started = started_at(pid);
        assert!(started > 0 && is_alive(pid, started) && !is_alive(pid, started + 1) && !is_alive(pid, 0));
        assert!(!is_alive(0, 0) && !is_alive(u32::MAX, started));
    }
}
