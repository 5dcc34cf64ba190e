//! How soon do calls go elsewhere when another program takes a site's core, and do they stay where they are otherwise?

use std::time::Duration;

use outboard::{CallPlacement, CallSite, Caller};

use super::load::SteeredLoad;
use super::{DEPTH, Scene};
use crate::BenchError;
use crate::harness::{Figure, Progress, Unit, percentile};
use crate::pair::now_ns;

const REACTION_LIMIT_MS: f64 = 10.0;
/// How long the core is taken, and left alone between.
const TAKEN: Duration = Duration::from_millis(100);
const LEFT_ALONE: Duration = Duration::from_millis(50);
/// How long slots are waited for that are to be at one site.
const LONGEST: Duration = Duration::from_secs(2);
/// Calls have gone elsewhere with the first answer from there, if for so long most come from there.
const LASTING_NS: u64 = 5_000_000;
/// How often it is noted who has answered how many.
const SAMPLE_NS: u64 = 50_000;
/// All slots.
const SLOTS: usize = 256;

/// How many calls a site and others have answered at a moment.
#[derive(Clone, Copy)]
struct Count {
    at_ns: u64,
    there: u64,
    elsewhere: u64,
}

/// The first moment from `onset_ns` on at which calls were answered elsewhere, and from which on most were.
fn shifted_ns(counts: &[Count], onset_ns: u64) -> Option<u64> {
    let is_lasting = |(index, first): (usize, &Count)| {
        let last = counts[index..].iter().find(|count| count.at_ns >= first.at_ns + LASTING_NS)?;
        let answered = counts[index..].iter().find(|count| count.elsewhere > first.elsewhere)?;
        (last.elsewhere - first.elsewhere > last.there - first.there).then_some(answered.at_ns)
    };
    counts.iter().enumerate().filter(|(_, count)| count.at_ns >= onset_ns).find_map(is_lasting)
}

impl Scene<'_> {
    /// From the moment at which the core of the site with most slots is taken until most calls are answered elsewhere, in
    /// milliseconds; as long as it was taken, if they were not.
    fn reaction_ms(&self, load: &mut SteeredLoad) -> Result<f64, BenchError> {
        let sites = [CallSite::Server, CallSite::Agent];
        let crowded = |caller: &Caller| {
            let slots = caller.slots();
            sites.into_iter().find(|site| slots[*site as usize] > SLOTS * 3 / 4)
        };
        load.call(LEFT_ALONE, |_| false)?;
        load.call(LONGEST, |caller| crowded(caller).is_some())?;
        let Some(site) = crowded(&load.caller) else { return Ok(TAKEN.as_secs_f64() * 1e3) };
        let mut counts: Vec<Count> = Vec::new();
        self.rival.spin(self.core(site))?;
        load.call(TAKEN, |caller| {
            let at_ns = now_ns();
            if counts.last().is_none_or(|count| at_ns >= count.at_ns + SAMPLE_NS) {
                let answered = caller.sites().map(|site| site.answered);
                let there = answered[site as usize];
                counts.push(Count { at_ns, there, elsewhere: answered.iter().sum::<u64>() - there });
            }
            false
        })?;
        let onset_ns = self.rival.onset_ns()?;
        self.rival.rest()?;
        let reacted_ns = shifted_ns(&counts, onset_ns).map(|at_ns| at_ns - onset_ns);
        Ok(reacted_ns.unwrap_or(TAKEN.as_nanos() as u64) as f64 / 1e6)
    }

    /// How often slots move while nothing changes, and how often a site is left without that.
    fn shifts_while_steady(&self, load: &mut SteeredLoad) -> Result<(u64, u64), BenchError> {
        let detours = |caller: &Caller| caller.sites().iter().map(|site| site.detours).sum::<u64>();
        // What went before has settled.
        load.call(self.plan.steady / 4, |_| false)?;
        let (mut shifts, mut slots, before) = (0, load.caller.slots(), detours(&load.caller));
        load.call(self.plan.steady, |caller| {
            shifts += u64::from(caller.slots() != slots);
            slots = caller.slots();
            false
        })?;
        Ok((shifts, detours(&load.caller) - before))
    }
}

pub(super) fn figures(
    scene: &Scene<'_>,
    progress: &mut Progress,
    notes: &mut Vec<String>,
) -> Result<Vec<Figure>, BenchError> {
    progress.begin("calling.steer.reaction_ms");
    let mut load = scene.load(CallPlacement::Steered, DEPTH)?;
    let onsets = scene.plan.onsets;
    let mut times = (0..onsets).map(|_| scene.reaction_ms(&mut load)).collect::<Result<Vec<f64>, _>>()?;
    let (shifts, detours) = scene.shifts_while_steady(&mut load)?;
    load.finish()?;
    progress.end();
    let limit = format!(
        "a limit: 10 ms from the moment at which others take the core of the site that has most slots until most calls are answered elsewhere, for 5 ms at least; {onsets} times"
    );
    let figure = |name: &str, value| Figure::new(name, Unit::Milliseconds, value, REACTION_LIMIT_MS, &limit);
    let seconds = scene.plan.steady.as_secs_f64();
    let steady = format!("none: moves of slots in {seconds} s of a load that does not change");
    notes.push(format!(
        "in {seconds} s of a load that does not change the caller left a silent site {detours} times for a moment"
    ));
    Ok(vec![
        figure("calling.steer.reaction_ms", percentile(&mut times, 0.5)),
        figure("calling.steer.reaction_ms.p90", percentile(&mut times, 0.9)),
        Figure {
            ratio: shifts as f64,
            ..Figure::new("calling.steer.steady_shifts", Unit::Shifts, shifts as f64, 0.0, &steady)
        },
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_have_gone_elsewhere_when_most_are_answered_there_for_a_while() {
        let ms = 1_000_000;
        // Per millisecond: calls there and elsewhere.
        let rates = [
            (100, 0),
            (100, 0),
            (0, 40),
            (100, 0),
            (100, 0),
            (0, 40),
            (0, 40),
            (0, 40),
            (0, 40),
            (0, 40),
            (100, 0),
        ];
        let (mut counts, mut count) = (Vec::new(), Count { at_ns: 0, there: 0, elsewhere: 0 });
        for (there, elsewhere) in rates {
            counts.push(count);
            count = Count {
                at_ns: count.at_ns + ms,
                there: count.there + there,
                elsewhere: count.elsewhere + elsewhere,
            };
        }
        counts.push(count);
        assert_eq!(
            shifted_ns(&counts, 0),
            Some(6 * ms),
            "160 of 260 calls, the first in the sixth millisecond"
        );
        assert_eq!(shifted_ns(&counts, 6 * ms), Some(7 * ms), "what was before the onset does not count");
        assert_eq!(shifted_ns(&counts, 7 * ms), None);
    }
}
