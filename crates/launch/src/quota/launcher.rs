//! Names that tell whether the launcher that gave them still lives.

use std::fs;

/// A process, told apart from later ones with the same number by the time it was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Launcher {
    pid: u32,
    start_ticks: u64,
}

const PREFIX: &str = "outboard-";

impl Launcher {
    /// This process.
    pub(super) fn this() -> Option<Self> {
        Self::with_pid(std::process::id())
    }

    fn with_pid(pid: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        Some(Self { pid, start_ticks: start_ticks(&stat)? })
    }

    /// A name for something of this launcher's, `number` being its own.
    pub(super) fn name(self, number: u32) -> String {
        format!("{PREFIX}{}-{}-{number}", self.pid, self.start_ticks)
    }

    /// Who gave this name; nothing if it is not one of ours.
    pub(super) fn of_name(name: &str) -> Option<Self> {
        let mut parts = name.strip_prefix(PREFIX)?.split('-');
        let launcher = Self { pid: parts.next()?.parse().ok()?, start_ticks: parts.next()?.parse().ok()? };
        parts.next()?.parse::<u32>().ok()?;
        parts.next().is_none().then_some(launcher)
    }

    pub(super) fn is_alive(self) -> bool {
        Self::with_pid(self.pid) == Some(self)
    }
}

/// The 22nd field of a process's `stat`; the second is its name in parentheses, which may hold anything.
fn start_ticks(stat: &str) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_ascii_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_lives_and_an_earlier_one_with_its_number_does_not() {
        let this = Launcher::this().unwrap();
        assert!(this.is_alive());
        assert_eq!(Launcher::of_name(&this.name(3)), Some(this));
        assert!(!Launcher { start_ticks: this.start_ticks.wrapping_sub(1), ..this }.is_alive());
        assert!(!Launcher { pid: u32::MAX, ..this }.is_alive());
    }

    #[test]
    fn other_names_are_nobodys() {
        for name in ["", "user.slice", "outboard-", "outboard-1-2", "outboard-1-2-3-4", "outboard-1-x-3"] {
            assert_eq!(Launcher::of_name(name), None, "{name}");
        }
    }

    #[test]
    fn a_process_may_be_called_anything() {
        let rest = "S 1 1 1 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 777 0 0";
        assert_eq!(start_ticks(&format!("5 (a) b ) c) {rest}")), Some(777));
        assert_eq!(start_ticks("5 (x) S 1"), None);
        assert_eq!(start_ticks(""), None);
    }
}
