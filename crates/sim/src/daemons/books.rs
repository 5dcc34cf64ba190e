//! The regions that the daemon must hold and the answers that it must give, by its own questions and answers.

use std::collections::BTreeMap;

use outboard_link::memory::Buffer;
use outboard_rendezvous::Addressed;
use outboard_wire::control::{
    ControlAnswer, ControlFailure, JobSecret, Member, Question, RegionName, RegionSharing,
};
use outboard_wire::{Generation, JobId, RegionDescriptor, RegionId, RegionKey, Rights, Time};

use super::desk::CAPACITY;
use super::leases::{Claim, Leases};
use super::meetings::Meetings;
use crate::Recorder;

struct Kept {
    client: Option<u64>,
    name: RegionName,
    /// How many bytes it has, and how many it takes in whole pages.
    asked: u64,
    size: u64,
    /// Which life of its id it is: another life of the daemon gives the same ids.
    generation: Generation,
    key: RegionKey,
    epoch: u64,
    leases: Leases,
}

/// The books of one life of the daemon.
pub(super) struct Books {
    recorder: Recorder,
    page: u64,
    regions: BTreeMap<RegionId, Kept>,
    /// The greatest id so far.
    latest: RegionId,
    meetings: Meetings,
}

impl Books {
    pub(super) fn new(recorder: Recorder) -> Self {
        // Without a page of memory there is nothing to simulate.
        let page = Buffer::allocate(1).expect("a page of memory").len() as u64;
        let meetings = Meetings::new(recorder.clone());
        Self { recorder, page, regions: BTreeMap::new(), latest: RegionId(0), meetings }
    }

    pub(super) fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// Bytes of regions that have names.
    pub(super) fn named_bytes(&self) -> u64 {
        self.regions.values().filter(|kept| !kept.name.as_str().is_empty()).map(|kept| kept.size).sum()
    }

    fn used(&self) -> u64 {
        self.regions.values().map(|kept| kept.size).sum()
    }

    fn by_name(&self, name: &RegionName) -> Option<RegionId> {
        let is_it = |kept: &Kept| kept.name == *name && !name.as_str().is_empty();
        self.regions.iter().find(|(_, kept)| is_it(kept)).map(|(region, _)| *region)
    }

    /// The size of a page of memory.
    pub(super) fn page(&self) -> u64 {
        self.page
    }

    /// The memory in use is that which the living hold, and that which has a name.
    pub(super) fn audit(&self, used: u64, count: usize) {
        let (held, regions) = (self.used(), self.regions.len());
        self.recorder.expect((used, count) == (held, regions), || {
            format!("what is used is what is held: {used} bytes in {count} regions, not {held} in {regions}")
        });
    }

    /// The store has answered a client.
    pub(super) fn on_answer(&mut self, client: u64, question: &Question, answer: &ControlAnswer) {
        let is_right = match question {
            Question::Reserve { size, name, sharing, .. } => {
                self.is_right_reserve(client, *size, (name, *sharing), answer)
            }
            Question::ReserveSparse { .. } | Question::NextWritten { .. } => false,
            Question::OpenNamed { name, rights, sharing } => {
                self.is_right_open(client, name, (*rights, *sharing), answer)
            }
            Question::Free { region, key, .. } => {
                let claim = Claim { writes: true, is_leased: false };
                match self.regions.get(region).filter(|kept| kept.key == *key) {
                    None => is_failure(answer, &[ControlFailure::NoSuchRegion]),
                    Some(kept) if !kept.leases.admit(client, claim) => {
                        is_failure(answer, &[ControlFailure::InUse])
                    }
                    Some(_) => {
                        self.regions.remove(region);
                        *answer == ControlAnswer::Freed
                    }
                }
            }
            Question::Release { region, generation } => {
                self.is_right_release(client, (*region, *generation), answer)
            }
            Question::List { after } => {
                let beyond = self.regions.iter().filter(|(region, _)| *region > after);
                let expected: Vec<_> = beyond.map(|(region, kept)| (*region, kept.asked)).collect();
                match answer {
                    ControlAnswer::Regions { regions, more } => {
                        let listed: Vec<_> =
                            regions.iter().map(|listed| (listed.region, listed.size)).collect();
                        listed == expected && !more
                    }
                    _ => false,
                }
            }
            Question::Join { .. } => true,
            // There are no files in this world, and no large pages.
            Question::Load { .. } | Question::Sync { .. } | Question::Populate { .. } => {
                is_failure(answer, &[ControlFailure::NotServed])
            }
        };
        let summary = answer.kind().0.into();
        self.recorder.note("answered", &[("client", client), ("kind", summary), ("used", self.used())]);
        self.recorder.expect(is_right, || format!("{question:?} is not answered with {answer:?}"));
    }

    fn is_right_reserve(
        &mut self,
        client: u64,
        asked: u64,
        (name, sharing): (&RegionName, RegionSharing),
        answer: &ControlAnswer,
    ) -> bool {
        let size = asked.next_multiple_of(self.page);
        let is_taken = self.by_name(name).is_some();
        let fits = size <= CAPACITY - self.used();
        let reasons = [
            (asked == 0, ControlFailure::BadRequest),
            (!fits, ControlFailure::NoCapacity),
            (is_taken, ControlFailure::NameTaken),
        ];
        // Where several apply, any will do.
        let reasons: Vec<ControlFailure> =
            reasons.into_iter().filter(|(applies, _)| *applies).map(|(_, failure)| failure).collect();
        let ControlAnswer::Region(RegionDescriptor { grant, epoch, .. }) = answer else {
            return is_failure(answer, &reasons);
        };
        let is_new = grant.region > self.latest;
        self.latest = grant.region;
        let mut leases = Leases::default();
        leases.give(client, Claim::new(Rights::ALL, sharing));
        let (client, key, epoch, generation) = (Some(client), grant.key, *epoch, grant.generation);
        let kept = Kept { client, name: *name, asked, size, generation, key, epoch, leases };
        self.regions.insert(grant.region, kept);
        reasons.is_empty() && is_new && grant.size == asked
    }

    fn is_right_open(
        &mut self,
        client: u64,
        name: &RegionName,
        (rights, sharing): (Rights, RegionSharing),
        answer: &ControlAnswer,
    ) -> bool {
        let Some(region) = self.by_name(name) else {
            return is_failure(answer, &[ControlFailure::NoSuchRegion]);
        };
        let Some(kept) = self.regions.get_mut(&region) else { return false };
        let claim = Claim::new(rights, sharing);
        if !kept.leases.admit(client, claim) {
            return is_failure(answer, &[ControlFailure::InUse]);
        }
        let ControlAnswer::Region(RegionDescriptor { grant, epoch, .. }) = answer else { return false };
        let is_new_writer = claim.writes && !kept.leases.is_writer(client);
        // Every writer has an epoch of its own, which comes after all that were.
        let is_in_time = if is_new_writer { *epoch > kept.epoch } else { *epoch >= kept.epoch };
        kept.epoch = *epoch;
        kept.leases.give(client, claim);
        if claim.writes {
            // It is another one if a writer was lost and is shut out now.
            kept.key = grant.key;
        }
        let has_full_key = grant.key == kept.key && grant.rights.includes(Rights::WRITE);
        grant.region == region && has_full_key == claim.writes && is_in_time
    }

    fn is_right_release(
        &mut self,
        client: u64,
        (region, generation): (RegionId, Generation),
        answer: &ControlAnswer,
    ) -> bool {
        let kept = self.regions.get_mut(&region);
        let Some(kept) = kept.filter(|kept| kept.generation == generation && kept.leases.has(client)) else {
            return is_failure(answer, &[ControlFailure::NoSuchRegion]);
        };
        kept.leases.release(client);
        if !kept.leases.has(client) && kept.name.as_str().is_empty() {
            self.regions.remove(&region);
        }
        *answer == ControlAnswer::Released
    }

    /// A client has gone, and the store says how many bytes came free.
    pub(super) fn on_gone(&mut self, client: u64, released: u64) {
        let before = self.used();
        self.regions.retain(|_, kept| kept.client != Some(client) || !kept.name.as_str().is_empty());
        for kept in self.regions.values_mut() {
            kept.client = kept.client.filter(|owner| *owner != client);
            kept.leases.forget(client);
        }
        let freed = before - self.used();
        self.recorder.expect(freed == released, || {
            format!("what a client held comes free when it goes: {released} bytes, not {freed}")
        });
        self.meetings.on_gone(client);
    }

    pub(super) fn announce(&mut self, now: Time, job: JobId, secret: JobSecret, size: u32) {
        self.meetings.announce(now, job, secret, size);
    }

    pub(super) fn on_join(
        &mut self,
        now: Time,
        asked: (u64, u32),
        job: (JobId, JobSecret, u32),
        member: Member,
    ) {
        self.meetings.on_join(now, asked, job, member);
    }

    pub(super) fn on_gathered(&mut self, addressed: &Addressed) {
        self.meetings.on_answer(addressed);
    }

    pub(super) fn on_time(&mut self, now: Time) {
        self.meetings.on_time(now);
    }
}

fn is_failure(answer: &ControlAnswer, expected: &[ControlFailure]) -> bool {
    matches!(answer, ControlAnswer::Failed { failure, .. } if expected.contains(failure))
}
