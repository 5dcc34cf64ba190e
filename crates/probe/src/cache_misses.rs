//! How often the last-level cache did not have what a process wanted, as the processor counts it.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{FromRawFd, OwnedFd};

/// Counts the lines that the last-level cache did not have, for this thread and all that it starts, outside of the kernel.
pub struct CacheMisses {
    counter: File,
}

/// `struct perf_event_attr` as it was in its first version, which every kernel knows.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    bp_type: u32,
    bp_addr: u64,
}

const _: () = assert!(size_of::<Attributes>() == 64, "the first version has 64 bytes");

const TYPE_HARDWARE: u32 = 0;
const HARDWARE_CACHE_MISSES: u64 = 3;
/// With the count come the time it was asked for and the time it ran, in nanoseconds.
const FORMAT_TIMES: u64 = 0b11;
const FLAG_CLOEXEC: libc::c_ulong = 1 << 3;
const INHERIT: u64 = 1 << 1;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;

impl CacheMisses {
    /// Begins to count. Fails where the processor has no counters, or not for this process.
    pub fn count() -> io::Result<Self> {
        let attributes = Attributes {
            kind: TYPE_HARDWARE,
            size: size_of::<Attributes>() as u32,
            config: HARDWARE_CACHE_MISSES,
            read_format: FORMAT_TIMES,
            flags: INHERIT | EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR,
            ..Attributes::default()
        };
        let (this_thread, any_core, no_group): (libc::c_long, libc::c_long, libc::c_long) = (0, -1, -1);
        // SAFETY: the attributes are as long as they say, and are only read during the call.
        let descriptor = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                &raw const attributes,
                this_thread,
                any_core,
                no_group,
                FLAG_CLOEXEC,
            )
        };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just opened it for us.
        let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor as i32) };
        Ok(Self { counter: descriptor.into() })
    }

    /// How many there were so far. A counter that was shared with others ran part of the time; the rest is filled in.
    pub fn so_far(&self) -> io::Result<u64> {
        let mut words = [0; 24];
        (&self.counter).read_exact(&mut words)?;
        let (words, _) = words.as_chunks::<8>();
        let [count, asked, ran] = [0, 1, 2].map(|at: usize| u64::from_ne_bytes(words[at]));
        Ok(whole(count, asked, ran))
    }
}

/// What would have been counted in all the time, from what was counted in part of it.
fn whole(count: u64, asked: u64, ran: u64) -> u64 {
    if ran == 0 || ran >= asked {
        count
    } else {
        (u128::from(count) * u128::from(asked) / u128::from(ran)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_counters_are_scaled() {
        assert_eq!((whole(100, 10, 10), whole(100, 10, 5), whole(0, 10, 0)), (100, 200, 0));
    }

    #[test]
    fn counts_grow_or_the_system_says_why_there_are_none() {
        match CacheMisses::count() {
            Ok(misses) => {
                let before = misses.so_far().unwrap();
                // Far more than any cache holds.
                let memory = vec![1u8; 256 << 20];
                let sum: u64 = memory.iter().step_by(4096 + 64).map(|byte| u64::from(*byte)).sum();
                assert!(std::hint::black_box(sum) > 0 && misses.so_far().unwrap() > before);
            }
            Err(error) => assert!(error.raw_os_error().is_some(), "{error}"),
        }
    }
}
