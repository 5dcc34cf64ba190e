//! A thread of this process that exists for as long as there is work for it.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SendError, Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// A piece of work that is done in short steps.
pub(super) trait Work: Send + 'static {
    /// When the next step is due.
    fn due(&self) -> Instant;

    /// Takes a step, without waiting. Returns whether there is another one.
    fn step(&mut self) -> bool;
}

/// One thread for all work of a kind.
pub(super) struct OneThread<W> {
    name: &'static str,
    /// How the thread is given work, and of which process it is: the child of a fork has none. Only threads that bring work wait
    /// for this lock, and the thread when it ends.
    door: Mutex<Option<(u32, Sender<W>)>>,
}

impl<W: Work> OneThread<W> {
    /// There is no thread until it has work.
    pub(super) const fn new(name: &'static str) -> Self {
        Self { name, door: Mutex::new(None) }
    }

    fn door(&self) -> MutexGuard<'_, Option<(u32, Sender<W>)>> {
        self.door.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the thread do this. Where the system gives no thread the work is dropped.
    pub(super) fn give(&'static self, work: W) {
        let mut door = self.door();
        let process = std::process::id();
        let work = match door.as_ref().filter(|(of, _)| *of == process) {
            Some((_, thread)) => match thread.send(work) {
                Ok(()) => return,
                Err(SendError(work)) => work,
            },
            None => work,
        };
        let (sender, receiver) = channel();
        let run = move || self.run(vec![work], &receiver);
        match std::thread::Builder::new().name(self.name.to_owned()).spawn(run) {
            Ok(_) => *door = Some((process, sender)),
            Err(error) => tracing::warn!("no thread {} could be started: {error}", self.name),
        }
    }

    fn run(&self, mut all: Vec<W>, more: &Receiver<W>) {
        loop {
            let now = Instant::now();
            all.retain_mut(|work| work.due() > now || work.step());
            let Some(due) = all.iter().map(W::due).min() else {
                let mut door = self.door();
                match more.try_recv() {
                    Ok(work) => all.push(work),
                    Err(_) => {
                        *door = None;
                        return;
                    }
                }
                continue;
            };
            match more.recv_timeout(due.saturating_duration_since(Instant::now())) {
                Ok(work) => all.push(work),
                Err(RecvTimeoutError::Timeout) => {}
                // Another thread has taken this one's place at the door, so no work will come by it.
                Err(RecvTimeoutError::Disconnected) => {
                    std::thread::park_timeout(due.saturating_duration_since(Instant::now()));
                }
            }
        }
    }
}
