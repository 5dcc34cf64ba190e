//! A thread that watches the daemon's event loops and its memory: shows how long turns take, names a thread that is stuck,
//! and tells when memory runs short.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use outboard_driver::Pulse;
use outboard_link::Clock;
use outboard_wire::Time;

use crate::memory_watch::MemoryWatch;
use crate::status::{Gauge, StatusPage};

/// How often the watchdog looks at the event loops.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// At every how many of these looks it looks at the memory, which costs more.
const LOOKS_PER_MEMORY: usize = 20;
/// At every how many of them it wakes threads that sleep, to see that they can be woken.
const LOOKS_PER_RING: usize = 8;
/// A thread whose turn takes as long is said to be stuck: a turn is bounded work, far less than a millisecond of it.
const STUCK_AFTER: Duration = Duration::from_secs(1);

/// The event loops that are watched.
pub(crate) struct Watchdog {
    watched: Vec<Watched>,
    stuck: Gauge,
    memory: MemoryWatch,
}

struct Watched {
    thread: String,
    pulse: Arc<Pulse>,
    longest_us: Gauge,
    stuck_ms: Gauge,
    is_stuck: bool,
}

impl Watchdog {
    pub(crate) fn new(page: &StatusPage, threads: Vec<(String, Arc<Pulse>)>) -> Self {
        let watch = |(thread, pulse): (String, Arc<Pulse>)| {
            let name = thread.replace('-', "_");
            let longest_us = page.gauge(&format!("{name}_longest_turn_us"));
            let stuck_ms = page.gauge(&format!("{name}_stuck_ms"));
            Watched { thread, pulse, longest_us, stuck_ms, is_stuck: false }
        };
        let (watched, stuck) = (threads.into_iter().map(watch).collect(), page.gauge("threads_stuck"));
        Self { watched, stuck, memory: MemoryWatch::new(page) }
    }

    /// Watches until the other end of `stop` is dropped.
    pub(crate) fn run(mut self, clock: Clock, stop: &Receiver<()>) {
        for looks in 0usize.. {
            if looks.is_multiple_of(LOOKS_PER_MEMORY) {
                self.memory.tell();
            }
            if stop.recv_timeout(LOOK_EVERY) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            self.look(clock.now());
            if looks.is_multiple_of(LOOKS_PER_RING) {
                self.watched.iter().for_each(|watched| watched.pulse.ring(clock.now()));
            }
        }
    }

    fn look(&mut self, now: Time) {
        let mut stuck = 0;
        for watched in &mut self.watched {
            let took = watched.pulse.under_way(now).filter(|took| *took >= STUCK_AFTER);
            watched.longest_us.set(watched.pulse.longest(now).as_micros() as u64);
            watched.stuck_ms.set(took.map_or(0, |took| took.as_millis() as u64));
            stuck += u64::from(took.is_some());
            let thread = &watched.thread;
            match (took, watched.is_stuck) {
                (Some(took), false) => {
                    tracing::warn!(
                        "thread {thread} has not turned for {:.1} s: its clients wait for it. New ones go to other \
                         threads; SIGTERM still ends the daemon",
                        took.as_secs_f64()
                    );
                }
                (None, true) => tracing::info!("thread {thread} turns again"),
                _ => {}
            }
            watched.is_stuck = took.is_some();
        }
        self.stuck.set(stuck);
    }
}

#[cfg(test)]
mod tests {
    use outboard_driver::Mailbox;
    use outboard_wire::Role;

    use super::*;

    #[test]
    fn a_thread_that_does_not_turn_is_shown_until_it_does() {
        let page = StatusPage::create(Role::MemoryServer, "m").unwrap();
        let pulse = Mailbox::<()>::new().unwrap().pulse();
        let mut watchdog = Watchdog::new(&page, vec![("worker-0".to_owned(), Arc::clone(&pulse))]);
        let at = |ms| Time::ZERO + Duration::from_millis(ms);
        let shown = |page: &StatusPage| {
            let view = page.view().unwrap();
            ["threads_stuck", "worker_0_stuck_ms", "worker_0_longest_turn_us"].map(|name| view.get(name))
        };
        pulse.turn(at(1));
        watchdog.look(at(900));
        assert_eq!(shown(&page), [Some(0), Some(0), Some(899_000)]);
        watchdog.look(at(3001));
        assert_eq!(shown(&page), [Some(1), Some(3000), Some(3_000_000)]);
        pulse.turn(at(4001));
        watchdog.look(at(4002));
        assert_eq!(shown(&page), [Some(0), Some(0), Some(4_000_000)]);
    }
}
