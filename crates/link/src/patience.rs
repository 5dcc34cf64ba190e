//! How long a side waits: in a handshake for a word from the other side, and with frames of a peer that is gone.

use std::time::Duration;

use outboard_wire::Time;

use crate::ConnectError;

/// How long frames of a peer that is gone are offered to a receiver that defers them, before they are lost with it.
pub(crate) const LEGACY_KEPT: Duration = Duration::from_secs(5);

/// The most time that one look counts. A process that looks less often did not get a processor, and neither may the other
/// side have had one: thousands of processes that start at once on two cores wait seconds for their turn.
const LOOK: Duration = Duration::from_millis(100);

/// How long the other side may keep this one waiting by saying that it will come to it.
const TOLD_TO_WAIT_MAX: Duration = Duration::from_secs(120);

/// Counts how long the other side has been silent, as far as this process was there to listen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    limit: Duration,
    left: Duration,
    /// The time that is left in all, however often the other side speaks.
    left_in_all: Duration,
    looked: Time,
}

impl Patience {
    /// Waits for `limit` from now on.
    pub(crate) fn new(limit: Duration, now: Time) -> Self {
        Self { limit, left: limit, left_in_all: limit.max(TOLD_TO_WAIT_MAX), looked: now }
    }

    /// Counts the time since the last look. Returns whether the other side was silent for too long.
    pub(crate) fn is_over(&mut self, now: Time) -> bool {
        let passed = now.since(self.looked).min(LOOK);
        self.left = self.left.saturating_sub(passed);
        self.left_in_all = self.left_in_all.saturating_sub(passed);
        self.looked = self.looked.max(now);
        self.left.min(self.left_in_all).is_zero()
    }

    /// The error when it is over.
    pub(crate) fn timed_out(&self, address: String) -> ConnectError {
        ConnectError::TimedOut { address, waited: self.limit }
    }

    /// The other side has asked for more time.
    pub(crate) fn renew(&mut self) {
        self.left = self.limit;
    }

    /// When to look again at the latest.
    pub(crate) fn next_look(&self) -> Time {
        self.looked + self.left.min(self.left_in_all).min(LOOK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Looks whenever it is due, or `late` later; returns how many times until it is over.
    fn looks(patience: &mut Patience, late: Duration, mut on_look: impl FnMut(&mut Patience, u64)) -> u64 {
        (1..)
            .find(|count| {
                let is_over = patience.is_over(patience.next_look() + late);
                on_look(patience, *count);
                is_over
            })
            .unwrap_or(0)
    }

    #[test]
    fn a_side_that_listens_all_the_time_waits_for_the_limit() {
        let mut patience = Patience::new(2 * SECOND, Time::ZERO);
        assert_eq!(looks(&mut patience, Duration::ZERO, |_, _| {}), 20);
        assert_eq!(patience.next_look(), Time::ZERO + 2 * SECOND);
        let mut patience = Patience::new(SECOND / 1000, Time::ZERO);
        assert_eq!(looks(&mut patience, Duration::ZERO, |_, _| {}), 1);
    }

    #[test]
    fn time_without_a_processor_does_not_count() {
        let mut patience = Patience::new(2 * SECOND, Time::ZERO);
        assert_eq!(looks(&mut patience, 3 * SECOND, |_, _| {}), 20);
    }

    #[test]
    fn words_of_the_other_side_give_it_more_time_but_not_for_ever() {
        let mut patience = Patience::new(2 * SECOND, Time::ZERO);
        assert_eq!(
            looks(&mut patience, Duration::ZERO, |patience, count| {
                if count == 15 {
                    patience.renew();
                }
            }),
            35
        );
        let mut patience = Patience::new(2 * SECOND, Time::ZERO);
        assert_eq!(looks(&mut patience, Duration::ZERO, |patience, _| patience.renew()), 1200);
    }
}
