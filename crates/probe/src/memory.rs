//! Memory, and how the kernel deals it out.

use outboard_limits::{Files, field, parse_size, show_bytes};
use serde::Serialize;

use crate::finding::{Area, Finding, FindingState};

/// Memory, and how the kernel deals it out. Sizes are in bytes; none is not known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MemoryFacts {
    /// The smallest unit that can be mapped, and the smallest chunk.
    pub page_size: u64,
    /// All there is.
    pub total: Option<u64>,
    /// What can be had without swapping.
    pub available: Option<u64>,
    /// What can be swapped out.
    pub swap: Option<u64>,
    /// What `vm.overcommit_memory` says: 0 guesses, 1 grants everything, 2 counts strictly.
    pub overcommit: Option<u8>,
    /// When transparent huge pages are used: `always`, `madvise` or `never`.
    pub huge_pages: Option<String>,
}

/// Chunks are as large as this unless a region says otherwise.
const CHUNK_SIZE_DEFAULT: u64 = 64 << 10;

impl MemoryFacts {
    pub(crate) fn probe(files: &Files<'_>) -> Self {
        let meminfo = files.text("/proc/meminfo").unwrap_or_default();
        let size = |key| parse_size(field(&meminfo, key)?);
        let huge_pages = files.text("/sys/kernel/mm/transparent_hugepage/enabled");
        Self {
            page_size: rustix::param::page_size() as u64,
            total: size("MemTotal:"),
            available: size("MemAvailable:"),
            swap: size("SwapTotal:"),
            overcommit: files.value("/proc/sys/vm/overcommit_memory"),
            huge_pages: huge_pages.and_then(|text| chosen(&text).map(str::to_owned)),
        }
    }

    /// What it means for Outboard.
    pub fn findings(&self) -> Vec<Finding> {
        vec![
            self.amount_finding(),
            self.page_size_finding(),
            self.huge_pages_finding(),
            self.overcommit_finding(),
            self.swap_finding(),
        ]
    }

    fn amount_finding(&self) -> Finding {
        let finding = |state, detail| Finding::new(Area::Memory, "memory", state, detail);
        match (self.total, self.available) {
            (Some(total), Some(available)) => finding(
                FindingState::Good,
                format!("{}, {} available", show_bytes(total), show_bytes(available)),
            ),
            _ => finding(FindingState::Unknown, "/proc/meminfo does not say".to_owned()),
        }
    }

    fn page_size_finding(&self) -> Finding {
        let is_small = self.page_size <= CHUNK_SIZE_DEFAULT;
        let effect = if is_small { "" } else { ": chunks are larger than usual" };
        let detail = format!("{}{effect}", show_bytes(self.page_size));
        Finding::new(Area::Memory, "page size", FindingState::Good, detail)
            .limited_unless(is_small, "use a kernel with pages of 4 KiB or 64 KiB")
    }

    fn huge_pages_finding(&self) -> Finding {
        let detail = match self.huge_pages.as_deref() {
            Some("always") => "always; kept out of far memory, where chunks come and go".to_owned(),
            Some(mode) => mode.to_owned(),
            None => "not in this kernel".to_owned(),
        };
        Finding::new(Area::Memory, "huge pages", FindingState::Good, detail)
    }

    fn overcommit_finding(&self) -> Finding {
        let (state, detail) = match self.overcommit {
            Some(0) => (FindingState::Good, "a guess: the kernel refuses only what is obviously too much"),
            Some(1) => (FindingState::Good, "everything is granted"),
            Some(_) => (FindingState::Limited, "counted strictly: far memory counts as if it were local"),
            None => (FindingState::Unknown, "vm.overcommit_memory cannot be read"),
        };
        let finding = Finding::new(Area::Memory, "overcommit", state, detail);
        match state {
            FindingState::Limited => finding.with_fix("sudo sysctl -w vm.overcommit_memory=0"),
            _ => finding,
        }
    }

    fn swap_finding(&self) -> Finding {
        let finding = |state, detail| Finding::new(Area::Memory, "swap", state, detail);
        match self.swap {
            Some(0) => finding(FindingState::Good, "none".to_owned()),
            Some(size) => finding(
                FindingState::Good,
                format!("{}: keep local buffers small enough to stay", show_bytes(size)),
            ),
            None => finding(FindingState::Unknown, "/proc/meminfo does not say".to_owned()),
        }
    }
}

/// The choice in brackets of a setting such as `always [madvise] never`.
fn chosen(setting: &str) -> Option<&str> {
    setting.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use outboard_limits::with_files;

    const MEMINFO: &str = "\
MemTotal:       24684100 kB
MemFree:        22681236 kB
MemAvailable:   24210212 kB
SwapTotal:       1048576 kB
";

    #[test]
    fn the_kernels_texts_are_understood() {
        let files = [
            ("/proc/meminfo", MEMINFO),
            ("/proc/sys/vm/overcommit_memory", "2\n"),
            ("/sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never\n"),
        ];
        let memory = with_files(&files, MemoryFacts::probe);
        assert_eq!(memory.total, Some(24_684_100 << 10));
        assert_eq!(memory.available, Some(24_210_212 << 10));
        assert_eq!(memory.swap, Some(1 << 30));
        assert_eq!(memory.huge_pages.as_deref(), Some("always"));
        let overcommit = memory.overcommit_finding();
        assert_eq!(overcommit.state, FindingState::Limited);
        assert!(overcommit.fix.is_some());
    }

    #[test]
    fn settings_have_one_choice() {
        assert_eq!(chosen("always [madvise] never\n"), Some("madvise"));
        assert_eq!(chosen("always madvise never\n"), None);
    }

    #[test]
    fn what_the_kernel_hides_is_unknown() {
        let memory = with_files(&[], MemoryFacts::probe);
        let unknown =
            memory.findings().iter().filter(|finding| finding.state == FindingState::Unknown).count();
        assert_eq!(unknown, 3);
        assert!(memory.page_size.is_power_of_two());
        let large = MemoryFacts { page_size: 1 << 20, ..memory };
        assert_eq!(large.page_size_finding().state, FindingState::Limited);
    }
}
