//! Where a figure was measured.

use std::fs;

use serde::Serialize;

use crate::Effort;

/// What a reader must know before comparing figures of two runs.
#[derive(Clone, Debug, Serialize)]
pub struct Environment {
    /// The processor, as the kernel names it.
    pub cpu: String,
    /// How many cores the benchmark may use.
    pub cores: usize,
    /// The caches of the first core, smallest first.
    pub caches: Vec<String>,
    /// The kernel's release.
    pub kernel: String,
    /// The kernel's page size in bytes.
    pub page_size: usize,
    /// How the program was built.
    pub profile: &'static str,
    /// How long was measured.
    pub effort: Effort,
    /// Which cores the two processes were pinned to; empty if they were not.
    pub pinned: Vec<usize>,
    /// How many processes wanted to run at the beginning, over the last minute: above 1, others disturbed us.
    pub load: f64,
    /// What could not be measured here, or not as it should be, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl Environment {
    /// Looks around; `cores` is how many this process may use when it is not pinned.
    pub fn survey(effort: Effort, cores: usize, pinned: Vec<usize>) -> Self {
        let load = line_of("/proc/loadavg");
        Self {
            cpu: cpu_model(),
            cores,
            caches: caches(),
            kernel: line_of("/proc/sys/kernel/osrelease"),
            page_size: rustix::param::page_size(),
            profile: if cfg!(debug_assertions) { "debug" } else { "release" },
            effort,
            pinned,
            load: load.split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(0.0),
            notes: Vec::new(),
        }
    }

    /// One line for people, and one for each note.
    pub fn summary(&self) -> String {
        let Self { cpu, cores, kernel, profile, load, .. } = self;
        let caches = self.caches.join(", ");
        let pinned = match &self.pinned[..] {
            [] => "not pinned".to_owned(),
            cores => format!("pinned to {cores:?}"),
        };
        let notes: String = self.notes.iter().map(|note| format!("\n {note}")).collect();
        format!(
            "{cpu}, {cores} cores ({caches}), Linux {kernel}, {profile} build, {pinned}, load {load}{notes}"
        )
    }
}

fn line_of(path: &str) -> String {
    fs::read_to_string(path).map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
}

/// On x86 the kernel gives a name, elsewhere often only the architecture is known.
fn cpu_model() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    model.map_or_else(|| std::env::consts::ARCH.to_owned(), |(_, name)| name.trim().to_owned())
}

fn caches() -> Vec<String> {
    let part = |index: usize, what: &str| {
        let path = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/{what}");
        fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
    };
    let cache = |index| {
        let (level, kind, size) = (part(index, "level")?, part(index, "type")?, part(index, "size")?);
        let kind = match kind.as_str() {
            "Data" => "d",
            "Instruction" => "i",
            _ => "",
        };
        Some(format!("L{level}{kind} {size}"))
    };
    (0..8).map_while(cache).collect()
}
