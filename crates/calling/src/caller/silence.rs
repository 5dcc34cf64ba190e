//! When a caller gives up a site that says nothing.

use std::time::Duration;

use outboard_steering::Site;
use outboard_wire::{Time, mutant};

/// Since when a site has said nothing although it has something to answer. A peer behind shared memory that hangs, but
/// lives, is noticed by nothing else. One that has much to do is not taken for it: before it is given up it is asked
/// something that it answers between two calls.
#[derive(Debug)]
pub(super) struct Silence {
    most: Duration,
    since: Option<Time>,
    looked_at: Time,
    /// How long it had been silent when it was asked.
    asked_after: Option<Duration>,
    /// Its link had no room for a call: until it is heard it owes that, even if it has nothing to answer.
    is_blocked: bool,
    /// How long it had been silent when it was given up, if it was not heard since.
    given_up: Option<Duration>,
}

/// What to do about a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing.
    Wait,
    /// Ask it whether it lives.
    Ask,
    /// The caller has given it up.
    GiveUp {
        /// For how long it has said nothing.
        silent: Duration,
    },
}

/// Those who can fall silent.
pub(super) const FAR: [Site; 2] = [Site::Server, Site::Agent];

/// The place of a site among those who can fall silent.
#[inline]
pub(super) fn place_of(site: Site) -> Option<usize> {
    FAR.iter().position(|far| *far == site)
}

impl Silence {
    /// Nothing is awaited; what has been silent for `most` is given up.
    pub(super) fn new(most: Duration) -> Self {
        Self {
            most,
            since: None,
            looked_at: Time::ZERO,
            asked_after: None,
            is_blocked: false,
            given_up: None,
        }
    }

    /// Something was said.
    #[inline]
    pub(super) fn broken(&mut self, now: Time) {
        (self.since, self.asked_after) = (Some(now), None);
        (self.is_blocked, self.given_up) = (false, None);
    }

    /// There was no room for a call. Returns for how long nothing was heard if the site was given up since: then a caller that
    /// waits for room waits in vain.
    pub(super) fn blocked(&mut self) -> Option<Duration> {
        self.is_blocked = true;
        self.given_up
    }

    /// Looks at the clock when everything that was said was heard. Time in which the caller did not look counts in part only:
    /// the caller may have been stopped itself.
    pub(super) fn look(&mut self, now: Time, under_way: usize) -> Verdict {
        let away = now.since(self.looked_at);
        self.looked_at = now;
        if under_way == 0 && !self.is_blocked {
            (self.since, self.asked_after) = (None, None);
            return Verdict::Wait;
        }
        let mut since = *self.since.get_or_insert(now);
        if let Some(too_long) = away.checked_sub(self.step()) {
            since = (since + too_long).min(now);
            self.since = Some(since);
        }
        let silent = now.since(since);
        match self.asked_after {
            None if silent >= self.most / 2 => {
                self.asked_after = Some(silent);
                Verdict::Ask
            }
            Some(asked_after)
                if silent >= self.most.max(asked_after + self.step())
                    && !mutant("calling.silence-unending") =>
            {
                self.broken(now);
                self.given_up = Some(silent);
                Verdict::GiveUp { silent }
            }
            _ => Verdict::Wait,
        }
    }

    /// When to look again: well before that is so late that it does not count.
    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.since.map(|since| (since + self.most).min(self.looked_at + self.step() / 2))
    }

    fn step(&self) -> Duration {
        self.most / 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::ZERO + Duration::from_millis(millis)
    }

    /// Looks again and again while calls are under way. Returns when the site is asked, and when it is given up.
    fn listen(silence: &mut Silence, times: impl Iterator<Item = u64>) -> (Option<u64>, Option<u64>) {
        let mut asked = None;
        for millis in times {
            match silence.look(at(millis), 3) {
                Verdict::Wait => {}
                Verdict::Ask => assert_eq!(asked.replace(millis), None, "once is enough"),
                Verdict::GiveUp { .. } => return (asked, Some(millis)),
            }
        }
        (asked, None)
    }

    #[test]
    fn silence_is_counted_while_something_is_awaited() {
        let mut silence = Silence::new(Duration::from_millis(100));
        assert_eq!((silence.look(at(1000), 0), silence.next_deadline()), (Verdict::Wait, None));
        let ten = |from: u64, to: u64| (from..to).step_by(10);
        assert_eq!(listen(&mut silence, ten(1010, 2000)), (Some(1060), Some(1110)));
        assert_eq!(listen(&mut silence, ten(1120, 2000)), (Some(1160), Some(1210)), "again and again");
        silence.broken(at(1215));
        assert_eq!(silence.next_deadline(), Some(Time::ZERO + Duration::from_micros(1_222_500)));
        assert_eq!(listen(&mut silence, ten(1220, 1300)), (Some(1270), None));
        // It has answered what it was asked: it has much to do, and is asked again.
        silence.broken(at(1300));
        assert_eq!(listen(&mut silence, ten(1310, 1390)), (Some(1350), None));
        assert_eq!(silence.look(at(1390), 0), Verdict::Wait, "nothing is awaited");
        assert_eq!(listen(&mut silence, ten(1400, 1490)), (Some(1450), None));
    }

    #[test]
    fn a_site_that_makes_no_room_is_given_up_until_it_is_heard() {
        let mut silence = Silence::new(Duration::from_millis(100));
        assert_eq!((silence.look(at(1000), 0), silence.blocked()), (Verdict::Wait, None));
        let verdicts = (1010..1200).step_by(10).map(|millis| silence.look(at(millis), 0));
        let told: Vec<Verdict> = verdicts.filter(|verdict| *verdict != Verdict::Wait).collect();
        assert_eq!(told, [Verdict::Ask, Verdict::GiveUp { silent: Duration::from_millis(100) }]);
        assert_eq!(silence.blocked(), Some(Duration::from_millis(100)));
        silence.broken(at(1200));
        assert_eq!(silence.blocked(), None, "it may make room");
    }

    #[test]
    fn a_caller_that_listens_rarely_asks_first_and_gives_up_at_last() {
        let mut silence = Silence::new(Duration::from_millis(100));
        silence.look(at(1000), 3);
        assert_eq!(listen(&mut silence, (10_000..).step_by(9000).take(9)), (Some(19_000), Some(37_000)));
    }
}
