//! How the ranks of a job find each other.

use std::collections::btree_map::{BTreeMap, Entry};
use std::sync::Arc;
use std::time::Duration;

use outboard_wire::control::{ControlAnswer, ControlFailure, JobSecret, Member, RANKS_MAX};
use outboard_wire::{JobId, Rank, Time};

/// An answer for the client that asked under a tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addressed {
    /// Who asked.
    pub client: u64,
    /// Under which tag.
    pub tag: u32,
    /// What it is told. All ranks of a job are told the same, which is as long as there are ranks.
    pub answer: Arc<ControlAnswer>,
}

impl Addressed {
    fn no(client: u64, tag: u32, failure: ControlFailure, detail: &str) -> Self {
        Self { client, tag, answer: Arc::new(ControlAnswer::failed(failure, detail)) }
    }
}

struct Joined {
    client: u64,
    tag: u32,
    member: Member,
}

struct Gathering {
    secret: JobSecret,
    size: u32,
    /// Announced before a rank came: until its time is up the job keeps its number, even if all its ranks go.
    is_announced: bool,
    joined: BTreeMap<Rank, Joined>,
    /// When the missing are named and everyone is sent home; none once all are there.
    deadline: Option<Time>,
}

/// Gathers the ranks of jobs. Everyone is answered when the last rank has come, or, when time is up, with the
/// names of those that have not.
pub struct Rendezvous {
    patience: Duration,
    /// In order, so that the same questions always give the same answers in the same order.
    jobs: BTreeMap<JobId, Gathering>,
    /// How many places each client has in all of them.
    places: BTreeMap<u64, usize>,
}

/// How many jobs are known at once. A client that makes up job numbers fills this, not the memory.
const JOBS_MAX: usize = 1024;

/// How many ranks one client can be, in all jobs together. A client that claims more fills this, not the memory.
const PLACES_MAX: usize = 64;

/// How many missing ranks an answer names.
const NAMED_MAX: usize = 16;

impl Rendezvous {
    /// Waits `patience` from a job's first rank to its last.
    pub fn new(patience: Duration) -> Self {
        Self { patience, jobs: BTreeMap::new(), places: BTreeMap::new() }
    }

    /// Announces a job, so that no other process can be first with another secret.
    pub fn expect(&mut self, now: Time, job: JobId, secret: JobSecret, size: u32) {
        let deadline = Some(now + self.patience);
        let joined = BTreeMap::new();
        self.jobs.insert(job, Gathering { secret, size, is_announced: true, joined, deadline });
    }

    /// How many jobs are known.
    pub fn count(&self) -> usize {
        self.jobs.len()
    }

    /// A rank has come. Returns what is to be said, to it or to all.
    pub fn on_join(
        &mut self,
        now: Time,
        (client, tag): (u64, u32),
        (job, secret, size): (JobId, JobSecret, u32),
        member: Member,
    ) -> Vec<Addressed> {
        match self.admit(now, (client, tag), (job, secret, size), member) {
            Ok(answers) => answers,
            Err((failure, detail)) => vec![Addressed::no(client, tag, failure, &detail)],
        }
    }

    fn admit(
        &mut self,
        now: Time,
        (client, tag): (u64, u32),
        (job, secret, size): (JobId, JobSecret, u32),
        member: Member,
    ) -> Result<Vec<Addressed>, (ControlFailure, String)> {
        let rank = member.rank;
        if size as usize > RANKS_MAX || rank.0 >= size {
            return Err((ControlFailure::BadRequest, format!("{rank} in a job of {size}")));
        }
        if self.places.get(&client).is_some_and(|places| *places >= PLACES_MAX) {
            let detail = format!("one connection can be {PLACES_MAX} ranks; let each process have its own");
            return Err((ControlFailure::BadRequest, detail));
        }
        if self.jobs.len() >= JOBS_MAX && !self.jobs.contains_key(&job) {
            let detail = format!("{JOBS_MAX} jobs gather here already; try again when one has ended");
            return Err((ControlFailure::TooManyJobs, detail));
        }
        let gathering = match self.jobs.entry(job) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let deadline = Some(now + self.patience);
                let joined = BTreeMap::new();
                entry.insert(Gathering { secret, size, is_announced: false, joined, deadline })
            }
        };
        if !gathering.secret.matches(&secret) {
            return Err((ControlFailure::WrongSecret, format!("{rank} does not know the secret of {job}")));
        }
        if gathering.size != size {
            let detail = format!("{rank} says {job} has {size} ranks, the others say {}", gathering.size);
            return Err((ControlFailure::SizeDiffers, detail));
        }
        if gathering.deadline.is_none() {
            return Err((
                ControlFailure::RankTaken,
                format!("{job} has all its ranks; {rank} cannot come again"),
            ));
        }
        if let Some(earlier) = gathering.joined.get(&rank) {
            let pid = earlier.member.pid;
            return Err((
                ControlFailure::RankTaken,
                format!("{rank} of {job} has joined already, as process {pid}"),
            ));
        }
        gathering.joined.insert(rank, Joined { client, tag, member });
        *self.places.entry(client).or_default() += 1;
        Ok(if gathering.joined.len() == size as usize { gathering.complete() } else { Vec::new() })
    }

    /// A client has gone. Its rank can join again, unless all were there already. A job is forgotten with its last
    /// rank, unless it was announced and its time is not up.
    pub fn on_gone(&mut self, client: u64) {
        if self.places.remove(&client).is_none() {
            return;
        }
        self.jobs.retain(|_, gathering| {
            let before = gathering.joined.len();
            gathering.joined.retain(|_, joined| joined.client != client);
            let is_awaited = gathering.is_announced && gathering.deadline.is_some();
            is_awaited || gathering.joined.len() == before || !gathering.joined.is_empty()
        });
    }

    /// When [`on_time`](Rendezvous::on_time) is due.
    pub fn next_deadline(&self) -> Option<Time> {
        self.jobs.values().filter_map(|gathering| gathering.deadline).min()
    }

    /// Tells everyone in a job whose time is up who is missing, and forgets the job.
    pub fn on_time(&mut self, now: Time) -> Vec<Addressed> {
        let (mut answers, places) = (Vec::new(), &mut self.places);
        self.jobs.retain(|job, gathering| {
            if gathering.deadline.is_none_or(|deadline| now < deadline) {
                return true;
            }
            let detail = gathering.missing(*job, self.patience);
            for Joined { client, tag, .. } in gathering.joined.values() {
                answers.push(Addressed::no(*client, *tag, ControlFailure::RanksMissing, &detail));
                if let Entry::Occupied(mut held) = places.entry(*client) {
                    *held.get_mut() -= 1;
                    if *held.get() == 0 {
                        held.remove();
                    }
                }
            }
            false
        });
        answers
    }
}

impl Gathering {
    fn complete(&mut self) -> Vec<Addressed> {
        self.deadline = None;
        let members: Vec<Member> = self.joined.values().map(|joined| joined.member).collect();
        let answer = Arc::new(ControlAnswer::Members(members));
        let tell = |joined: &Joined| Addressed {
            client: joined.client,
            tag: joined.tag,
            answer: Arc::clone(&answer),
        };
        self.joined.values().map(tell).collect()
    }

    fn missing(&self, job: JobId, patience: Duration) -> String {
        let missing = (0..self.size).filter(|rank| !self.joined.contains_key(&Rank(*rank)));
        let named: Vec<String> = missing.take(NAMED_MAX).map(|rank| rank.to_string()).collect();
        let rest = self.size as usize - self.joined.len() - named.len();
        let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
        format!("after {patience:?} {job} still lacks rank {}{more} of {}", named.join(", "), self.size)
    }
}

#[cfg(test)]
mod tests {
    use outboard_wire::{Incarnation, Text};

    use super::*;

    const JOB: JobId = JobId(5);
    const SECRET: JobSecret = JobSecret([3; 64]);

    fn member(rank: u32) -> Member {
        Member { rank: Rank(rank), pid: 100 + rank, incarnation: Incarnation(1), address: Text::new("") }
    }

    fn join(rendezvous: &mut Rendezvous, client: u64, rank: u32, size: u32) -> Vec<Addressed> {
        rendezvous.on_join(Time::ZERO, (client, 9), (JOB, SECRET, size), member(rank))
    }

    fn failure(answers: &[Addressed]) -> (ControlFailure, String) {
        let [Addressed { answer, .. }] = answers else { panic!("expected one answer, got {answers:?}") };
        match &**answer {
            ControlAnswer::Failed { failure, detail } => (*failure, detail.to_string()),
            other => panic!("expected a failure, got {other:?}"),
        }
    }

    #[test]
    fn everyone_is_told_when_the_last_has_come() {
        let mut rendezvous = Rendezvous::new(Duration::from_secs(1));
        assert_eq!(join(&mut rendezvous, 12, 2, 3), []);
        assert_eq!(join(&mut rendezvous, 10, 0, 3), []);
        let answers = join(&mut rendezvous, 11, 1, 3);
        let members = Arc::new(ControlAnswer::Members(vec![member(0), member(1), member(2)]));
        let expected = [10, 11, 12].map(|client| Addressed { client, tag: 9, answer: Arc::clone(&members) });
        assert_eq!(answers, expected);
        assert_eq!(rendezvous.next_deadline(), None);
        rendezvous.on_gone(11);
        assert_eq!(failure(&join(&mut rendezvous, 13, 1, 3)).0, ControlFailure::RankTaken);
        [10, 11, 12].into_iter().for_each(|client| rendezvous.on_gone(client));
        assert_eq!(rendezvous.count(), 0);
    }

    #[test]
    fn the_missing_are_named_when_time_is_up() {
        let mut rendezvous = Rendezvous::new(Duration::from_secs(1));
        join(&mut rendezvous, 10, 0, 4);
        join(&mut rendezvous, 12, 2, 4);
        let due = rendezvous.next_deadline().unwrap();
        assert_eq!(rendezvous.on_time(Time::ZERO), []);
        let answers = rendezvous.on_time(due);
        assert_eq!(answers.len(), 2);
        let (kind, text) = failure(&answers[..1]);
        assert_eq!(kind, ControlFailure::RanksMissing);
        assert!(text.contains("lacks rank 1, 3 of 4"), "{text}");
        assert_eq!(rendezvous.count(), 0);
    }

    #[test]
    fn the_wrong_are_told_why_and_disturb_no_other_job() {
        let mut rendezvous = Rendezvous::new(Duration::from_secs(1));
        join(&mut rendezvous, 10, 0, 2);
        assert_eq!(failure(&join(&mut rendezvous, 20, 0, 2)).0, ControlFailure::RankTaken);
        assert_eq!(failure(&join(&mut rendezvous, 21, 1, 3)).0, ControlFailure::SizeDiffers);
        assert_eq!(failure(&join(&mut rendezvous, 22, 7, 2)).0, ControlFailure::BadRequest);
        let stranger = rendezvous.on_join(Time::ZERO, (23, 9), (JOB, JobSecret([4; 64]), 2), member(1));
        assert_eq!(failure(&stranger).0, ControlFailure::WrongSecret);
        rendezvous.on_gone(20);
        assert_eq!(join(&mut rendezvous, 11, 1, 2).len(), 2);
    }

    #[test]
    fn an_announced_job_keeps_its_number_when_its_first_rank_dies() {
        let mut rendezvous = Rendezvous::new(Duration::from_secs(1));
        rendezvous.expect(Time::ZERO, JOB, SECRET, 2);
        join(&mut rendezvous, 10, 0, 2);
        rendezvous.on_gone(10);
        let stranger = rendezvous.on_join(Time::ZERO, (23, 9), (JOB, JobSecret([4; 64]), 2), member(1));
        assert_eq!(failure(&stranger).0, ControlFailure::WrongSecret);
        assert_eq!(rendezvous.next_deadline(), Some(Time::ZERO + Duration::from_secs(1)));
        assert_eq!(join(&mut rendezvous, 11, 0, 2), []);
        assert_eq!(join(&mut rendezvous, 12, 1, 2).len(), 2);
        [11, 12].into_iter().for_each(|client| rendezvous.on_gone(client));
        assert_eq!(rendezvous.count(), 0);
    }

    #[test]
    fn made_up_jobs_fill_the_list_and_no_more() {
        let mut rendezvous = Rendezvous::new(Duration::from_secs(1));
        let mut come = |job| rendezvous.on_join(Time::ZERO, (job, 9), (JobId(job), SECRET, 2), member(0));
        assert!((0..JOBS_MAX as u64).all(|job| come(job).is_empty()));
        assert_eq!(failure(&come(JOBS_MAX as u64)).0, ControlFailure::TooManyJobs);
        (0..JOBS_MAX as u64).for_each(|client| rendezvous.on_gone(client));
        assert_eq!(rendezvous.count(), 0);
    }

    #[test]
    fn no_client_is_more_than_so_many_ranks_at_a_time() {
        let mut rendezvous = Rendezvous::new(Duration::from_secs(1));
        let most = PLACES_MAX as u32;
        assert!((0..most).all(|rank| join(&mut rendezvous, 1, rank, most + 2).is_empty()));
        assert_eq!(failure(&join(&mut rendezvous, 1, most, most + 2)).0, ControlFailure::BadRequest);
        assert!(join(&mut rendezvous, 2, most, most + 2).is_empty(), "others come as before");
        let due = rendezvous.next_deadline().unwrap();
        let answers = rendezvous.on_time(due);
        assert_eq!(answers.len(), PLACES_MAX + 1);
        assert!(failure(&answers[..1]).1.contains(&format!("lacks rank {} of", most + 1)));
        assert!(join(&mut rendezvous, 1, 0, 2).is_empty(), "its places are free again");
        rendezvous.on_gone(1);
        assert!(rendezvous.places.is_empty() && rendezvous.count() == 0);
    }

    #[test]
    fn of_a_large_job_the_first_that_are_missing_are_named() {
        let mut rendezvous = Rendezvous::new(Duration::from_secs(1));
        join(&mut rendezvous, 1, 3, 1 << 16);
        let text = failure(&rendezvous.on_time(rendezvous.next_deadline().unwrap())).1;
        assert!(text.contains("rank 0, 1, 2, 4, 5") && text.contains("and 65519 more of 65536"), "{text}");
    }

    #[test]
    fn a_rank_that_died_early_can_come_again() {
        let mut rendezvous = Rendezvous::new(Duration::from_secs(1));
        join(&mut rendezvous, 10, 0, 2);
        join(&mut rendezvous, 10, 0, 2);
        rendezvous.on_gone(10);
        assert_eq!(join(&mut rendezvous, 30, 0, 2), []);
        assert_eq!(join(&mut rendezvous, 31, 1, 2).len(), 2);
    }
}
