//! What a caller knows of its sites by their answers.

use std::time::Duration;

use outboard_steering::Site;
use outboard_wire::Time;
use outboard_wire::calling::Seen;

/// No site is silent that was heard of more recently.
const SILENCE_MIN: Duration = Duration::from_millis(5);
/// Nor one that has been quiet for less than so many times as long as an answer usually takes.
const SILENCE_TIMES: u32 = 8;
/// A new round trip counts as one part of so many.
const SMOOTHING: u32 = 8;

/// What is known of one site.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    answered_total: u64,
    /// Calls that it has not answered.
    under_way: usize,
    /// When it was last heard, or when it first had something to answer since then.
    since: Option<Time>,
    /// The call whose answer is timed, and when that began.
    timed: Option<(u64, Option<Time>)>,
    /// How long answers take.
    usual: Duration,
    is_silent: bool,
    /// Calls that were answered since they were last told, and what those of them took that were timed.
    answered: u32,
    timed_count: u32,
    timed_sum: Duration,
}

/// What a caller has seen of a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SiteReport {
    /// Calls that it has answered.
    pub answered: u64,
    /// Calls that it has not answered.
    pub under_way: usize,
    /// How long answers take, smoothed; zero if none has come.
    pub round_trip: Duration,
    /// Since when it has not been heard although it has something to answer.
    pub quiet_since: Option<Time>,
    /// Whether calls go elsewhere because of that.
    pub is_silent: bool,
}

/// What a caller knows of its sites.
#[derive(Debug, Default)]
pub(super) struct Watch {
    sites: [Known; 3],
}

impl Watch {
    /// A call has begun there.
    #[inline]
    pub(super) fn begun(&mut self, site: Site, call: u64) {
        let site = &mut self.sites[site as usize];
        site.under_way += 1;
        // It begins to count when the clock is next looked at.
        site.timed.get_or_insert((call, None));
    }

    /// A call has ended that was there, at the time of the answer if one came.
    #[inline]
    pub(super) fn ended(&mut self, site: Site, call: u64, answered: Option<Time>) {
        let site = &mut self.sites[site as usize];
        site.answered_total += u64::from(answered.is_some());
        site.under_way = site.under_way.saturating_sub(1);
        site.answered = site.answered.saturating_add(u32::from(answered.is_some()));
        if let Some((timed, began)) = site.timed
            && timed == call
        {
            site.timed = None;
            if let (Some(began), Some(now)) = (began, answered) {
                let took = now.since(began);
                site.timed_count += 1;
                site.timed_sum += took;
                let smooth = (site.usual * (SMOOTHING - 1) + took) / SMOOTHING;
                site.usual = if site.usual.is_zero() { took } else { smooth };
            }
        }
    }

    /// Something was heard from there.
    #[inline]
    pub(super) fn heard(&mut self, site: Site, now: Time) {
        let site = &mut self.sites[site as usize];
        site.since = Some(now);
        site.is_silent = false;
    }

    /// Everybody may be called again.
    pub(super) fn forgive(&mut self) {
        self.sites.iter_mut().for_each(|site| (site.is_silent, site.since) = (false, None));
    }

    /// Looks at the clock, when everything that was said was heard. Returns which sites have become silent, by their places
    /// in [`Site::ALL`].
    pub(super) fn look(&mut self, now: Time) -> [bool; 3] {
        self.sites.each_mut().map(|site| {
            if let Some((_, began @ None)) = &mut site.timed {
                *began = Some(now);
            }
            if site.under_way == 0 {
                site.since = None;
                return false;
            }
            let since = *site.since.get_or_insert(now);
            let becomes_silent = !site.is_silent && now.since(since) >= site.patience();
            site.is_silent |= becomes_silent;
            becomes_silent
        })
    }

    /// What to tell of a site, once.
    pub(super) fn take_seen(&mut self, site: Site, is_usable: bool, now: Time) -> Seen {
        let site = &mut self.sites[site as usize];
        let mean = site.timed_sum.checked_div(site.timed_count).unwrap_or(site.usual);
        let round_trips = mean.saturating_mul(site.answered);
        let waits =
            site.timed.and_then(|(_, began)| began).map_or(0, |began| now.since(began).as_nanos() as u64);
        let seen = Seen {
            is_usable,
            calls: site.answered,
            round_trips_ns: u64::try_from(round_trips.as_nanos()).unwrap_or(u64::MAX),
            oldest_ns: waits,
        };
        (site.answered, site.timed_count, site.timed_sum) = (0, 0, Duration::ZERO);
        seen
    }

    pub(super) fn is_silent(&self, site: Site) -> bool {
        self.sites[site as usize].is_silent
    }

    /// How many calls a site has not answered.
    #[inline]
    pub(super) fn under_way(&self, site: Site) -> usize {
        self.sites[site as usize].under_way
    }

    /// When a site may have become silent.
    pub(super) fn next_deadline(&self) -> Option<Time> {
        let waiting = self.sites.iter().filter(|site| site.under_way > 0 && !site.is_silent);
        waiting.filter_map(|site| Some(site.since? + site.patience())).min()
    }

    pub(super) fn report(&self, site: Site) -> SiteReport {
        let Known { answered_total: answered, under_way, since, usual, is_silent, .. } =
            self.sites[site as usize];
        let quiet_since = since.filter(|_| under_way > 0);
        SiteReport { answered, under_way, round_trip: usual, quiet_since, is_silent }
    }
}

impl Known {
    fn patience(&self) -> Duration {
        SILENCE_MIN.max(self.usual * SILENCE_TIMES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Time {
        Time::ZERO + Duration::from_micros(micros)
    }

    #[test]
    fn a_site_is_silent_that_has_something_to_answer_and_does_not() {
        let mut watch = Watch::default();
        let server = Site::Server as usize;
        assert_eq!(watch.look(at(0)), [false; 3]);
        watch.begun(Site::Server, 1);
        assert!(!watch.look(at(100_000))[server], "it began only now");
        assert!(!watch.look(at(104_000))[server]);
        assert_eq!(watch.next_deadline(), Some(at(105_000)));
        assert!(watch.look(at(105_000))[server]);
        assert!(watch.is_silent(Site::Server) && !watch.look(at(106_000))[server], "told once");
        watch.heard(Site::Server, at(107_000));
        watch.ended(Site::Server, 1, Some(at(107_000)));
        assert!(!watch.is_silent(Site::Server));
        assert_eq!(watch.report(Site::Server).round_trip, Duration::from_millis(7));
        watch.look(at(107_000));
        watch.begun(Site::Server, 2);
        watch.look(at(200_000));
        assert!(!watch.look(at(255_000))[server], "answers take long here");
        assert!(watch.look(at(256_000))[server]);
    }
}
