//! When nobody waits any longer for a site that says nothing.

use std::time::Duration;

use outboard_steering::Site;
use outboard_wire::Time;

/// Since when a site has said nothing although it has something to answer. A peer behind shared memory that hangs, but
/// lives, is noticed by nothing else.
#[derive(Debug)]
pub(super) struct Silence {
    most: Duration,
    since: Option<Time>,
    looked_at: Time,
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
        Self { most, since: None, looked_at: Time::ZERO }
    }

    /// Something was said.
    #[inline]
    pub(super) fn broken(&mut self, now: Time) {
        self.since = Some(now);
    }

    /// Looks at the clock when everything that was said was heard. Returns for how long nothing was, if that is too long.
    /// Time in which nobody looked does not count: whoever listens may have been stopped itself.
    pub(super) fn look(&mut self, now: Time, under_way: usize) -> Option<Duration> {
        let away = now.since(self.looked_at);
        self.looked_at = now;
        if under_way == 0 {
            self.since = None;
            return None;
        }
        let since = *self.since.get_or_insert(now);
        if away > self.step() {
            self.since = Some((since + away).min(now));
            return None;
        }
        let silent = now.since(since);
        (silent >= self.most).then(|| {
            self.since = Some(now);
            silent
        })
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

    #[test]
    fn silence_is_counted_while_something_is_awaited_and_somebody_listens() {
        let mut silence = Silence::new(Duration::from_millis(100));
        assert_eq!((silence.look(at(1000), 0), silence.next_deadline()), (None, None));
        let listen = |silence: &mut Silence, from: u64, to: u64| {
            (from..to).step_by(20).find_map(|millis| silence.look(at(millis), 3).map(|_| millis))
        };
        assert_eq!(listen(&mut silence, 1020, 2000), Some(1120));
        assert_eq!(listen(&mut silence, 1140, 2000), Some(1220), "it is told again and again");
        silence.broken(at(1230));
        assert_eq!(silence.next_deadline(), Some(Time::ZERO + Duration::from_micros(1_232_500)));
        assert_eq!(listen(&mut silence, 1240, 1330), None);
        assert_eq!(silence.look(at(9000), 3), None, "nobody has listened");
        assert_eq!(listen(&mut silence, 9005, 9100), Some(9025), "what was heard before counts");
    }
}
