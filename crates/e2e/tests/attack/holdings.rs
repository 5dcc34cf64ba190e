//! What a daemon holds, as the kernel counts it: it has to be the same again once an attacker has gone.

use std::fs;
use std::time::Duration;

use outboard::Address;
use outboard_e2e::{Daemon, await_state};

/// How much more private memory a daemon may have afterwards: allocators do not give everything back. Where it listens on a
/// fabric, libfabric has taken some 20 MB for each of 16 handshakes at once.
const MEMORY_MARGIN: u64 = 64 << 20;
const FABRIC_MARGIN: u64 = 16 * (20 << 20);
/// For how long a daemon that has nothing to do is watched.
const WATCHED_FOR: Duration = Duration::from_millis(600);
/// How much processor time one of its threads may use meanwhile, in hundredths of a second.
const TICKS_MAX: u64 = 4;

/// What a daemon holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Holdings {
    descriptors: usize,
    threads: usize,
    /// Mappings of memory that is shared with others.
    segments: usize,
    /// Descriptors that its threads sleep on.
    watched: usize,
    /// Private memory, in bytes.
    memory: u64,
}

fn names_in(folder: &str) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Compiled functions stay when those who brought them go: there is a limit to them, and the next may bring the same.
const FUNCTIONS: &str = "memfd:outboard-code";

fn is_of_functions(pid: u32, fd: &str) -> bool {
    fs::read_link(format!("/proc/{pid}/fd/{fd}")).is_ok_and(|path| path.to_string_lossy().contains(FUNCTIONS))
}

fn lines_with(path: &str, part: &str) -> usize {
    fs::read_to_string(path).unwrap_or_default().lines().filter(|line| line.contains(part)).count()
}

impl Holdings {
    /// Those of a process.
    pub(crate) fn of(pid: u32) -> Self {
        let process = format!("/proc/{pid}");
        let mut descriptors = names_in(&format!("{process}/fd"));
        descriptors.retain(|fd| !is_of_functions(pid, fd));
        let watched = |fd: &String| lines_with(&format!("{process}/fdinfo/{fd}"), "tfd:");
        let maps = format!("{process}/maps");
        let status = fs::read_to_string(format!("{process}/status")).unwrap_or_default();
        let private = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let kib = private.and_then(|rest| rest.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
        Self {
            watched: descriptors.iter().map(watched).sum(),
            descriptors: descriptors.len(),
            threads: names_in(&format!("{process}/task")).len(),
            segments: lines_with(&maps, "memfd:") - lines_with(&maps, FUNCTIONS),
            memory: kib.unwrap_or(0) << 10,
        }
    }

    /// What there is more of than `before`.
    fn excess(&self, before: &Self, margin: u64) -> Option<String> {
        let is_more = self.descriptors > before.descriptors
            || self.threads > before.threads
            || self.segments > before.segments
            || self.watched > before.watched
            || self.memory > before.memory + margin;
        is_more.then(|| format!("{self:?}, before {before:?}"))
    }

    /// Waits until a process holds no more than it did.
    #[track_caller]
    pub(crate) fn await_return(&self, daemon: &Daemon) {
        let pid = daemon.process.pid();
        let has_fabric = daemon.listening.iter().any(|at| matches!(at, Address::Ofi(_)));
        let margin = MEMORY_MARGIN + if has_fabric { FABRIC_MARGIN } else { 0 };
        await_state(&format!("{} to hold no more than before", daemon.name), || {
            match Self::of(pid).excess(self, margin) {
                None => Ok(()),
                Some(excess) => Err(format!("{excess}: {}", descriptors_of(pid))),
            }
        });
    }
}

/// What its descriptors are, and how many there are of each.
fn descriptors_of(pid: u32) -> String {
    let mut kinds = std::collections::BTreeMap::<String, usize>::new();
    for fd in names_in(&format!("/proc/{pid}/fd")) {
        let target = fs::read_link(format!("/proc/{pid}/fd/{fd}"))
            .map_or_else(|_| "gone".to_owned(), |path| path.display().to_string());
        let kind = target.split(['[', '(']).next().unwrap_or_default().to_owned();
        *kinds.entry(kind).or_default() += 1;
    }
    format!("{kinds:?}")
}

/// The processor time of every thread of a process, in hundredths of a second, with its name.
fn ticks(pid: u32) -> Vec<(String, String, u64)> {
    let threads = names_in(&format!("/proc/{pid}/task")).into_iter();
    let used = |thread: &String| {
        let stat = fs::read_to_string(format!("/proc/{pid}/task/{thread}/stat")).ok()?;
        // The name is in brackets and may have anything in it.
        let (before, fields) = stat.rsplit_once(')')?;
        let name = before.split_once('(')?.1.to_owned();
        let fields: Vec<u64> = fields.split(' ').filter_map(|field| field.parse().ok()).collect();
        // Without the letter of its state, these are fields 4 and on.
        Some((name, fields.get(10)? + fields.get(11)?))
    };
    threads.filter_map(|thread| used(&thread).map(|(name, used)| (thread, name, used))).collect()
}

/// Waits until no thread of a process uses the processor: nobody has anything for it to do.
#[track_caller]
pub(crate) fn await_idleness(daemon: &Daemon) {
    let pid = daemon.process.pid();
    await_state(&format!("{} to have nothing to do", daemon.name), || {
        let before = ticks(pid);
        daemon.process.idle(WATCHED_FOR);
        let spent = |(thread, name, used): (String, String, u64)| {
            let earlier = before.iter().find(|(other, ..)| *other == thread).map_or(0, |(.., used)| *used);
            (name, used.saturating_sub(earlier))
        };
        let busy: Vec<_> = ticks(pid).into_iter().map(spent).filter(|(_, used)| *used > TICKS_MAX).collect();
        match busy.is_empty() {
            true => Ok(()),
            false => Err(format!("threads that use hundredths of a second in {WATCHED_FOR:?}: {busy:?}")),
        }
    });
}
