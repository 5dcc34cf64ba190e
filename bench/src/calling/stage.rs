//! What questions about calls share: a memory server on a core of its own, and callers on another.

use std::fs;

use outboard::{
    CallSite, Caller, CallerOptions, FunctionHandle, FunctionImage, FunctionOptions, Memory, Outboard,
};
use outboard_link::Address;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::daemons::{Host, HostSpec};
use crate::error::Named;
use crate::pair::{Cores, PeerProgram};
use crate::{BenchError, Effort};

/// A memory server, this thread on another core than its threads if there are two.
pub(super) struct Stage {
    pub(super) host: Host,
    pub(super) memory: Memory,
    pub(super) cores: Cores,
    /// All cores that may be used.
    pub(super) allowed: Vec<usize>,
}

impl Stage {
    pub(super) fn set(program: &PeerProgram) -> Result<Self, BenchError> {
        let set = sched_getaffinity(None).named("sched_getaffinity")?;
        let allowed = (0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect();
        let cores = Cores::take()?;
        // One thread for one core: two would take turns of milliseconds by the kernel's choice.
        let host = Host::start(program, &HostSpec::Memory { data_dir: None, workers: Some(1) })?;
        if let Some(core) = cores.chosen().get(1) {
            pin_process(host.pid(), *core)?;
        }
        let memory = Outboard::at(host.local.clone()).with_name(NAME).memory()?;
        Ok(Self { host, memory, cores, allowed })
    }

    /// The core for the process that serves.
    pub(super) fn server_core(&self) -> Option<usize> {
        self.cores.chosen().get(1).copied()
    }
}

/// What daemons know the benchmark by.
const NAME: &str = "bench calling";

/// A caller with so many calls at once.
pub(super) fn caller(address: &Address, under_way_max: usize) -> Result<Caller, BenchError> {
    let options = CallerOptions::default().with_under_way_max(under_way_max).with_placement(CallSite::Server);
    Ok(Outboard::at(address.clone()).with_name(NAME).caller_with(options)?)
}

/// Registers a function.
pub(super) fn register(
    caller: &mut Caller,
    image: &FunctionImage,
    options: FunctionOptions,
) -> Result<FunctionHandle, BenchError> {
    caller.register(image, options).map_err(wrong)
}

/// Calls that fail give no figure.
pub(super) fn wrong(error: impl std::error::Error) -> BenchError {
    BenchError::Calls { why: crate::error::chain(&error) }
}

/// Lets all threads of a process run on one core only. Those that they start later stay there too.
pub(super) fn pin_process(pid: u32, core: usize) -> Result<(), BenchError> {
    let mut set = CpuSet::new();
    set.set(core);
    for entry in fs::read_dir(format!("/proc/{pid}/task")).named("reading /proc")? {
        let name = entry.named("reading /proc")?.file_name();
        let thread = name.to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
        sched_setaffinity(thread, &set).named("sched_setaffinity")?;
    }
    Ok(())
}

/// Bytes of the largest cache of the first core; 32 MiB if the system does not say.
pub(super) fn last_level_cache() -> u64 {
    let size = |index: usize| {
        let path = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/size");
        let text = fs::read_to_string(path).ok()?;
        let kib = text.trim().strip_suffix('K')?;
        kib.parse::<u64>().ok()
    };
    (0..8).map_while(size).max().map_or(32 << 20, |kib| kib << 10)
}

/// How many keys a table must have to be so many times as large as the caches, where each takes so many bytes.
pub(super) fn keys_beyond_cache(effort: Effort, times: u64, bytes_each: u64) -> u64 {
    match effort {
        Effort::Tiny => 1000,
        Effort::Quick | Effort::Full => (times * last_level_cache()).div_ceil(bytes_each),
    }
}
