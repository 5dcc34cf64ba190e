//! Cores, caches and memory nodes.

use outboard_limits::{CoreList, Files, field, parse_size, show_bytes};
use serde::Serialize;

use crate::finding::{Area, Finding, FindingState};

/// Cores, caches and memory nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Processors {
    /// What the kernel calls them; none if it gives no name.
    pub model: Option<String>,
    /// The cores that this process may run on; logical ones, as the kernel counts them.
    pub allowed: CoreList,
    /// The cores that run.
    pub online: CoreList,
    /// How many physical cores the allowed ones are.
    pub physical: usize,
    /// The caches of the first allowed core, nearest first.
    pub caches: Vec<Cache>,
    /// The memory nodes; one on a machine that is uniform, none if the kernel does not say.
    pub nodes: Vec<NumaNode>,
}

/// A cache of one core.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cache {
    /// 1 is nearest to the core.
    pub level: u8,
    /// `Data`, `Instruction` or `Unified`.
    pub kind: String,
    /// In bytes.
    pub size: u64,
    /// The cores that share it.
    pub shared_by: CoreList,
}

/// A memory node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NumaNode {
    /// Its number.
    pub id: u32,
    /// The cores beside it.
    pub cores: CoreList,
    /// In bytes.
    pub memory: u64,
    /// How far it is to each node, itself included, 10 being nearest.
    pub distances: Vec<u32>,
}

const CPU: &str = "/sys/devices/system/cpu";
const NODE: &str = "/sys/devices/system/node";

/// No processor has more.
const CACHES_MAX: usize = 16;

impl Processors {
    /// Those of this machine.
    pub fn here() -> Self {
        Self::probe(&Files::of_this_machine())
    }

    pub(crate) fn probe(files: &Files<'_>) -> Self {
        let status = files.text("/proc/self/status").unwrap_or_default();
        let online: CoreList = files.value(&format!("{CPU}/online")).unwrap_or_default();
        let allowed = field(&status, "Cpus_allowed_list:").and_then(|list| list.parse().ok());
        let allowed: CoreList = allowed.unwrap_or_else(|| online.clone());
        let first = allowed.as_slice().first().copied().unwrap_or(0);
        let nodes: CoreList = files.value(&format!("{NODE}/online")).unwrap_or_default();
        Self {
            model: files.text("/proc/cpuinfo").and_then(|text| model_name(&text)),
            physical: physical_cores(files, &allowed),
            caches: (0..CACHES_MAX).map_while(|index| Cache::probe(files, first, index)).collect(),
            nodes: nodes.as_slice().iter().filter_map(|id| NumaNode::probe(files, *id)).collect(),
            allowed,
            online,
        }
    }

    /// Whether a physical core runs several of the allowed logical ones.
    pub fn has_smt(&self) -> bool {
        self.physical < self.allowed.len()
    }

    /// The size of the cache of this level, data or unified.
    pub fn cache_size(&self, level: u8) -> Option<u64> {
        let is_it = |cache: &&Cache| cache.level == level && cache.kind != "Instruction";
        self.caches.iter().find(is_it).map(|cache| cache.size)
    }

    /// The size of the cache that is furthest from the core; none if the kernel does not say.
    pub fn last_level_cache_size(&self) -> Option<u64> {
        let level = self.caches.iter().map(|cache| cache.level).max()?;
        self.cache_size(level)
    }

    /// What it means for Outboard.
    pub fn findings(&self) -> Vec<Finding> {
        vec![self.cores_finding(), self.smt_finding(), self.caches_finding(), self.nodes_finding()]
    }

    fn cores_finding(&self) -> Finding {
        let (allowed, online) = (self.allowed.len(), self.online.len());
        let model = self.model.as_deref().unwrap_or(std::env::consts::ARCH);
        let mut detail = match allowed {
            _ if allowed == online => format!("{allowed} (numbers {}), {model}", self.allowed),
            _ => format!("{allowed} of {online} allowed (numbers {}), {model}", self.allowed),
        };
        if allowed < 2 {
            detail += ": application and agent take turns, and waiting threads sleep instead of spinning";
        }
        let fix = match online {
            2.. => "allow more cores: taskset, the job scheduler's --cpus-per-task, or the cgroup's cpuset",
            _ => "give the machine a second core",
        };
        Finding::new(Area::Processors, "cores", FindingState::Good, detail).limited_unless(allowed >= 2, fix)
    }

    fn smt_finding(&self) -> Finding {
        let detail = if self.has_smt() {
            format!(
                "{} threads on {} cores: put an agent on a core of its own",
                self.allowed.len(),
                self.physical
            )
        } else {
            "one thread per core".to_owned()
        };
        Finding::new(Area::Processors, "SMT", FindingState::Good, detail)
    }

    fn caches_finding(&self) -> Finding {
        let show = |cache: &Cache| {
            let sharing = match cache.shared_by.len() {
                0 | 1 => String::new(),
                several => format!(" for {several} threads"),
            };
            format!("L{} {}{sharing}", cache.level, show_bytes(cache.size))
        };
        let large: Vec<_> = self.caches.iter().filter(|cache| cache.level >= 2).map(show).collect();
        let state = if large.is_empty() { FindingState::Unknown } else { FindingState::Good };
        let detail = if large.is_empty() { "the kernel does not say".to_owned() } else { large.join(", ") };
        Finding::new(Area::Processors, "caches", state, detail)
    }

    fn nodes_finding(&self) -> Finding {
        let show = |node: &NumaNode| {
            let cores = match node.cores.is_empty() {
                true => "no cores".to_owned(),
                false => format!("cores {}", node.cores),
            };
            format!("node {}: {cores}, {}", node.id, show_bytes(node.memory))
        };
        let nodes: Vec<_> = self.nodes.iter().map(show).collect();
        let detail = match nodes.len() {
            0 => "the kernel knows of one memory only".to_owned(),
            1 => nodes.join(""),
            _ => format!("{}; buffers go to the node nearest the link", nodes.join("; ")),
        };
        Finding::new(Area::Processors, "NUMA", FindingState::Good, detail)
    }
}

impl Cache {
    fn probe(files: &Files<'_>, core: u32, index: usize) -> Option<Self> {
        let folder = format!("{CPU}/cpu{core}/cache/index{index}");
        Some(Self {
            level: files.value(&format!("{folder}/level"))?,
            kind: files.value(&format!("{folder}/type"))?,
            size: parse_size(&files.text(&format!("{folder}/size"))?)?,
            shared_by: files.value(&format!("{folder}/shared_cpu_list")).unwrap_or_default(),
        })
    }
}

impl NumaNode {
    fn probe(files: &Files<'_>, id: u32) -> Option<Self> {
        let folder = format!("{NODE}/node{id}");
        let distances = files.text(&format!("{folder}/distance")).unwrap_or_default();
        Some(Self {
            id,
            cores: files.value(&format!("{folder}/cpulist"))?,
            memory: node_memory(&files.text(&format!("{folder}/meminfo"))?)?,
            distances: distances.split_whitespace().filter_map(|distance| distance.parse().ok()).collect(),
        })
    }
}

/// Reads `MemTotal` of a node's `meminfo`, whose lines begin with the node's number.
fn node_memory(meminfo: &str) -> Option<u64> {
    let total = meminfo.lines().find_map(|line| line.split_once(" MemTotal:"))?.1;
    parse_size(total)
}

fn model_name(cpuinfo: &str) -> Option<String> {
    let name = field(cpuinfo, "model name")?.trim_start_matches(':').trim();
    (!name.is_empty()).then(|| name.to_owned())
}

/// A physical core is counted at the first of its logical ones that is allowed.
fn physical_cores(files: &Files<'_>, allowed: &CoreList) -> usize {
    let is_first = |core: &&u32| {
        let path = format!("{CPU}/cpu{core}/topology/thread_siblings_list");
        let siblings: CoreList = files.value(&path).unwrap_or_default();
        let before = |sibling: &u32| sibling < *core && allowed.as_slice().contains(sibling);
        !siblings.as_slice().iter().any(before)
    };
    allowed.as_slice().iter().filter(is_first).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use outboard_limits::with_files;

    const SERVER: &[(&str, &str)] = &[
        ("/proc/self/status", "Name:\tx\nCpus_allowed:\tf\nCpus_allowed_list:\t0-2,4\n"),
        ("/proc/cpuinfo", "processor\t: 0\nmodel name\t: Example 9000 @ 3 GHz\n"),
        ("/sys/devices/system/cpu/online", "0-7\n"),
        ("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list", "0,4\n"),
        ("/sys/devices/system/cpu/cpu1/topology/thread_siblings_list", "1,5\n"),
        ("/sys/devices/system/cpu/cpu2/topology/thread_siblings_list", "2,6\n"),
        ("/sys/devices/system/cpu/cpu4/topology/thread_siblings_list", "0,4\n"),
        ("/sys/devices/system/cpu/cpu0/cache/index0/level", "1\n"),
        ("/sys/devices/system/cpu/cpu0/cache/index0/type", "Instruction\n"),
        ("/sys/devices/system/cpu/cpu0/cache/index0/size", "32K\n"),
        ("/sys/devices/system/cpu/cpu0/cache/index1/level", "2\n"),
        ("/sys/devices/system/cpu/cpu0/cache/index1/type", "Unified\n"),
        ("/sys/devices/system/cpu/cpu0/cache/index1/size", "2048K\n"),
        ("/sys/devices/system/cpu/cpu0/cache/index1/shared_cpu_list", "0,4\n"),
        ("/sys/devices/system/node/online", "0-1\n"),
        ("/sys/devices/system/node/node0/cpulist", "0-7\n"),
        ("/sys/devices/system/node/node0/meminfo", "Node 0 MemTotal:        6777052 kB\n"),
        ("/sys/devices/system/node/node0/distance", "10 20\n"),
        ("/sys/devices/system/node/node1/cpulist", "\n"),
        ("/sys/devices/system/node/node1/meminfo", "\nNode 1 MemTotal:       16777216 kB\n"),
    ];

    #[test]
    fn a_server_with_a_memory_only_node_is_understood() {
        let server = with_files(SERVER, Processors::probe);
        assert_eq!(server.model.as_deref(), Some("Example 9000 @ 3 GHz"));
        assert_eq!((server.allowed.to_string(), server.online.len()), ("0-2,4".to_owned(), 8));
        assert_eq!(server.physical, 3);
        assert!(server.has_smt());
        assert_eq!((server.cache_size(1), server.cache_size(2)), (None, Some(2 << 20)));
        assert_eq!(server.last_level_cache_size(), Some(2 << 20));
        assert_eq!(server.caches[1].shared_by.as_slice(), [0, 4]);
        assert_eq!(server.nodes.len(), 2);
        assert_eq!(server.nodes[0].distances, [10, 20]);
        assert!(server.nodes[1].cores.is_empty());
        assert_eq!(server.nodes[1].memory, 16 << 30);
        let text: Vec<_> = server.findings().into_iter().map(|finding| finding.detail).collect();
        assert!(text[0].contains("4 of 8 allowed"), "{text:?}");
        assert!(text[1].contains("4 threads on 3 cores"), "{text:?}");
        assert!(text[3].contains("node 1: no cores, 16 GiB"), "{text:?}");
    }

    #[test]
    fn a_machine_that_says_nothing_is_no_reason_to_fail() {
        let silent = with_files(&[], Processors::probe);
        assert!(silent.allowed.is_empty() && silent.caches.is_empty() && silent.nodes.is_empty());
        let states: Vec<_> = silent.findings().into_iter().map(|finding| finding.state).collect();
        assert_eq!(
            states,
            [FindingState::Limited, FindingState::Good, FindingState::Unknown, FindingState::Good]
        );
    }

    #[test]
    fn this_machine_has_cores() {
        let here = Processors::probe(&Files::of_this_machine());
        assert!(!here.allowed.is_empty() && here.allowed.len() <= here.online.len(), "{here:?}");
        assert!(here.physical >= 1 && here.physical <= here.allowed.len(), "{here:?}");
    }
}
