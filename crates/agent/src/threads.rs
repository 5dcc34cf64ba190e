//! The threads of a daemon: each has a name, and all of them end in bounded time or are told of by name.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::daemon::StartError;

/// Threads that were started and may have ended.
pub(crate) struct Threads {
    names: Vec<String>,
    ended: Receiver<String>,
    end: Sender<String>,
}

impl Threads {
    pub(crate) fn new() -> Self {
        let (end, ended) = channel();
        Self { names: Vec::new(), ended, end }
    }

    /// Starts one. If what it runs fails, the process ends: half a daemon would take connections and never answer.
    pub(crate) fn spawn(
        &mut self,
        name: &str,
        run: impl FnOnce() -> Result<(), Errno> + Send + 'static,
    ) -> Result<(), StartError> {
        let ends = Ends { name: name.to_owned(), end: self.end.clone() };
        let body = move || {
            if let Err(error) = run() {
                tracing::error!("thread {} cannot go on: {error}", ends.name);
                std::process::exit(1);
            }
        };
        Builder::new().name(name.to_owned()).spawn(body).map_err(StartError::Thread)?;
        self.names.push(name.to_owned());
        Ok(())
    }

    /// Waits until all have ended, for so long at most, and returns the names of those that have not.
    pub(crate) fn wait(mut self, most: Duration) -> Vec<String> {
        let began = Instant::now();
        while !self.names.is_empty() {
            let Ok(ended) = self.ended.recv_timeout(most.saturating_sub(began.elapsed())) else { break };
            self.names.retain(|name| *name != ended);
        }
        self.names
    }
}

/// Tells that a thread has ended when it is dropped, by a panic as well.
struct Ends {
    name: String,
    end: Sender<String>,
}

impl Drop for Ends {
    fn drop(&mut self) {
        // The daemon may have stopped to wait.
        let _ = self.end.send(std::mem::take(&mut self.name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_does_not_end_is_named_and_not_waited_for() {
        let mut threads = Threads::new();
        let (release, held) = channel::<()>();
        threads.spawn("quick", || Ok(())).unwrap();
        threads
            .spawn("stuck", move || {
                // Ends when the test does.
                let _ = held.recv();
                Ok(())
            })
            .unwrap();
        assert_eq!(threads.wait(Duration::from_millis(50)), ["stuck"]);
        drop(release);
    }

    #[test]
    fn threads_that_end_are_waited_for() {
        let mut threads = Threads::new();
        for name in ["one", "two"] {
            threads.spawn(name, || Ok(())).unwrap();
        }
        assert_eq!(threads.wait(Duration::from_secs(60)), Vec::<String>::new());
    }
}
