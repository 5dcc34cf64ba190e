//! Drives a link the way an event loop does.

use outboard_link::{Clock, FrameSendError, Link, LinkError, Waiter};
use outboard_wire::FrameHead;

use crate::BenchError;
use crate::pair::{PATIENCE, Waits, spin_until};

/// How often a link whose frames arrive by themselves is looked at before it is asked to progress.
const LOOKS: u32 = 64;

/// A link and the clock it progresses by.
pub(crate) struct Pump<L> {
    pub(crate) link: L,
    /// How it waits; the yardstick waits in the same way.
    pub(crate) waits: Waits,
    clock: Clock,
    looks: u32,
}

impl<L: Link> Pump<L> {
    pub(crate) fn new(link: L) -> Self {
        let looks = if link.capabilities().needs_target_progress { 1 } else { LOOKS };
        Self { link, waits: Waits::Spinning, clock: Clock::start(), looks }
    }

    /// Calls `step` until it returns something.
    #[inline]
    pub(crate) fn until<T>(
        &mut self,
        awaited: &'static str,
        mut step: impl FnMut(&mut L) -> Result<Option<T>, LinkError>,
    ) -> Result<T, BenchError> {
        if self.waits == Waits::Asleep {
            let waiter = Waiter { clock: self.clock, ..Waiter::new() };
            return Ok(waiter.until(&mut self.link, PATIENCE, awaited, step)?);
        }
        let mut looks = 0;
        let value = spin_until(awaited, || {
            let done = step(&mut self.link).transpose();
            looks += 1;
            if done.is_none() && looks >= self.looks {
                looks = 0;
                if let Err(error) = self.link.progress(self.clock.now()) {
                    return Some(Err(error));
                }
            }
            done
        })?;
        Ok(value?)
    }

    /// Sends a frame for which there was no room.
    #[cold]
    pub(super) fn send_when_possible(&mut self, head: FrameHead, message: &[u8]) -> Result<(), BenchError> {
        self.link.flush()?;
        self.until("room for a frame", |link| match link.send(head, message) {
            Ok(()) => Ok(Some(())),
            Err(FrameSendError::Full) => Ok(None),
            Err(FrameSendError::Lost(error)) => Err(error),
            Err(FrameSendError::TooLong { len, max }) => panic!("the link carries {max} bytes, not {len}"),
        })
    }

    /// Sends a frame at once and makes it visible.
    #[inline]
    pub(super) fn send_now(&mut self, head: FrameHead, message: &[u8]) -> Result<(), BenchError> {
        match self.link.send(head, message) {
            Ok(()) => {}
            Err(FrameSendError::Full) => self.send_when_possible(head, message)?,
            Err(error) => return Err(error.into()),
        }
        Ok(self.link.flush()?)
    }

    /// Makes everything visible, and moves what the link still holds back.
    pub(super) fn drain(&mut self) -> Result<(), BenchError> {
        self.link.flush()?;
        self.until("the last bytes to leave", |link| {
            let waits = link.wait_on().is_some_and(|on| on.writable);
            Ok(Some(()).filter(|()| !waits))
        })
    }

    /// Does what is due.
    pub(super) fn progress(&mut self) -> Result<(), BenchError> {
        self.link.progress(self.clock.now())?;
        Ok(())
    }
}
