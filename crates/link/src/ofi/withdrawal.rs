//! Room for long messages that is taken back from a peer.

use std::time::Duration;

use outboard_wire::Time;

use crate::Loss;

/// A withdrawal that the peer has not answered.
///
/// A peer that does not read, because it has no room for what was sent before, is not late: it is held back, as it may
/// be for any time. It is late when it has dealt with something that was sent after the withdrawal.
#[derive(Debug, Default)]
pub(super) struct Withdrawal {
    /// How many messages with bytes were sent before it, once it was sent.
    sent_before: Option<u64>,
    /// How long the peer has known of it, and when it was last looked for an answer.
    waited: Duration,
    looked: Option<Time>,
}

impl Withdrawal {
    /// It was sent after this many messages with bytes.
    pub(super) fn is_sent_after(&mut self, messages: u64) {
        self.sent_before = Some(messages);
    }

    /// There is no answer yet, and nothing has arrived that was not read. The peer has dealt with this many messages with
    /// bytes. As for every silence, a long gap between two looks is this side's own absence.
    pub(super) fn look(&mut self, now: Time, dealt_with: u64, deadline: Duration) -> Result<(), Loss> {
        if self.sent_before.is_none_or(|before| dealt_with <= before) {
            return Ok(());
        }
        self.waited += now.since(*self.looked.get_or_insert(now)).min(deadline / 2);
        self.looked = Some(now);
        if self.waited < deadline {
            return Ok(());
        }
        let awaited = "the release of room for long frames, which was withdrawn";
        Err(Loss::Stalled { silent: self.waited, awaited })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEADLINE: Duration = Duration::from_secs(4);

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn a_peer_is_late_when_it_has_read_what_came_after() {
        let mut withdrawal = Withdrawal::default();
        withdrawal.look(at(100), 9, DEADLINE).expect("it was not sent yet");
        withdrawal.is_sent_after(9);
        for seconds in 101..200 {
            withdrawal.look(at(seconds), 9, DEADLINE).expect("it may have read nothing of it");
        }
        for seconds in 200..204 {
            withdrawal.look(at(seconds), 10, DEADLINE).expect("it has some time to answer");
        }
        assert!(matches!(
            withdrawal.look(at(204), 10, DEADLINE),
            Err(Loss::Stalled { silent: DEADLINE, .. })
        ));
    }

    #[test]
    fn time_without_a_look_counts_for_half_a_deadline_at_most() {
        let mut withdrawal = Withdrawal::default();
        withdrawal.is_sent_after(0);
        for seconds in [0, 1000] {
            withdrawal.look(at(seconds), 1, DEADLINE).expect("its answer may be here, unseen");
        }
        assert!(withdrawal.look(at(1002), 1, DEADLINE).is_err());
    }
}
