//! The operating system's requests to end, and its limits.

use std::io::Read;
use std::os::unix::net::UnixStream;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use signal_hook::consts::{SIGINT, SIGTERM};

/// Requests to end: SIGTERM and SIGINT.
pub struct Signals {
    arrivals: UnixStream,
}

impl Signals {
    /// From now on these signals are collected here instead of ending the process.
    pub fn collect() -> std::io::Result<Self> {
        let (arrivals, signalled) = UnixStream::pair()?;
        for signal in [SIGTERM, SIGINT] {
            signal_hook::low_level::pipe::register(signal, signalled.try_clone()?)?;
        }
        Ok(Self { arrivals })
    }

    /// Sleeps until the process is asked to end.
    pub fn wait(&mut self) -> std::io::Result<()> {
        loop {
            match self.arrivals.read(&mut [0; 1]) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                other => return other.map(|_| ()),
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
