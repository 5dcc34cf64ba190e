//! The operating system's requests to end, and its limits.

use std::io::{ErrorKind, Read};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use signal_hook::consts::{SIGINT, SIGTERM};

/// Requests to end: SIGTERM and SIGINT. The first one is told to the process, a second one ends it at once.
pub struct Signals {
    arrivals: UnixStream,
    /// Whether the next signal does what it would do without this collection.
    is_last: Arc<AtomicBool>,
}

impl Signals {
    /// From now on these signals are collected here instead of ending the process, which the kernel ends so long after the
    /// first of them, whatever its threads do and even if none of them can run.
    #[expect(unsafe_code, reason = "the handler may do only what is safe in one")]
    pub fn collect(end_within: Duration) -> std::io::Result<Self> {
        let (arrivals, signalled) = UnixStream::pair()?;
        let is_last = Arc::new(AtomicBool::new(false));
        let seconds = end_within.as_secs().clamp(1, 3600) as libc::c_uint;
        for signal in [SIGTERM, SIGINT] {
            // SAFETY: `alarm` may be called in a handler, and touches no memory.
            unsafe { signal_hook::low_level::register(signal, move || _ = libc::alarm(seconds))? };
            signal_hook::flag::register_conditional_default(signal, Arc::clone(&is_last))?;
            signal_hook::low_level::pipe::register(signal, signalled.try_clone()?)?;
        }
        Ok(Self { arrivals, is_last })
    }

    /// Sleeps until the process is asked to end.
    pub fn wait(&mut self) -> std::io::Result<()> {
        while !self.wait_for(None)? {}
        Ok(())
    }

    /// Waits for so long at most, if that is said. Returns whether the process is asked to end.
    pub fn wait_for(&mut self, most: Option<Duration>) -> std::io::Result<bool> {
        self.arrivals.set_read_timeout(most)?;
        loop {
            match self.arrivals.read(&mut [0; 1]) {
                Ok(_) => {
                    self.is_last.store(true, Ordering::Relaxed);
                    return Ok(true);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
    }
}

/// Lets the process open as many descriptors as it may: a daemon has one and more for each client.
pub fn raise_descriptor_limit() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // The limit that was in force stays in force if this is refused.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}
