//! Waiting for a link: spin for a while, then sleep, never for ever.

use std::time::{Duration, Instant};

use outboard_wire::Time;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::{Link, LinkError, Loss, WaitOn};

/// The process's monotonic clock.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    began: Instant,
}

impl Clock {
    /// A clock that begins now.
    pub fn start() -> Self {
        Self { began: Instant::now() }
    }

    /// The time that it shows.
    #[inline]
    pub fn now(&self) -> Time {
        Time::ZERO + self.began.elapsed()
    }
}

/// How a thread waits for a link.
#[derive(Clone, Copy, Debug)]
pub struct Waiter {
    /// Where time comes from.
    pub clock: Clock,
    /// How long to look for work before sleeping; default 20 µs, or not at all where a processor quota has less than two
    /// cores. Longer answers faster and burns a core. Links
    /// that move bytes only when they progress, each time with a system call, sleep at once: the kernel likes to
    /// run both ends of a socket on one core, and an end that spins there keeps the other from answering.
    pub spin: Duration,
}

/// How often a spinning waiter looks at the clock and the link's housekeeping.
const SPINS_PER_LOOK: u32 = 64;

impl Waiter {
    /// A waiter with a clock of its own and the default spin.
    pub fn new() -> Self {
        Self { clock: Clock::start(), spin: outboard_limits::spin(Duration::from_micros(20)) }
    }

    /// Replaces the time that it spins.
    pub fn with_spin(self, spin: Duration) -> Self {
        Self { spin, ..self }
    }

    /// Calls `step` until it returns something, letting the link progress and sleeping in between.
    ///
    /// When `limit` has passed, the error names the peer and `awaited`.
    pub fn until<L, T>(
        &self,
        link: &mut L,
        limit: Duration,
        awaited: &'static str,
        mut step: impl FnMut(&mut L) -> Result<Option<T>, LinkError>,
    ) -> Result<T, LinkError>
    where
        L: Link,
    {
        let (spin, looks) = if link.capabilities().needs_target_progress {
            (Duration::ZERO, 1)
        } else {
            (self.spin, SPINS_PER_LOOK)
        };
        for _ in 0..looks {
            if let Some(value) = step(link)? {
                return Ok(value);
            }
            std::hint::spin_loop();
        }
        let began = self.clock.now();
        let mut idle_since = began;
        loop {
            let now = self.clock.now();
            if link.progress(now)? {
                idle_since = now;
            }
            for _ in 0..looks {
                if let Some(value) = step(link)? {
                    return Ok(value);
                }
                std::hint::spin_loop();
            }
            if now.since(began) >= limit {
                let loss = Loss::Stalled { silent: now.since(began), awaited };
                return Err(LinkError { peer: link.peer().clone(), loss });
            }
            if now.since(idle_since) >= spin {
                self.sleep(link, began + limit)?;
                idle_since = self.clock.now();
            }
        }
    }

    /// Sleeps until the link has something to do, its next deadline, or `limit`.
    pub fn sleep<L: Link>(&self, link: &mut L, limit: Time) -> Result<(), LinkError> {
        if !link.prepare_to_wait() {
            return Ok(());
        }
        let until = link.next_deadline().map_or(limit, |deadline| deadline.min(limit));
        sleep_on(link.wait_on(), until.since(self.clock.now()))
            .map_err(|loss| LinkError { peer: link.peer().clone(), loss })
    }
}

/// Sleeps until one of these has something to do, for `span` at most.
pub fn sleep_on<'a>(on: impl IntoIterator<Item = WaitOn<'a>>, span: Duration) -> Result<(), Loss> {
    let mut interests: Vec<PollFd<'a>> = on.into_iter().map(interest).collect();
    if interests.is_empty() {
        std::thread::park_timeout(span);
        return Ok(());
    }
    let timeout = Timespec { tv_sec: span.as_secs() as i64, tv_nsec: span.subsec_nanos().into() };
    match poll(&mut interests, Some(&timeout)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(source) => Err(Loss::System { call: "poll", source }),
    }
}

/// The event for which poll wakes a thread that sleeps on a link.
fn interest(on: WaitOn<'_>) -> PollFd<'_> {
    let read = if on.readable { PollFlags::IN } else { PollFlags::empty() };
    let events = read | if on.writable { PollFlags::OUT } else { PollFlags::empty() };
    PollFd::from_borrowed_fd(on.descriptor, events)
}

impl Default for Waiter {
    fn default() -> Self {
        Self::new()
    }
}
