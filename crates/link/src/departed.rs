//! Sockets and endpoints that outlive their link until the peer has received everything.
//!
//! One thread looks at them, since the event loop that owned the link has forgotten it and may sleep for hours. The thread
//! starts with the first one and ends with the last.

use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, getpid};

/// How long a peer has to receive what is left.
const PATIENCE: Duration = Duration::from_secs(10);
/// How many are kept; when another comes, the oldest is closed.
const KEPT_MAX: usize = 128;
/// How often the thread looks at them: the kernel does not tell when a peer has received everything.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Something that outlives its link. Dropping it closes it.
pub(crate) trait Departed: Send {
    /// Whether it can be closed now. Does not block.
    fn is_done(&mut self) -> bool;

    /// Called for all that are closed together before the first of them is dropped.
    fn prepare_to_close(&mut self) {}
}

struct Kept {
    kept: Vec<(Box<dyn Departed>, Instant)>,
    /// The process whose thread looks at them: a child that was forked has none of its parent's threads.
    looked_at_by: Option<Pid>,
}

static KEPT: Mutex<Kept> = Mutex::new(Kept { kept: Vec::new(), looked_at_by: None });

/// Keeps it until it is done, for [`PATIENCE`] at most. If no thread can be had it is closed at once.
///
/// Even one that is done by now waits for the thread's next look: its peer may be in this process too and be closed with it.
pub(crate) fn keep(departed: Box<dyn Departed>) {
    let mut due = Vec::new();
    let mut state = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    state.kept.push((departed, Instant::now()));
    let surplus = state.kept.len().saturating_sub(KEPT_MAX);
    due.extend(state.kept.drain(..surplus).map(|(departed, _)| departed));
    if state.looked_at_by != Some(getpid()) {
        match thread::Builder::new().name("departed".to_owned()).spawn(look_until_none_is_left) {
            Ok(_) => state.looked_at_by = Some(getpid()),
            Err(_) => due.extend(state.kept.drain(..).map(|(departed, _)| departed)),
        }
    }
    drop(state);
    close(due);
}

fn look_until_none_is_left() {
    loop {
        // tidy: allow(sleep) No event tells when the peer has received everything.
        thread::sleep(LOOK_EVERY);
        let mut state = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = |(departed, since): &mut (Box<dyn Departed>, Instant)| {
            departed.is_done() || since.elapsed() >= PATIENCE
        };
        let due = state.kept.extract_if(.., is_due).map(|(departed, _)| departed).collect();
        let is_last = state.kept.is_empty();
        if is_last {
            state.looked_at_by = None;
        }
        drop(state);
        close(due);
        if is_last {
            return;
        }
    }
}

fn close(mut due: Vec<Box<dyn Departed>>) {
    due.iter_mut().for_each(|departed| departed.prepare_to_close());
}
