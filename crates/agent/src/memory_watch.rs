//! Tells when memory runs short, before the kernel ends a process because of it, and gives back what a crowd has left behind.

use outboard_driver::give_memory_back;
use outboard_limits::{Files, MemoryLimits, private_memory, show_bytes};

use crate::status::{Gauge, StatusPage};

/// How much more private memory than before makes it worth asking the allocator for what is not in use.
const GROWTH: u64 = 16 << 20;

/// Looks how much memory is left to this process by its machine and its control groups, and how much it has itself.
pub(crate) struct MemoryWatch {
    left_bytes: Gauge,
    is_short: bool,
    /// The private memory of this process when the allocator was last asked.
    private: u64,
}

/// What has changed.
#[derive(Debug, PartialEq, Eq)]
enum Change {
    Short(String),
    Enough(String),
}

impl MemoryWatch {
    pub(crate) fn new(page: &StatusPage) -> Self {
        Self { left_bytes: page.gauge("memory_left_bytes"), is_short: false, private: 0 }
    }

    /// Looks, and logs what has changed. A look takes about a millisecond, most of it in the kernel.
    pub(crate) fn tell(&mut self) {
        match self.look(&MemoryLimits::of_this_process()) {
            Some(Change::Short(text)) => tracing::warn!("{text}"),
            Some(Change::Enough(text)) => tracing::info!("{text}"),
            None => {}
        }
        let private = || private_memory(&Files::of_this_machine()).unwrap_or(0);
        if self.has_grown(private()) {
            give_memory_back();
            self.private = private();
        }
    }

    /// Whether there is much more private memory than when the allocator was last asked. What it gave back since counts as well.
    fn has_grown(&mut self, private: u64) -> bool {
        self.private = self.private.min(private);
        private - self.private >= GROWTH
    }

    fn look(&mut self, limits: &MemoryLimits) -> Option<Change> {
        let limit = limits.tightest()?;
        self.left_bytes.set(limit.left);
        let left = show_bytes(limit.left);
        // Once short, it takes twice the reserve to be enough again: one line for each time, not one for each look.
        let is_short = limit.spare() == 0 || self.is_short && limit.spare() < limit.left / 2;
        if is_short == self.is_short {
            return None;
        }
        self.is_short = is_short;
        Some(match is_short {
            true => Change::Short(format!(
                "memory runs short: {left} are left of {limit}; when they are used up, the kernel kills processes, perhaps \
                 this one. Free regions, end other processes there, or raise the limit"
            )),
            false => Change::Enough(format!("there is memory again: {left} are left of {limit}")),
        })
    }
}

#[cfg(test)]
mod tests {
    use outboard_limits::{Groups, with_files};
    use outboard_wire::Role;

    use super::*;

    const MIB: u64 = 1 << 20;

    /// A group that allows 160 MiB, of which 10 MiB are kept free.
    fn limits(used: u64) -> MemoryLimits {
        let used = used.to_string();
        let files = [
            ("/proc/self/cgroup", "0::/\n"),
            ("/proc/self/mountinfo", "30 23 0:26 / /cg rw,nosuid - cgroup2 cgroup2 rw\n"),
            ("/cg/memory.max", "167772160\n"),
            ("/cg/memory.current", &used),
        ];
        with_files(&files, |files| MemoryLimits::read(files, &Groups::read(files)))
    }

    #[test]
    fn a_shortage_is_told_once_and_so_is_its_end() {
        let page = StatusPage::create(Role::Agent, "watched").unwrap();
        let mut watch = MemoryWatch::new(&page);
        assert_eq!(watch.look(&limits(100 * MIB)), None);
        assert_eq!(page.gauge("memory_left_bytes").get(), 60 * MIB);
        let Some(Change::Short(text)) = watch.look(&limits(151 * MIB)) else { panic!("nothing was told") };
        assert!(text.contains("9 MiB are left of the 160 MiB") && text.contains("/cg/memory.max"), "{text}");
        assert_eq!(watch.look(&limits(155 * MIB)), None);
        assert_eq!(watch.look(&limits(145 * MIB)), None);
        assert!(matches!(watch.look(&limits(100 * MIB)), Some(Change::Enough(_))));
        assert_eq!(watch.look(&limits(141 * MIB)), None);
        assert_eq!(watch.look(&MemoryLimits::default()), None);
    }

    #[test]
    fn the_allocator_is_asked_when_private_memory_has_grown_and_not_again() {
        let page = StatusPage::create(Role::Agent, "growing").unwrap();
        let mut watch = MemoryWatch::new(&page);
        assert!(!watch.has_grown(8 * MIB) && watch.has_grown(20 * MIB));
        watch.private = 18 * MIB;
        assert!(!watch.has_grown(33 * MIB) && watch.has_grown(34 * MIB));
        // What shrank grows again.
        assert!(!watch.has_grown(10 * MIB) && watch.has_grown(26 * MIB));
    }
}
