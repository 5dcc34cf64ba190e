//! Functions that are to run here are looked at by a thread of its own: calls go on meanwhile.

use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::Duration;

use outboard_calling::{Function, FunctionImage};
use outboard_wire::calling::RegisterRefusal;

use crate::calling::desk::Refused;

/// Whoever waits for such a thread sleeps no longer than this at a time: nothing else wakes it when the thread is done.
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// A function that is being looked at.
pub(super) struct Preparation {
    pub(super) handle: u32,
    result: Receiver<Result<Function, Refused>>,
}

impl Preparation {
    /// Begins. Nothing, where no thread is to be had.
    pub(super) fn begin(handle: u32, image: &FunctionImage) -> Option<Self> {
        let (tell, result) = channel();
        let image = image.clone();
        let look = move || {
            // Whoever wanted it may have gone.
            let _ = tell.send(Function::prepare(&image));
        };
        std::thread::Builder::new().name("prepare".to_owned()).spawn(look).ok()?;
        Some(Self { handle, result })
    }

    /// What came of it, once there is something.
    pub(super) fn result(&self) -> Option<Result<Function, Refused>> {
        match self.result.try_recv() {
            Ok(result) => Some(result),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => {
                let detail = "the thread that looked at the function has ended".to_owned();
                Some(Err((RegisterRefusal::BadCode, detail)))
            }
        }
    }
}
