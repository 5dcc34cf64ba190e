//! Whether the peer lives, and whether it knows that we do.

use std::time::Duration;

use outboard_wire::Time;

use crate::Loss;

/// How many deadlines an operation may take while nothing but heartbeats moves, and a link may stand still while bytes wait
/// on both sides. Longer than a silence, because the peer may hold it back behind a frame that it has no room for.
const PATIENCE: u32 = 4;

/// Counts silences on both sides.
///
/// A long gap between two looks is this side's own absence: the process was stopped, or busy elsewhere. It counts
/// for at most half a deadline, so that the peer gets a fair time to be heard after it.
pub(super) struct Pulse {
    heartbeat: Duration,
    deadline: Duration,
    /// The time of the last look; `None` before the first, because each caller has a clock of its own.
    now: Option<Time>,
    sent_at: Time,
    /// Something was sent since the last look.
    has_sent: bool,
    heard_at: Time,
    /// How long the peer has been silent while we were there.
    silent: Duration,
    /// How long operations have been under way with nothing but heartbeats moving.
    idle: Duration,
    /// How long nothing has left or come in, however many bytes wait on both sides.
    jammed: Duration,
    pings: u64,
}

/// The awaited things of a link, the most telling first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Awaited {
    /// One-sided operations are under way.
    pub(super) operations: bool,
    /// Bytes wait to be sent.
    pub(super) backlog: bool,
}

impl Pulse {
    pub(super) fn new(heartbeat: Duration, deadline: Duration) -> Self {
        Self {
            heartbeat,
            deadline,
            now: None,
            sent_at: Time::ZERO,
            has_sent: false,
            heard_at: Time::ZERO,
            silent: Duration::ZERO,
            idle: Duration::ZERO,
            jammed: Duration::ZERO,
            pings: 0,
        }
    }

    /// The time of the last look.
    #[inline]
    pub(super) fn now(&self) -> Time {
        self.now.unwrap_or(Time::ZERO)
    }

    /// Someone looks after the link at `now`.
    #[inline]
    pub(super) fn look(&mut self, now: Time) {
        let Some(before) = self.now else {
            (self.now, self.sent_at, self.heard_at) = (Some(now), now, now);
            return;
        };
        let gap = now.since(before).min(self.deadline / 2);
        self.silent += gap;
        self.idle += gap;
        self.jammed += gap;
        self.now = Some(now.max(before));
        if std::mem::take(&mut self.has_sent) {
            self.sent_at = self.now();
        }
    }

    /// Bytes came from the peer.
    #[inline]
    pub(super) fn heard(&mut self) {
        self.has_no_room();
        self.jammed = Duration::ZERO;
    }

    /// Bytes of the peer may wait for room on this side, so that its silence means nothing.
    #[inline]
    pub(super) fn has_no_room(&mut self) {
        self.heard_at = self.now();
        self.silent = Duration::ZERO;
    }

    /// Bytes went to the peer.
    #[inline]
    pub(super) fn sent(&mut self) {
        self.has_sent = true;
        self.sent_at = self.now();
        self.jammed = Duration::ZERO;
    }

    /// Something else than heartbeats moved, or nothing is under way.
    #[inline]
    pub(super) fn worked(&mut self) {
        self.idle = Duration::ZERO;
    }

    /// The number of the ping that is due now, if one is.
    pub(super) fn ping(&mut self) -> Option<u64> {
        if self.now().since(self.sent_at) < self.heartbeat {
            return None;
        }
        self.pings += 1;
        Some(self.pings)
    }

    /// Whether the peer counts as lost. What has arrived must be read first.
    #[inline]
    pub(super) fn verdict(&self, awaited: Awaited) -> Option<Loss> {
        if self.silent >= self.deadline {
            let what = match awaited {
                Awaited { operations: true, .. } => "the end of a one-sided operation",
                Awaited { backlog: true, .. } => "room for what was sent",
                _ => "a sign of life",
            };
            return Some(Loss::Stalled { silent: self.now().since(self.heard_at), awaited: what });
        }
        // A peer that takes nothing and cannot be heard may be dead; one that is only slow takes something now and then.
        if awaited.backlog && self.jammed >= self.deadline * PATIENCE {
            return Some(Loss::Stalled { silent: self.jammed, awaited: "room for what was sent" });
        }
        if awaited.operations && self.idle >= self.deadline * PATIENCE {
            let awaited = "the end of a one-sided operation, though it lives";
            return Some(Loss::Stalled { silent: self.idle, awaited });
        }
        None
    }

    /// When to look again at the latest.
    pub(super) fn next(&self, awaited: Awaited) -> Time {
        let Some(now) = self.now else { return Time::ZERO };
        let mut next = now + self.deadline.saturating_sub(self.silent);
        if awaited.operations {
            next = next.min(now + (self.deadline * PATIENCE).saturating_sub(self.idle));
        }
        match awaited.backlog {
            true => next = next.min(now + (self.deadline * PATIENCE).saturating_sub(self.jammed)),
            false => next = next.min(self.sent_at + self.heartbeat),
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEADLINE: Duration = Duration::from_secs(5);
    const STEP: Duration = Duration::from_millis(500);

    /// Looks for so long while nothing can be heard and bytes wait to leave; `and` is done at each look.
    fn lost_within(steps: u32, mut and: impl FnMut(&mut Pulse, u32)) -> Option<u32> {
        let mut pulse = Pulse::new(Duration::from_secs(1), DEADLINE);
        let awaited = Awaited { operations: false, backlog: true };
        (0..steps).find(|step| {
            pulse.look(Time::ZERO + STEP * *step);
            pulse.has_no_room();
            and(&mut pulse, *step);
            assert!(pulse.next(awaited) <= pulse.now() + DEADLINE * PATIENCE);
            pulse.verdict(awaited).is_some()
        })
    }

    #[test]
    fn a_peer_that_takes_nothing_and_cannot_be_heard_is_lost() {
        assert_eq!(lost_within(1000, |_, _| {}), Some(40));
    }

    #[test]
    fn a_peer_that_takes_something_now_and_then_is_not() {
        let takes = |pulse: &mut Pulse, step: u32| {
            if step.is_multiple_of(30) {
                pulse.sent()
            }
        };
        assert_eq!(lost_within(1000, takes), None);
        let says = |pulse: &mut Pulse, step: u32| {
            if step.is_multiple_of(30) {
                pulse.heard()
            }
        };
        assert_eq!(lost_within(1000, says), None);
    }
}
