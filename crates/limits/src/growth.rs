//! Memory that others have a process take: queues that fill, pages that are written. The kernel refuses none of it at the limit of
//! a machine or a control group, it kills; so what grows asks here first.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::memory::{MemoryLimit, MemoryLimits};

/// How long what was found holds. Others use memory too.
const HOLDS: Duration = Duration::from_millis(100);
/// How long after a look that has found too little the next one comes: it takes about a millisecond, most of it in the kernel.
const PAUSE: Duration = Duration::from_millis(2);
/// How much queues can take again when memory is no longer short.
const ENOUGH: u64 = 1 << 20;
/// What part of a limit all queues may take together.
const QUEUES: u64 = 4;

/// How much more memory a process may take for others. What it has taken is not given back here: the next look shows what is
/// free.
pub struct Growth {
    /// Whether anything is ever refused.
    is_watched: AtomicBool,
    is_short: AtomicBool,
    found: Mutex<Found>,
    limits: fn() -> MemoryLimits,
}

/// What the last look has found.
struct Found {
    looked: Option<Instant>,
    /// How many bytes may be taken without another look, and how many there were at this one.
    left: u64,
    most: u64,
    /// How many of these are for queues alone, so that what is written does not keep answers from leaving.
    for_answers: u64,
    /// How much all queues may have, and have.
    for_queues: u64,
    queued: u64,
    /// How many bytes there are for clients, those that were promised to them among these.
    for_clients: u64,
    /// What was promised to those who may take it without asking.
    kept: u64,
}

/// Memory that its owner may take without asking, until this is dropped.
pub struct KeptMemory {
    growth: &'static Growth,
    bytes: u64,
}

impl Drop for KeptMemory {
    fn drop(&mut self) {
        self.growth.found().kept -= self.bytes;
    }
}

/// What a queue has taken, until this is dropped.
#[derive(Debug, Default)]
pub struct QueueMemory(Cell<u64>);

impl QueueMemory {
    /// How many bytes it has taken.
    #[inline]
    pub fn taken(&self) -> u64 {
        self.0.get()
    }

    /// Takes `bytes` more, if the queue may.
    pub fn grow(&self, bytes: u64) -> bool {
        let growth = growth();
        if !growth.is_watched() {
            return true;
        }
        let is_taken = growth.queue_at(bytes, Instant::now());
        if is_taken {
            self.0.set(self.0.get() + bytes);
        }
        is_taken
    }
}

impl Drop for QueueMemory {
    fn drop(&mut self) {
        if self.0.get() > 0 {
            growth().found().queued -= self.0.get();
        }
    }
}

/// That of this process.
pub fn growth() -> &'static Growth {
    static GROWTH: Growth = Growth::new(MemoryLimits::of_this_process);
    &GROWTH
}

impl Growth {
    const fn new(limits: fn() -> MemoryLimits) -> Self {
        let found = Found {
            looked: None,
            left: 0,
            most: 0,
            for_answers: 0,
            for_queues: 0,
            queued: 0,
            for_clients: 0,
            kept: 0,
        };
        let (is_watched, is_short) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { is_watched, is_short, found: Mutex::new(found), limits }
    }

    fn found(&self) -> MutexGuard<'_, Found> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on the limits are kept, as a process has to do that others ask for memory. No other process refuses itself any.
    pub fn watch(&self) {
        self.is_watched.store(true, Ordering::Release);
    }

    /// Whether the limits are kept.
    #[inline]
    pub fn is_watched(&self) -> bool {
        self.is_watched.load(Ordering::Acquire)
    }

    /// Whether pages with `bytes` may be made present. Until the next look they count as taken.
    #[inline]
    pub fn take(&self, bytes: u64) -> bool {
        !self.is_watched() || self.take_at(bytes, Instant::now())
    }

    fn take_at(&self, bytes: u64, now: Instant) -> bool {
        let mut found = self.found();
        let rest = found.for_answers;
        self.deduct(&mut found, (bytes, rest), now)
    }

    /// Takes memory for a queue, which may take less than others, and goes on when these may take nothing more.
    fn queue_at(&self, bytes: u64, now: Instant) -> bool {
        let mut found = self.found();
        let is_taken = self.deduct(&mut found, (bytes, 0), now) && found.queued + bytes <= found.for_queues;
        match is_taken {
            true => found.queued += bytes,
            // In the pause after a look nothing is known.
            false if found.looked == Some(now) || found.queued + bytes > found.for_queues => {
                self.is_short.store(true, Ordering::Release);
            }
            false => {}
        }
        is_taken
    }

    /// Takes `bytes` if `rest` are left then, after another look if need be.
    fn deduct(&self, found: &mut Found, (bytes, rest): (u64, u64), now: Instant) -> bool {
        let age = found.age(now);
        if age < HOLDS && found.deduct(bytes, rest) {
            return true;
        }
        if age < PAUSE && found.most < bytes.saturating_add(rest) {
            return false;
        }
        self.look(found, now);
        found.deduct(bytes, rest)
    }

    fn look(&self, found: &mut Found, now: Instant) {
        let limits = (self.limits)();
        let limit = limits.tightest();
        let spare = limit.map_or(u64::MAX, MemoryLimit::spare);
        found.for_clients = limit.map_or(u64::MAX, MemoryLimit::spare_for_clients);
        found.for_answers = limit.map_or(0, MemoryLimit::reserve) / 2;
        found.for_queues = limit.map_or(u64::MAX, |limit| limit.bytes / QUEUES);
        found.looked = Some(now);
        // The other half is for what others take until the next look.
        found.most = spare.saturating_sub(found.kept) / 2;
        found.left = found.most;
    }

    /// Whether a queue was refused memory lately, and there is not enough again.
    #[inline]
    pub fn is_short(&self) -> bool {
        self.is_short.load(Ordering::Acquire) && self.is_short_at(Instant::now())
    }

    fn is_short_at(&self, now: Instant) -> bool {
        let mut found = self.found();
        if found.age(now) >= HOLDS {
            self.look(&mut found, now);
        }
        let is_short = found.left < ENOUGH || found.queued + ENOUGH > found.for_queues;
        self.is_short.store(is_short, Ordering::Release);
        is_short
    }

    /// Whether another client can be served, who may take `bytes` without asking. A part of what is left near a limit is for
    /// clients, among whom are those that free memory.
    pub fn has_place(&self, bytes: u64) -> bool {
        if !self.is_watched() {
            return true;
        }
        let (mut found, now) = (self.found(), Instant::now());
        if found.age(now) >= HOLDS {
            self.look(&mut found, now);
        }
        found.kept.saturating_add(bytes) <= found.for_clients
    }

    /// Promises memory to a client.
    pub fn keep(&'static self, bytes: u64) -> KeptMemory {
        let mut found = self.found();
        found.kept += bytes;
        found.left = found.left.saturating_sub(bytes);
        KeptMemory { growth: self, bytes }
    }
}

impl Found {
    fn age(&self, now: Instant) -> Duration {
        self.looked.map_or(Duration::MAX, |looked| now.saturating_duration_since(looked))
    }

    fn deduct(&mut self, bytes: u64, rest: u64) -> bool {
        let left = self.left.checked_sub(bytes).filter(|left| *left >= rest);
        self.left = left.unwrap_or(self.left);
        left.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Groups, with_files};

    const MIB: u64 = 1 << 20;

    thread_local! {
        static USED: Cell<u64> = const { Cell::new(0) };
    }

    /// A group that allows 160 MiB, of which 10 MiB are kept free.
    fn limits() -> MemoryLimits {
        let used = USED.get().to_string();
        let files = [
            ("/proc/self/cgroup", "0::/\n"),
            ("/proc/self/mountinfo", "30 23 0:26 / /cg rw,nosuid - cgroup2 cgroup2 rw\n"),
            ("/cg/memory.max", "167772160\n"),
            ("/cg/memory.current", &used),
        ];
        with_files(&files, |files| MemoryLimits::read(files, &Groups::read(files)))
    }

    #[test]
    fn what_grows_stays_below_the_limit_whatever_is_asked_and_how_fast() {
        let growth = Growth::new(limits);
        assert!(growth.take(1 << 40), "a process that serves none may take what it likes");
        growth.watch();
        let mut now = Instant::now();
        let mut random = 7_u64;
        for step in 0..20_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            now += Duration::from_micros(random >> 54);
            let bytes = (random >> 40) % (4 * MIB);
            if growth.take_at(bytes, now) {
                USED.set(USED.get() + bytes);
            }
            assert!(USED.get() <= 150 * MIB, "{} bytes are used in step {step}", USED.get());
        }
        // A part is left for answers.
        assert!(USED.get() > 130 * MIB, "only {} bytes are used", USED.get());
    }

    #[test]
    fn a_shortage_ends_when_there_is_memory_again() {
        let growth = Growth::new(limits);
        growth.watch();
        let now = Instant::now();
        let is_short = || growth.is_short.load(Ordering::Acquire);
        USED.set(100 * MIB);
        assert!(growth.queue_at(20 * MIB, now) && !is_short());
        // What is used up is looked at again at once.
        assert!(growth.queue_at(15 * MIB, now) && !is_short());
        USED.set(149 * MIB);
        let later = now + HOLDS;
        assert!(!growth.queue_at(2 * MIB, later) && is_short());
        assert!(growth.is_short_at(later) && growth.is_short_at(later + HOLDS));
        USED.set(100 * MIB);
        assert!(growth.is_short_at(later + HOLDS) && !growth.is_short_at(later + 2 * HOLDS));
    }

    #[test]
    fn queues_and_pages_keep_no_memory_from_each_other() {
        let growth = Growth::new(limits);
        growth.watch();
        let now = Instant::now();
        USED.set(10 * MIB);
        let queued = (0..1000).take_while(|_| growth.queue_at(MIB, now)).count() as u64;
        assert_eq!(queued, 160 / QUEUES);
        assert!(growth.is_short_at(now), "queues have all that they may have");
        USED.set(USED.get() + queued * MIB);
        let mut later = now;
        while growth.take_at(MIB, later) {
            USED.set(USED.get() + MIB);
            later += HOLDS;
        }
        assert!(USED.get() > 130 * MIB, "pages get {} bytes", USED.get());
        growth.found().queued = 0;
        assert!(growth.queue_at(4 * MIB, later + HOLDS), "answers can leave");
    }

    #[test]
    fn clients_have_places_for_as_long_as_all_of_them_could_take_theirs() {
        static GROWTH: Growth = Growth::new(limits);
        GROWTH.watch();
        USED.set(100 * MIB);
        let places: Vec<_> =
            std::iter::from_fn(|| GROWTH.has_place(MIB).then(|| GROWTH.keep(MIB))).take(100).collect();
        assert_eq!(places.len(), 55);
        // What they may take is not given to what asks.
        assert!(!GROWTH.take_at(MIB, Instant::now()));
        drop(places);
        assert!(GROWTH.has_place(55 * MIB) && GROWTH.take_at(20 * MIB, Instant::now() + HOLDS));
    }
}
