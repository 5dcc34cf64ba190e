//! The services of this process for the pager that works in it.

use std::process;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use outboard_limits::ProcessorLimits;
use outboard_paging::application::{FingerprintKey, PagingConfig, PagingError, Process, ServerLoss};
use outboard_wire::Time;
use rustix::io::Errno;

use super::ProcessPages;
use super::space::{Space, SpaceConfig};
use super::uninterrupted::Uninterrupted;

/// Makes the far memory of this process, without regions.
pub fn open(config: PagingConfig, space: SpaceConfig) -> Result<Arc<ProcessPages>, PagingError> {
    let space = Space::open(space).map_err(|errno| PagingError::NoUserfaultfd(errno.into()))?;
    let key = draw_key().map_err(|errno| PagingError::NoMemory {
        what: "no random numbers for fingerprints",
        source: errno.into(),
    })?;
    ProcessPages::new(config, space, key)
}

/// Whether there can be far memory with these settings on this machine.
pub fn check(config: &PagingConfig) -> Result<(), PagingError> {
    config.check(rustix::param::page_size())
}

/// How many threads answer faults unless the settings say otherwise: one for every two processors, at least two, at most
/// eight, but one where affinity mask or processor quota allow only one to run.
pub fn default_threads() -> usize {
    match ProcessorLimits::of_this_process().threads() {
        1 => 1,
        processors => (processors / 2).clamp(2, 8),
    }
}

fn draw_key() -> Result<Box<FingerprintKey>, Errno> {
    let mut result = Ok(());
    let key = FingerprintKey::draw(|| {
        let mut bytes = [0; 8];
        let mut filled = 0;
        while filled < bytes.len() && result.is_ok() {
            match rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty()) {
                Ok(more) => filled += more,
                Err(errno) => result = Err(errno),
            }
        }
        u64::from_ne_bytes(bytes)
    });
    result.map(|()| key)
}

/// Says something where people look, without what a fault thread must not use.
pub(super) fn say(text: &str) {
    // There is no caller to tell if this fails.
    let _ = rustix::io::write(rustix::stdio::stderr(), text.as_bytes());
}

impl Process for Space {
    type Uninterrupted = Uninterrupted;

    fn uninterrupted(&self) -> Uninterrupted {
        Uninterrupted::new()
    }

    /// Where a copy is all that a fetch takes, turns are too long to measure with.
    fn time(&self, _turn: Time) -> Time {
        self.clock.now()
    }

    fn announce(&self) {
        let (lock, condition) = &self.news;
        *lock.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        condition.notify_all();
    }

    fn call(&self) {
        if let Some(arrivals) = &self.arrivals {
            arrivals.call();
        }
    }

    fn give_way(&self) {
        std::thread::yield_now();
    }

    fn tell_keeper(&self) {
        if let Some(bell) = &self.keeper {
            bell.ring();
        }
    }

    fn lost(&self, loss: ServerLoss) {
        self.bulletin.post(loss);
    }

    fn say(&self, text: &str) {
        say(text);
    }

    fn end(&self, why: &str) -> ! {
        say(&format!("outboard: {why}: ending\n"));
        // SAFETY: it ends the process, as it is. Handlers of an orderly exit may touch far memory, and it is this thread
        // that they would wait for.
        unsafe { libc::_exit(1) }
    }

    fn abort(&self, why: &str) -> ! {
        say(&format!("outboard: {why}\n"));
        process::abort();
    }
}

impl Space {
    /// How much has happened so far that a thread of the application may wait for.
    pub(super) fn news_so_far(&self) -> u64 {
        let _uninterrupted = Uninterrupted::new();
        *self.news.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until more has happened than this, or for a while.
    pub(super) fn wait_for_news_after(&self, so_far: u64, limit: Duration) {
        let _uninterrupted = Uninterrupted::new();
        let (lock, condition) = &self.news;
        let guard = lock.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = condition.wait_timeout_while(guard, limit, |news| *news == so_far);
    }

    /// Waits until something has happened, or for a while.
    pub fn wait_for_news(&self, limit: Duration) {
        self.wait_for_news_after(self.news_so_far(), limit);
    }
}
