//! The ranks that have joined each job, and the answers that they must get.

use std::collections::{BTreeMap, BTreeSet};

use outboard_rendezvous::Addressed;
use outboard_wire::control::{ControlAnswer, ControlFailure, JobSecret, Member};
use outboard_wire::{JobId, Rank, Time};

use super::desk::PATIENCE;
use crate::Recorder;

/// A question, by who asked it and under which tag.
type Asked = (u64, u32);

struct Join {
    at: Time,
    job: JobId,
    secret: JobSecret,
    size: u32,
    member: Member,
}

struct Job {
    secret: JobSecret,
    size: u32,
    /// When those who wait are sent home.
    deadline: Time,
    /// Whether it was known before anyone joined: then no other may claim it before its deadline.
    is_announced: bool,
    here: BTreeMap<Rank, (Asked, Member)>,
    /// The clients of a job that has met; it is over when they have gone.
    met: Option<BTreeSet<u64>>,
}

/// Follows the rendezvous and objects.
pub(super) struct Meetings {
    recorder: Recorder,
    jobs: BTreeMap<JobId, Job>,
    unanswered: BTreeMap<Asked, Join>,
}

impl Meetings {
    pub(super) fn new(recorder: Recorder) -> Self {
        Self { recorder, jobs: BTreeMap::new(), unanswered: BTreeMap::new() }
    }

    pub(super) fn announce(&mut self, now: Time, job: JobId, secret: JobSecret, size: u32) {
        self.add(now, job, (secret, size), true);
    }

    fn add(&mut self, now: Time, job: JobId, (secret, size): (JobSecret, u32), is_announced: bool) {
        let deadline = now + PATIENCE;
        self.jobs.insert(job, Job { secret, size, deadline, is_announced, here: BTreeMap::new(), met: None });
    }

    pub(super) fn on_join(
        &mut self,
        now: Time,
        asked: Asked,
        (job, secret, size): (JobId, JobSecret, u32),
        member: Member,
    ) {
        let facts = [("job", job.0), ("rank", member.rank.0.into()), ("client", asked.0)];
        self.recorder.note("join", &facts);
        self.unanswered.insert(asked, Join { at: now, job, secret, size, member });
        self.expire(now);
        if member.rank.0 >= size {
            return;
        }
        if !self.jobs.contains_key(&job) {
            self.add(now, job, (secret, size), false);
        }
        let Some(known) = self.jobs.get_mut(&job) else { return };
        let belongs = known.secret == secret && known.size == size && known.met.is_none();
        if belongs && !known.here.contains_key(&member.rank) {
            known.here.insert(member.rank, (asked, member));
        }
    }

    /// The rendezvous has answered someone.
    pub(super) fn on_answer(&mut self, addressed: &Addressed) {
        let asked = (addressed.client, addressed.tag);
        let kind = addressed.answer.kind().0.into();
        self.recorder.note("gathered", &[("client", asked.0), ("tag", asked.1.into()), ("kind", kind)]);
        let Some(join) = self.unanswered.remove(&asked) else {
            return self.recorder.fail(format!("each join is answered once, but {addressed:?} answers none"));
        };
        let is_right = match &*addressed.answer {
            ControlAnswer::Members(members) => self.is_complete(&join, asked, members),
            ControlAnswer::Failed { failure: ControlFailure::RanksMissing, detail } => {
                self.is_missing(&join, asked, detail.as_str())
            }
            ControlAnswer::Failed { failure, .. } => self.is_refused(&join, asked, *failure),
            _ => false,
        };
        self.recorder.expect(is_right, || {
            format!("{} of {} is not told {:?}", join.member.rank, join.job, addressed.answer)
        });
    }

    /// All of a job are told of all.
    fn is_complete(&mut self, join: &Join, asked: Asked, members: &[Member]) -> bool {
        let Some(job) = self.jobs.get_mut(&join.job) else { return false };
        let everyone: Vec<Member> = job.here.values().map(|(_, member)| *member).collect();
        let is_here = job.here.get(&join.member.rank).is_some_and(|(by, _)| *by == asked);
        job.met.get_or_insert_with(|| job.here.values().map(|((client, _), _)| *client).collect());
        is_here && members == everyone && members.len() == join.size as usize
    }

    /// Those who wait when time is up are told who is missing.
    fn is_missing(&self, join: &Join, asked: Asked, detail: &str) -> bool {
        let Some(job) = self.jobs.get(&join.job) else { return false };
        let missing = (0..job.size).map(Rank).filter(|rank| !job.here.contains_key(rank));
        let missing: Vec<String> = missing.map(|rank| rank.0.to_string()).collect();
        let is_here = job.here.get(&join.member.rank).is_some_and(|(by, _)| *by == asked);
        is_here && !missing.is_empty() && detail.contains(&format!("rank {} of", missing.join(", ")))
    }

    /// Only those are refused who have no place.
    fn is_refused(&self, join: &Join, asked: Asked, failure: ControlFailure) -> bool {
        if join.member.rank.0 >= join.size {
            return failure == ControlFailure::BadRequest;
        }
        let Some(job) = self.jobs.get(&join.job) else { return false };
        match failure {
            ControlFailure::WrongSecret => job.secret != join.secret,
            ControlFailure::SizeDiffers => job.size != join.size,
            ControlFailure::RankTaken => {
                job.met.is_some() || job.here.get(&join.member.rank).is_some_and(|(by, _)| *by != asked)
            }
            _ => false,
        }
    }

    fn expire(&mut self, now: Time) {
        self.jobs.retain(|_, job| job.met.is_some() || now < job.deadline);
    }

    pub(super) fn on_gone(&mut self, client: u64) {
        self.unanswered.retain(|(by, _), _| *by != client);
        self.jobs.retain(|_, job| match &mut job.met {
            Some(clients) => {
                clients.remove(&client);
                !clients.is_empty()
            }
            None => {
                job.here.retain(|_, ((by, _), _)| *by != client);
                job.is_announced || !job.here.is_empty()
            }
        });
    }

    /// No rank waits longer than the patience.
    pub(super) fn on_time(&mut self, now: Time) {
        self.expire(now);
        let late = self.unanswered.values().find(|join| now >= join.at + PATIENCE);
        if let Some(Join { at, job, member, .. }) = late {
            self.recorder
                .fail(format!("{} of {job} waits since {at}, longer than {PATIENCE:?}", member.rank));
        }
    }
}
