//! What a caller knows of its sites by their answers.

#[cfg(test)]
mod tests;

use std::time::Duration;

use outboard_steering::Site;
use outboard_wire::Time;
use outboard_wire::calling::Seen;

/// No site is silent that was heard of more recently, nor one of which it is not known how long its answers take.
const SILENCE_MIN: Duration = Duration::from_micros(500);
const SILENCE_UNKNOWN: Duration = Duration::from_millis(5);
/// Nor one that has been quiet for less than so many times as long as an answer usually takes.
const SILENCE_TIMES: u32 = 8;
/// A site that was heard for less time than it took to see that it is silent again costs more than it gives: it is left
/// alone for a while, twice as long each time.
const HOLD_MIN: Duration = Duration::from_millis(1);
const HOLD_MAX: Duration = Duration::from_millis(8);
/// A site that has been silent for so long is of no use.
const USELESS_AFTER: Duration = Duration::from_millis(50);
/// By how much one answer changes what is usual: down by one part of so many of the difference, and up by at most one part
/// of so many of what was usual. An answer that was kept back for long says nothing of what is usual.
const SMOOTHING: u32 = 8;
const GROWTH: u32 = 8;
/// A site that has no calls is probed as often, or so many times more rarely than its answers take.
const PROBE_EVERY: Duration = Duration::from_millis(4);
const PROBE_TIMES: u32 = 32;
/// A call that may write is a probe so many times more rarely: the program waits for it.
const PROBE_BY_WRITES: u32 = 8;
/// A probe without an answer is forgotten after so long.
const PROBE_LOST: Duration = Duration::from_secs(1);

/// What is known of one site.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    answered_total: u64,
    /// Calls that it has not answered.
    under_way: usize,
    /// When it was last heard, or when it first had something to answer since then. Later, if the caller did not listen meanwhile.
    since: Option<Time>,
    /// The call whose answer is timed, and when that began.
    timed: Option<(u64, Option<Time>)>,
    /// How long answers take.
    usual: Duration,
    is_silent: bool,
    detours: u64,
    /// How long it is left alone, even if it is heard, and until when that is.
    hold: Duration,
    held_until: Time,
    /// Whether it was heard while it was left alone.
    is_back: bool,
    /// Since when it has had calls again.
    back_at: Option<Time>,
    /// Calls that were answered since they were last told, and what those of them took that were timed.
    answered: u32,
    timed_count: u32,
    timed_sum: Duration,
    /// Calls that went elsewhere since that was last told, and how long they had waited.
    left: u32,
    left_sum: Duration,
    probe: Probe,
}

/// A call by which a site is measured that has no others.
#[derive(Clone, Copy, Debug, Default)]
struct Probe {
    /// Its number, and when it began: a site that shares our core may have answered before the caller looks at the clock.
    call: Option<(u64, Time)>,
    /// When the next may begin.
    due: Time,
    /// Whether it goes there instead of where it was meant to go.
    is_alone: bool,
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
    /// Whether calls go elsewhere because of that.
    pub is_silent: bool,
    /// How often calls have gone elsewhere because of that.
    pub detours: u64,
}

/// What a caller knows of its sites.
#[derive(Debug, Default)]
pub(super) struct Watch {
    sites: [Known; 3],
    looked_at: Time,
    /// No site is to be probed before this.
    probe_due: Time,
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
                site.took(now.since(began));
            }
        }
    }

    /// A call has an answer from a site: from where it is, or first from where it has been before or is only a probe.
    #[inline]
    pub(super) fn answered(&mut self, where_it_is: Site, by: Site, call: u64, now: Time) {
        self.ended(where_it_is, call, (where_it_is == by).then_some(now));
        self.sites[by as usize].answered_total += u64::from(where_it_is != by);
    }

    /// A call goes elsewhere because nothing is heard from there.
    pub(super) fn left(&mut self, site: Site, now: Time) {
        let site = &mut self.sites[site as usize];
        site.left = site.left.saturating_add(1);
        site.left_sum += site.since.map_or(Duration::ZERO, |since| now.since(since));
    }

    /// Something was heard from there.
    #[inline]
    pub(super) fn heard(&mut self, site: Site, now: Time) {
        let site = &mut self.sites[site as usize];
        site.since = Some(now);
        if site.is_silent {
            site.is_back = true;
            site.come_back(now);
        }
    }

    /// Everybody may be called again.
    pub(super) fn forgive(&mut self) {
        self.sites.iter_mut().for_each(|site| (site.is_silent, site.since) = (false, None));
    }

    /// Looks at the clock, when everything that was said was heard. Returns which sites have become silent, by their places
    /// in [`Site::ALL`].
    pub(super) fn look(&mut self, now: Time) -> [bool; 3] {
        let gap = now.since(self.looked_at);
        self.looked_at = now;
        self.sites.each_mut().map(|site| {
            if let Some((_, began @ None)) = &mut site.timed {
                *began = Some(now);
            }
            site.probe.call.take_if(|(_, began)| now.since(*began) > PROBE_LOST);
            site.come_back(now);
            if site.under_way == 0 {
                site.since = None;
                return false;
            }
            // A caller that did not listen, or was kept from running itself, cannot tell by that which site is silent.
            let patience = site.patience();
            let unheard = gap.saturating_sub(patience / 2);
            let since = site.since.map_or(now, |since| (since + unheard).min(now));
            site.since = Some(since);
            let becomes_silent = !site.is_silent && now.since(since) >= patience;
            if becomes_silent {
                site.fall_silent(now, since);
            }
            becomes_silent
        })
    }

    /// The caller has given up what a site has not answered: the site is silent, however long its answers usually take.
    #[cold]
    pub(super) fn given_up(&mut self, site: Site, now: Time) {
        let site = &mut self.sites[site as usize];
        if !site.is_silent {
            site.fall_silent(now, site.since.unwrap_or(now));
        }
    }

    /// What to tell of a site, once.
    pub(super) fn take_seen(&mut self, site: Site, is_usable: bool, now: Time) -> Seen {
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let site = &mut self.sites[site as usize];
        let mean = site.timed_sum.checked_div(site.timed_count).unwrap_or(site.usual);
        let timed = site.timed.and_then(|(_, began)| began);
        let waiting = timed.into_iter().chain(site.probe.call.map(|(_, began)| began));
        let seen = Seen {
            is_usable,
            calls: site.answered,
            round_trips_ns: nanos(mean.saturating_mul(site.answered)),
            oldest_ns: waiting.map(|began| nanos(now.since(began))).max().unwrap_or(0),
            left: site.left,
            left_ns: nanos(site.left_sum),
        };
        (site.answered, site.timed_count, site.timed_sum) = (0, 0, Duration::ZERO);
        (site.left, site.left_sum) = (0, Duration::ZERO);
        seen
    }

    pub(super) fn is_silent(&self, site: Site) -> bool {
        self.sites[site as usize].is_silent
    }

    /// Whether a site has been silent for so long that no call should be sent there.
    pub(super) fn is_useless(&self, site: Site, now: Time) -> bool {
        let Known { is_silent, since, .. } = self.sites[site as usize];
        is_silent && since.is_some_and(|since| now.since(since) >= USELESS_AFTER)
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
        let Known { answered_total: answered, under_way, usual, is_silent, detours, .. } =
            self.sites[site as usize];
        SiteReport { answered, under_way, round_trip: usual, is_silent, detours }
    }

    /// Whether some site may have to be probed.
    #[inline]
    pub(super) fn is_probe_due(&self, now: Time) -> bool {
        now >= self.probe_due
    }

    /// Whether a site without calls is to be probed now, by a call that does nothing but read or by any other.
    pub(super) fn wants_probe(&self, site: Site, only_reads: bool, now: Time) -> bool {
        let Known { under_way, probe, usual, .. } = &self.sites[site as usize];
        let later = if only_reads { Duration::ZERO } else { probe_pause(*usual) * (PROBE_BY_WRITES - 1) };
        *under_way == 0 && probe.call.is_none() && now >= probe.due + later
    }

    /// A call goes to a site as a probe: also there, or there alone.
    pub(super) fn probe_begun(&mut self, site: Site, call: u64, is_alone: bool, now: Time) {
        self.sites[site as usize].probe = Probe { call: Some((call, now)), due: Time::ZERO, is_alone };
    }

    /// All sites were looked at that may have to be probed.
    pub(super) fn probes_done(&mut self, now: Time) {
        self.probe_due = now + PROBE_EVERY / 4;
    }

    /// An answer has come from a site. If it is that of a probe, it is timed; a probe that was there alone counts as any
    /// other call.
    #[inline]
    pub(super) fn probe_answered(&mut self, site: Site, call: u64, now: impl FnOnce() -> Time) {
        let site = &mut self.sites[site as usize];
        if let Some((probe, began)) = site.probe.call
            && probe == call
        {
            let now = now();
            site.probe.call = None;
            if !site.probe.is_alone {
                site.answered = site.answered.saturating_add(1);
                site.took(now.since(began));
            }
            site.probe.due = now + probe_pause(site.usual);
        }
    }
}

fn probe_pause(usual: Duration) -> Duration {
    PROBE_EVERY.max(usual.saturating_mul(PROBE_TIMES))
}

impl Known {
    fn patience(&self) -> Duration {
        match self.usual {
            Duration::ZERO => SILENCE_UNKNOWN,
            usual => SILENCE_MIN.max(usual * SILENCE_TIMES),
        }
    }

    /// Nothing has been heard of it since then.
    #[cold]
    fn fall_silent(&mut self, now: Time, since: Time) {
        let is_relapse = self.back_at.is_some_and(|back_at| since.since(back_at) < self.patience());
        self.hold = if is_relapse { (self.hold * 2).clamp(HOLD_MIN, HOLD_MAX) } else { Duration::ZERO };
        (self.is_silent, self.is_back, self.held_until) = (true, false, now + self.hold);
        self.detours += 1;
    }

    /// A site that was heard and is not to be left alone any longer gets calls again.
    #[inline]
    fn come_back(&mut self, now: Time) {
        if self.is_silent && self.is_back && now >= self.held_until {
            (self.is_silent, self.is_back, self.back_at) = (false, false, Some(now));
        }
    }

    /// An answer has taken so long.
    #[inline]
    fn took(&mut self, took: Duration) {
        self.timed_count += 1;
        self.timed_sum += took;
        self.usual = match self.usual {
            Duration::ZERO => took,
            usual if took < usual => usual - (usual - took) / SMOOTHING,
            usual => usual + (took - usual).min(usual) / GROWTH,
        };
    }
}
