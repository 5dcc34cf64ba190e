//! What the daemon must hold and answer, by its own questions and answers.

use std::collections::BTreeMap;

use outboard_link::memory::Buffer;
use outboard_rendezvous::Addressed;
use outboard_wire::control::{ControlAnswer, Failure, JobSecret, Member, Question, RegionName};
use outboard_wire::{JobId, RegionDescriptor, RegionId, RegionKey, Rights, Time};

use super::desk::CAPACITY;
use super::meetings::Meetings;
use crate::Recorder;

struct Kept {
    client: Option<u64>,
    name: RegionName,
    size: u64,
    key: RegionKey,
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

    /// What is used is what is held by the living, and what has a name.
    pub(super) fn audit(&self, used: u64, count: usize) {
        let (held, regions) = (self.used(), self.regions.len());
        self.recorder.expect((used, count) == (held, regions), || {
            format!("what is used is what is held: {used} bytes in {count} regions, not {held} in {regions}")
        });
    }

    /// The store has answered a client.
    pub(super) fn on_answer(&mut self, client: u64, question: &Question, answer: &ControlAnswer) {
        let is_right = match question {
            Question::Reserve { size, name, .. } => self.is_right_reserve(client, *size, name, answer),
            Question::OpenNamed { name, rights } => {
                let found = self.by_name(name).map(|region| (region, &self.regions[&region]));
                match (found, answer) {
                    (Some((region, kept)), ControlAnswer::Region(RegionDescriptor { grant, .. })) => {
                        let is_full = grant.key == kept.key;
                        grant.region == region && is_full != Rights::READ.includes(*rights)
                    }
                    (None, answer) => is_failure(answer, &[Failure::NoSuchRegion]),
                    _ => false,
                }
            }
            Question::Free { region, key, .. } => {
                let may = self.regions.get(region).is_some_and(|kept| kept.key == *key);
                if may {
                    self.regions.remove(region);
                }
                if may {
                    *answer == ControlAnswer::Freed
                } else {
                    is_failure(answer, &[Failure::NoSuchRegion])
                }
            }
            Question::List { after } => {
                let beyond = self.regions.iter().filter(|(region, _)| *region > after);
                let expected: Vec<_> = beyond.map(|(region, kept)| (*region, kept.size)).collect();
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
            // There are no files in this world.
            Question::Load { .. } => is_failure(answer, &[Failure::NotServed]),
        };
        let summary = answer.kind().0.into();
        self.recorder.note("answered", &[("client", client), ("kind", summary), ("used", self.used())]);
        self.recorder.expect(is_right, || format!("{question:?} is not answered with {answer:?}"));
    }

    fn is_right_reserve(
        &mut self,
        client: u64,
        asked: u64,
        name: &RegionName,
        answer: &ControlAnswer,
    ) -> bool {
        let size = asked.next_multiple_of(self.page);
        let is_taken = self.by_name(name).is_some();
        let fits = size <= CAPACITY - self.used();
        let reasons =
            [(asked == 0, Failure::BadRequest), (!fits, Failure::NoCapacity), (is_taken, Failure::NameTaken)];
        // Where several apply, any will do.
        let reasons: Vec<Failure> =
            reasons.into_iter().filter(|(applies, _)| *applies).map(|(_, failure)| failure).collect();
        let ControlAnswer::Region(RegionDescriptor { grant, .. }) = answer else {
            return is_failure(answer, &reasons);
        };
        let is_new = grant.region > self.latest;
        self.latest = grant.region;
        let kept = Kept { client: Some(client), name: *name, size, key: grant.key };
        self.regions.insert(grant.region, kept);
        reasons.is_empty() && is_new && grant.size == size
    }

    /// A client has gone, and the store says how many bytes came free.
    pub(super) fn on_gone(&mut self, client: u64, released: u64) {
        let before = self.used();
        self.regions.retain(|_, kept| kept.client != Some(client) || !kept.name.as_str().is_empty());
        for kept in self.regions.values_mut().filter(|kept| kept.client == Some(client)) {
            kept.client = None;
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

fn is_failure(answer: &ControlAnswer, expected: &[Failure]) -> bool {
    matches!(answer, ControlAnswer::Failed { failure, .. } if expected.contains(failure))
}
