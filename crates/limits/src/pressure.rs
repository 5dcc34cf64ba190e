//! How long threads have waited for memory.

use std::time::Duration;

use crate::files::{Files, field};
use crate::groups::{GroupVersion, Groups};

/// For how long at least one thread has waited for memory, in the control group of this process if the system keeps account of
/// that, else on the whole machine; none if it keeps no account.
pub fn memory_stalls(files: &Files<'_>, groups: &Groups) -> Option<Duration> {
    let group = groups.place("memory").filter(|place| place.version == GroupVersion::V2);
    let of_group = group.and_then(|place| files.text(&format!("{}/memory.pressure", place.folder)));
    let text = of_group.or_else(|| files.text("/proc/pressure/memory"))?;
    let total = field(&text, "some ")?.rsplit("total=").next()?.parse().ok()?;
    Some(Duration::from_micros(total))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::with_files;

    const MACHINE: (&str, &str) = (
        "/proc/pressure/memory",
        "some avg10=0.00 avg60=0.00 avg300=0.00 total=1960\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=1417\n",
    );

    fn stalls(files: &[(&str, &str)]) -> Option<Duration> {
        with_files(files, |files| memory_stalls(files, &Groups::read(files)))
    }

    #[test]
    fn the_group_is_asked_before_the_machine() {
        assert_eq!(stalls(&[]), None);
        assert_eq!(stalls(&[MACHINE]), Some(Duration::from_micros(1960)));
        let group = [
            MACHINE,
            ("/proc/self/cgroup", "0::/a\n"),
            ("/proc/self/mountinfo", "35 24 0:30 / /cg rw - cgroup2 cgroup2 rw\n"),
            ("/cg/a/memory.pressure", "some avg10=1.00 avg60=0.00 avg300=0.00 total=7\n"),
        ];
        assert_eq!(stalls(&group), Some(Duration::from_micros(7)));
        assert_eq!(stalls(&group[..3]), Some(Duration::from_micros(1960)));
        assert_eq!(stalls(&[("/proc/pressure/memory", "some avg10=0.00")]), None);
    }
}
