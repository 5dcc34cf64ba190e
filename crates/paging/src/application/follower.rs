//! How large a buffer is that follows the memory that its process may have.
//!
//! A buffer takes memory only as it fills, so that it may be as large as there is memory to spare. What other programs need comes
//! first: when less is left than must stay free, or threads wait for memory, the buffer shrinks at once; it grows by steps, and
//! only some time after that.

use std::fmt;
use std::time::Duration;

use outboard_limits::show_bytes;
use outboard_wire::{Time, mutant};

/// How much of the time threads may wait for memory before the buffer shrinks, and before it stops growing, in thousandths.
const STALLED_TOO_LONG: u128 = 100;
const STALLED_NOTICEABLY: u128 = 10;
/// How long the buffer does not grow after it had to shrink.
const CALM: Duration = Duration::from_secs(3);
/// How long until the next look, where memory is short or the buffer full, and otherwise.
const SOON: Duration = Duration::from_millis(100);
const LATER: Duration = Duration::from_secs(1);
/// By which part of itself a buffer grows at once, and at least by how much.
const GROWS_BY: usize = 4;
const GROWS_BY_MIN: usize = 16 << 20;
/// By which part of what is in use it shrinks at least, so that it gets somewhere.
const SHRINKS_BY: usize = 32;

/// The system's word about memory at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryReadings {
    /// How many bytes the process may still take before the nearest limit.
    pub left: u64,
    /// How many of these have to stay free.
    pub reserve: u64,
    /// For how long threads have waited for memory, since some time in the past.
    pub stalled: Duration,
}

/// Why a buffer that follows memory is as large as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferReason {
    /// There is memory for more, but it may not become larger.
    Largest,
    /// Half of what is left is its own.
    Follows,
    /// It grows by steps to what there is memory for.
    Grows,
    /// It had to shrink a moment ago.
    Waits,
    /// Less memory is left than has to stay free.
    Short,
    /// Threads wait for memory.
    Stalls,
}

impl fmt::Display for BufferReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Largest => "there is memory for more, but it may not become larger",
            Self::Follows => "it leaves half of what is left to others",
            Self::Grows => "it grows by steps",
            Self::Waits => "it had to shrink a moment ago",
            Self::Short => "less memory is left than has to stay free",
            Self::Stalls => "threads wait for memory",
        })
    }
}

/// Decides how large a buffer is.
#[derive(Debug)]
pub struct BufferFollower {
    most: usize,
    size: usize,
    reason: BufferReason,
    last: Option<(Time, MemoryReadings)>,
    grows_from: Time,
    looks_at: Time,
}

impl BufferFollower {
    /// For a buffer that is so large, and never larger than `most`.
    pub fn new(size: usize, most: usize) -> Self {
        let (last, start) = (None, Time::ZERO);
        Self { most, size, reason: BufferReason::Grows, last, grows_from: start, looks_at: start }
    }

    /// How large the buffer is from now on, of which `used` bytes are in use, and which cannot be smaller than `least`.
    pub fn look(&mut self, now: Time, readings: MemoryReadings, (used, least): (usize, usize)) -> usize {
        let MemoryReadings { left, reserve, .. } = readings;
        let stalled = self.stalled(now, &readings);
        self.last = Some((now, readings));
        // Memory on its way out will be left.
        let leaving = used.saturating_sub(self.size);
        let left = left.saturating_add(leaving as u64);
        let short = bytes(reserve.saturating_sub(left));
        let here = used - leaving;
        let fits = here.saturating_add(bytes(left.saturating_sub(reserve)) / 2);
        let is_short = short > 0 && !mutant("paging.memory-taken-from-others");
        (self.size, self.reason) = if is_short || stalled >= STALLED_TOO_LONG {
            self.grows_from = now + CALM;
            let reason = if is_short { BufferReason::Short } else { BufferReason::Stalls };
            (here.saturating_sub(short.max(here / SHRINKS_BY)), reason)
        } else if fits <= self.size {
            (fits, BufferReason::Follows)
        } else if self.size >= self.most {
            (self.most, BufferReason::Largest)
        } else if now < self.grows_from || stalled >= STALLED_NOTICEABLY {
            (self.size, BufferReason::Waits)
        } else {
            let step = (self.size / GROWS_BY).max(GROWS_BY_MIN);
            (fits.min(self.size.saturating_add(step)), BufferReason::Grows)
        };
        self.size = self.size.max(least).min(self.most);
        let is_full = used + used / 16 >= self.size && self.size < self.most;
        let is_tight = matches!(self.reason, BufferReason::Short | BufferReason::Stalls);
        // Others must not take all that is left until the next look.
        let is_near = left.saturating_sub(reserve) < (self.size / 2) as u64;
        self.looks_at = now + if is_full || is_tight || is_near { SOON } else { LATER };
        self.size
    }

    /// When to look again.
    pub fn looks_at(&self) -> Time {
        self.looks_at
    }

    /// For how many thousandths of the time since the last look threads have waited for memory.
    fn stalled(&self, now: Time, readings: &MemoryReadings) -> u128 {
        let Some((then, before)) = self.last else { return 0 };
        let waited = readings.stalled.saturating_sub(before.stalled).as_micros() * 1000;
        waited / now.since(then).as_micros().max(1)
    }

    /// Why it is as large as it is, for people.
    pub fn explain(&self) -> String {
        let left = match self.last {
            Some((_, MemoryReadings { left, reserve, .. })) => format!(
                " ({} are left, of which {} have to stay free)",
                show_bytes(left),
                show_bytes(reserve)
            ),
            None => String::new(),
        };
        format!("follows what memory is left: {}{left}", self.reason)
    }
}

fn bytes(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;
    const LEAST: usize = 4 * MIB;
    const RESERVE: u64 = 64 << 20;

    /// A machine with one program in far memory, and others.
    struct Machine {
        follower: BufferFollower,
        now: Time,
        memory: usize,
        others: usize,
        used: usize,
        stalled: Duration,
    }

    impl Machine {
        fn new(memory: usize) -> Self {
            Self {
                follower: BufferFollower::new(32 * MIB, memory / 2),
                now: Time::ZERO + Duration::from_secs(1),
                memory,
                others: 0,
                used: 0,
                stalled: Duration::ZERO,
            }
        }

        /// The program fills its buffer, or gives back so many bytes of what is too much; then the next look.
        fn step(&mut self, gives_back: usize) -> usize {
            let left = self.memory.saturating_sub(self.others + self.used) as u64;
            let readings = MemoryReadings { left, reserve: RESERVE, stalled: self.stalled };
            let size = self.follower.look(self.now, readings, (self.used, LEAST));
            self.used = size.max(self.used.saturating_sub(gives_back));
            self.now = self.follower.looks_at();
            size
        }

        fn settle(&mut self) -> usize {
            (0..200).map(|_| self.step(usize::MAX)).last().unwrap_or(0)
        }
    }

    #[test]
    fn it_grows_by_steps_to_the_largest() {
        let mut machine = Machine::new(1024 * MIB);
        let sizes: Vec<usize> = (0..40).map(|_| machine.step(usize::MAX)).collect();
        assert!(sizes.windows(2).all(|two| two[1] >= two[0] && two[1] - two[0] <= two[0] / 4 + 16 * MIB));
        assert_eq!(sizes.last(), Some(&(512 * MIB)));
        assert!(
            machine.follower.explain().contains("may not become larger"),
            "{}",
            machine.follower.explain()
        );
    }

    #[test]
    fn what_others_need_is_theirs_and_comes_back() {
        let mut machine = Machine::new(1024 * MIB);
        machine.settle();
        machine.others = 700 * MIB;
        let began = machine.now;
        let size = machine.settle();
        let left = machine.memory - machine.others - machine.used;
        assert!(left as u64 >= RESERVE, "{} MiB are left", left / MIB);
        assert!((200 * MIB..=260 * MIB).contains(&size), "{} MiB", size / MIB);
        machine.others = 100 * MIB;
        assert_eq!(machine.settle(), 512 * MIB);
        assert!(machine.now.since(began) > CALM);
        // More than there is.
        machine.others = 2048 * MIB;
        assert_eq!(machine.settle(), LEAST);
    }

    #[test]
    fn it_waits_for_what_is_on_its_way_out() {
        let mut machine = Machine::new(1024 * MIB);
        machine.settle();
        machine.others = 500 * MIB;
        let short = machine.others + machine.used + RESERVE as usize - machine.memory;
        let before = machine.step(0);
        assert_eq!(before, 512 * MIB - short);
        // Slow servers: what is asked for was asked for already.
        for _ in 0..20 {
            assert_eq!(machine.step(MIB), before);
        }
        assert!(!machine.follower.explain().contains("less memory"), "{}", machine.follower.explain());
    }

    #[test]
    fn where_threads_wait_for_memory_it_shrinks_and_then_waits() {
        let mut machine = Machine::new(1024 * MIB);
        machine.settle();
        let before = machine.step(usize::MAX);
        machine.stalled += Duration::from_millis(500);
        let smaller = machine.step(usize::MAX);
        assert_eq!(smaller, before - before / 32);
        assert!(machine.follower.explain().contains("threads wait for memory"));
        let began = machine.now;
        while machine.step(usize::MAX) == smaller {}
        assert!(machine.now.since(began) >= CALM - SOON);
    }

    #[test]
    fn two_of_them_share_what_there_is() {
        let (mut one, mut other) = (Machine::new(600 * MIB), Machine::new(600 * MIB));
        for _ in 0..2000 {
            one.others = other.used;
            one.step(usize::MAX);
            other.others = one.used;
            other.step(usize::MAX);
        }
        let left = 600 * MIB - one.used - other.used;
        assert!(left >= RESERVE as usize, "{} MiB are left", left / MIB);
        assert!(one.used >= 100 * MIB && other.used >= 100 * MIB, "{} and {}", one.used, other.used);
    }
}
