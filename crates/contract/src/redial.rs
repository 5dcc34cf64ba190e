//! When a peer is dialled again whose link is lost.

use std::time::Duration;

use outboard_wire::Time;

/// How soon a lost peer is dialled, at first and at last.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Search {
    /// The peer has a link, as far as its client knows.
    Over,
    /// The peer is dialled then.
    Due(Time),
    /// The peer is being dialled.
    Dialling,
}

/// When a client dials its peer again: soon after the loss, then at longer and longer intervals, until the peer has
/// [answered](Self::answered).
///
/// It dials nothing itself: its owner looks whether it [is time](Self::is_dialling), dials in a thread that may wait, and says what came
/// of it.
#[derive(Debug)]
pub struct Redial {
    search: Search,
    pause: Duration,
}

impl Default for Redial {
    fn default() -> Self {
        Self { search: Search::Over, pause: PAUSE_MIN }
    }
}

impl Redial {
    /// The peer has no link.
    pub fn on_absent(&mut self, now: Time) {
        self.search = match self.search {
            Search::Over => Search::Due(now + self.pause),
            Search::Due(due) if now >= due => Search::Dialling,
            search => search,
        };
    }

    /// Whether the peer is to be dialled now, or is being dialled.
    #[inline]
    pub fn is_dialling(&self) -> bool {
        self.search == Search::Dialling
    }

    /// The peer was not there.
    pub fn failed(&mut self, now: Time) {
        self.grow();
        self.search = Search::Due(now + self.pause);
    }

    /// The peer has a link again. If it is lost before the peer has answered by it, the next pause is longer all the same.
    pub fn found(&mut self) {
        self.grow();
        self.search = Search::Over;
    }

    /// The peer does by its link what the client wants of it: its next loss is a new one.
    pub fn answered(&mut self) {
        self.pause = PAUSE_MIN;
    }

    fn grow(&mut self) {
        self.pause = (self.pause * 2).min(PAUSE_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How long after `now` a peer without a link is dialled.
    fn pause(redial: &mut Redial, now: &mut Time) -> Duration {
        let began = *now;
        loop {
            redial.on_absent(*now);
            if redial.is_dialling() {
                return now.since(began);
            }
            *now += Duration::from_millis(1);
        }
    }

    #[test]
    fn a_peer_that_stays_away_is_dialled_ever_more_rarely() {
        let (mut redial, mut now) = (Redial::default(), Time::ZERO);
        let mut last = pause(&mut redial, &mut now);
        assert_eq!(last, PAUSE_MIN);
        for _ in 0..20 {
            redial.failed(now);
            let next = pause(&mut redial, &mut now);
            assert_eq!(next, (last * 2).min(PAUSE_MAX));
            last = next;
        }
        redial.found();
        redial.answered();
        assert!(!redial.is_dialling());
        assert_eq!(pause(&mut redial, &mut now), PAUSE_MIN);
    }

    #[test]
    fn a_peer_that_is_lost_before_it_has_answered_is_no_better_than_one_that_is_away() {
        let (mut redial, mut now) = (Redial::default(), Time::ZERO);
        for times in 0..6 {
            assert_eq!(pause(&mut redial, &mut now), PAUSE_MIN * (1 << times));
            redial.found();
        }
    }
}
