//! Parcels of other agents: taken apart, and handed on from where they lie if they can be.

use std::sync::Arc;

use outboard_contract::LinkId;
use outboard_contract::memory::Window;
use outboard_wire::routing::{JobKey, Run, next_in_parcel, run_in_parcel};
use outboard_wire::{Time, mutant};

use super::shared::RoutingConfig;
use super::side::Parcel;
use super::worker::{Hopper, RoutingWorker};

/// How many parcels another agent may have sent without having been told that they were taken: more than there can be
/// under way in as many jobs as there are.
const PARCELS_MAX: usize = 1 << 16;

/// Runs for the same next hop that lie behind each other in a buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct BundleRange {
    hopper: u64,
    buffer: u32,
    at: u32,
    len: u32,
    /// How many runs there are, and bytes in them.
    runs: u32,
    bytes: u32,
}

impl BundleRange {
    pub(super) fn buffer(&self) -> u32 {
        self.buffer
    }
}

impl RoutingWorker {
    /// A parcel of another agent is here.
    pub(super) fn on_parcel(
        &mut self,
        (link, tag): (LinkId, u32),
        job: JobKey,
        parcel: Window<'_>,
        now: Time,
    ) -> Result<(), String> {
        let stride = self.shared.config().stride();
        // A long one is likely to be for few, who may take it as it is.
        let is_long = (stride / 4..=stride).contains(&parcel.len()) && self.buffers.are_plenty();
        match is_long.then(|| self.buffers.take()).flatten() {
            Some(buffer) => {
                self.shared.memory().window_mut().write_window(self.shared.offset(buffer), parcel);
                let taken_apart = self.take_apart(job, buffer, parcel.len(), now);
                self.buffers.give_back(buffer);
                taken_apart?;
            }
            None => self.pack_anew(job, parcel, now)?,
        }
        let (is_overfull, is_flooded) = (self.backlog.is_overfull(job), self.backlog.is_flooded(job));
        let Some(side) = self.sides.get_mut(&link) else { return Ok(()) };
        match is_overfull {
            true => side.withheld.push_back((tag, job)),
            false if mutant("routing.parcel-not-taken-by-agent") => {}
            false => side.taken.push_back(tag),
        }
        if is_flooded || side.withheld.len() + side.taken.len() > PARCELS_MAX {
            return Err("more parcels than it was told to be taken".to_owned());
        }
        Ok(())
    }

    /// The run that comes next in a parcel of another agent.
    fn next_run(&self, rest: Window<'_>) -> Result<Run, String> {
        let run = next_in_parcel(&rest.array::<{ Run::LEN }>(0), rest.len());
        let run = run.map_err(|error| error.to_string())?;
        match run_in_parcel(run.len as usize) <= self.shared.config().stride() {
            true => Ok(run),
            false => {
                Err("a run longer than parcels are here: give all agents the same agent.parcel".to_owned())
            }
        }
    }

    /// Packs every run by its next hop.
    fn pack_anew(&mut self, job: JobKey, mut rest: Window<'_>, now: Time) -> Result<(), String> {
        while rest.len() >= Run::LEN {
            let run = self.next_run(rest)?;
            let len = run.len as usize;
            self.pack_bytes(job, &run, rest.part(Run::LEN, len), now);
            let whole = run_in_parcel(len);
            rest = rest.part(whole, rest.len() - whole);
        }
        Ok(())
    }

    /// Takes a parcel apart that lies in a buffer of ours.
    fn take_apart(&mut self, job: JobKey, buffer: u32, len: usize, now: Time) -> Result<(), String> {
        let (shared, mut at) = (Arc::clone(&self.shared), 0);
        let parcel = shared.memory().window().part(shared.offset(buffer), len);
        let mut range: Option<BundleRange> = None;
        while len - at >= Run::LEN {
            let run = next_in_parcel(&parcel.array::<{ Run::LEN }>(at), len - at);
            let run = run.map_err(|error| error.to_string())?;
            let whole = run_in_parcel(run.len as usize) as u32;
            let hopper = self.hopper(job, run.destination, now);
            let capacity =
                hopper.and_then(|id| self.hoppers.get(&id)).map_or(0, |hopper| hopper.hop.capacity);
            match &mut range {
                Some(range) if Some(range.hopper) == hopper && range.len + whole <= capacity => {
                    range.len += whole;
                    range.runs += 1;
                    range.bytes += run.len;
                }
                _ => {
                    let (at, len, bytes) = (at as u32, whole, run.len);
                    let next = |hopper| BundleRange { hopper, buffer, at, len, runs: 1, bytes };
                    let ended = std::mem::replace(&mut range, hopper.map(next));
                    self.counts.unroutable += u64::from(hopper.is_none());
                    ended.map_or(Ok(()), |ended| self.hand_on(job, parcel, ended, now))?;
                }
            }
            at += whole as usize;
        }
        range.map_or(Ok(()), |last| self.hand_on(job, parcel, last, now))
    }

    /// Gives runs to their next hop: as they lie if they nearly are a parcel for a rank, packed anew otherwise.
    fn hand_on(
        &mut self,
        job: JobKey,
        parcel: Window<'_>,
        range: BundleRange,
        now: Time,
    ) -> Result<(), String> {
        let BundleRange { hopper, buffer, at, len, .. } = range;
        match self.hoppers.get_mut(&hopper) {
            // What is for another agent goes with what else is for it.
            Some(Hopper { hop, waiting, .. })
                if hop.is_rank && (hop.capacity / 2..=hop.capacity).contains(&len) =>
            {
                waiting.push_back(range);
            }
            _ => return self.pack_anew(job, parcel.part(at as usize, len as usize), now),
        }
        if !mutant("routing.range-not-held") {
            self.buffers.hold(buffer);
        }
        self.counts.runs += u64::from(range.runs);
        self.counts.bytes += u64::from(range.bytes);
        self.publish_at.get_or_insert(now + RoutingConfig::PERIOD);
        self.pass_on(hopper);
        Ok(())
    }

    /// Sends what lies ready for a next hop, as far as it takes more.
    pub(super) fn pass_on(&mut self, id: u64) {
        while let Some(hopper) = self.hoppers.get_mut(&id)
            && !hopper.waiting.is_empty()
            && hopper.packing.pass_on()
        {
            let (job, hop) = (hopper.job, hopper.hop);
            let Some(BundleRange { buffer, at, len, .. }) = hopper.waiting.pop_front() else { break };
            self.dispatch(hop, Parcel { job, worker: self.index, packing: id, buffer, at, len });
        }
    }
}
