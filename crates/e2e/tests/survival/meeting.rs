//! Ranks that come twice, with another job's secret, with another size, or not at all.

use std::thread::{self, JoinHandle};
use std::time::Duration;

use outboard::{Address, Job, Settings};
use outboard_e2e::{Daemon, Place, Random};
use outboard_settings::{AddressChoice, Secret};
use outboard_wire::{JobId, Rank};

/// What a rank believes of its job.
#[derive(Clone)]
struct Belief {
    agent: Option<Address>,
    id: u64,
    rank: u32,
    size: u32,
    secret: &'static str,
    join_timeout: Duration,
}

const SECRET: &str = "what the ranks of this job know";
const OTHER_SECRET: &str = "what the ranks of another know";

impl Belief {
    fn new(agent: Option<&Address>, size: u32) -> Self {
        let salt = u64::from(std::process::id()) << 32 | u64::from(size);
        let id = Random::new(salt ^ agent.map_or(0, |_| 1 << 20)).next();
        let join_timeout = Duration::from_secs(20);
        Self { agent: agent.cloned(), id, rank: 0, size, secret: SECRET, join_timeout }
    }

    fn rank(&self, rank: u32) -> Self {
        Self { rank, ..self.clone() }
    }

    /// Joins; returns the job, or the error in words.
    fn join(&self) -> Result<Job, String> {
        let mut settings = Settings::default();
        settings.job.agent = self.agent.clone().map_or(AddressChoice::None, AddressChoice::At);
        settings.job.memory = AddressChoice::None;
        (settings.job.id, settings.job.rank) = (Some(JobId(self.id)), Some(Rank(self.rank)));
        settings.job.size = Some(self.size);
        settings.job.secret = Some(Secret::new(self.secret).unwrap());
        settings.job.join_timeout = self.join_timeout;
        Job::with_settings(&settings).map_err(|error| error.to_string())
    }

    fn join_aside(&self) -> JoinHandle<Result<Job, String>> {
        let belief = self.clone();
        thread::spawn(move || belief.join())
    }
}

#[track_caller]
fn refused(belief: &Belief, parts: &[&str]) {
    let error = belief.join().err().expect("it is refused");
    assert!(parts.iter().all(|part| error.contains(part)), "“{error}” does not tell {parts:?}");
}

/// Waits until nobody hosts the meeting any more: sockets are closed some time after their owners are gone.
fn await_nobody(id: u64) {
    outboard_e2e::await_state("the host to be gone", || {
        (!is_hosted(id)).then_some(()).ok_or("it is still there".to_owned())
    });
}

/// Where rank 0 receives the others if nobody else does.
fn is_hosted(id: u64) -> bool {
    let sockets = std::fs::read_to_string("/proc/net/unix").unwrap();
    sockets.contains(&format!("@outboard-job-{id:016x}"))
}

/// Everything that can be wrong with a rank, while the right ones wait; then the right ones meet.
fn wrong_ranks(belief: &Belief, await_first: impl FnOnce()) {
    let first = belief.rank(0).join_aside();
    await_first();
    let other_secret = Belief { secret: OTHER_SECRET, ..belief.rank(1) };
    refused(&other_secret, &["does not know the secret"]);
    refused(&Belief { size: 3, ..belief.rank(1) }, &["has 3 ranks, the others say 2"]);
    let second = belief.rank(1).join_aside();
    for (rank, job) in [first, second].map(|joining| joining.join().unwrap().unwrap()).iter().enumerate() {
        assert_eq!((job.rank() as usize, job.size()), (rank, 2));
        assert!(job.members().iter().all(|member| member.pid == std::process::id()));
    }
}

#[test]
fn wrong_ranks_are_told_why_by_an_agent_and_the_right_ones_meet() {
    let place = Place::new();
    let mut agent = Daemon::agent(&place, &place.socket(), "none", &[]);
    let belief = Belief::new(Some(&agent.local().clone()), 2);
    wrong_ranks(&belief, || {
        agent.await_number("jobs", 1);
        refused(
            &belief.rank(0),
            &["rank 0", "has joined already, as process", &std::process::id().to_string()],
        );
    });
    agent.await_number("jobs", 0);
    let again = belief.rank(0).join_aside();
    belief.rank(1).join().unwrap();
    again.join().unwrap().unwrap();
    agent.end();
    place.assert_nothing_left();
}

#[test]
fn wrong_ranks_are_told_why_by_rank_0_and_the_right_ones_meet() {
    let belief = Belief::new(None, 2);
    wrong_ranks(&belief, || {
        outboard_e2e::await_state("rank 0 to receive", || {
            is_hosted(belief.id).then_some(()).ok_or(String::new())
        });
        refused(&belief.rank(0), &["already in use", "outboard-job-"]);
    });
    await_nobody(belief.id);
}

#[test]
fn missing_ranks_are_named_by_an_agent_when_time_is_up() {
    let place = Place::new();
    let mut agent = Daemon::agent(&place, &place.socket(), "none", &["--job-join-timeout", "300ms"]);
    for round in 0..4 {
        let belief = Belief::new(Some(&agent.local().clone()), 4 + round);
        let here = [0, 2].map(|rank| belief.rank(rank).join_aside());
        for rank in here {
            let error = rank.join().unwrap().err().expect("two ranks are missing");
            assert!(error.contains("lacks rank 1, 3") && error.contains("after 300ms"), "{error}");
        }
        agent.await_number("jobs", 0);
    }
    agent.end();
}

#[test]
fn missing_ranks_are_named_by_rank_0_when_time_is_up() {
    let belief = Belief { join_timeout: Duration::from_millis(300), ..Belief::new(None, 3) };
    let here = [0, 2].map(|rank| belief.rank(rank).join_aside());
    for rank in here {
        let error = rank.join().unwrap().err().expect("one rank is missing");
        assert!(error.contains("lacks rank 1 of 3"), "{error}");
    }
    let error = belief.rank(1).join().err().expect("nobody is there any more");
    assert!(error.contains("no process gathers") && error.contains("outboard-job-"), "{error}");
    await_nobody(belief.id);
}
