//! Several ranks in one process.

use std::time::Duration;

use outboard::{Address, Job, JobError, JobOptions};

pub(crate) const SECRET: &str = "a secret of this test";

/// A number that no other job has at the time.
pub(crate) fn id() -> u64 {
    std::process::id().into()
}

/// Runs `work` as each rank, each in a thread of its own.
fn in_threads<R: Send>(ranks: u32, work: impl Fn(u32) -> R + Sync) -> Vec<R> {
    std::thread::scope(|scope| {
        let work = &work;
        let ranks: Vec<_> = (0..ranks).map(|rank| scope.spawn(move || work(rank))).collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

/// What each rank hears from the others: the sum of what they send.
fn exchange(job: &Job) -> u64 {
    let mut messenger = job.messenger().unwrap();
    for rank in 0..job.size() {
        messenger.send_value(rank, u64::from(job.rank() + 1)).unwrap();
    }
    let mut sum = 0;
    messenger.quiesce(0, |_, _, bytes| sum += u64::from_le_bytes(bytes.try_into().unwrap())).unwrap();
    messenger.barrier().unwrap();
    sum
}

#[test]
fn ranks_of_one_process_meet_and_exchange_messages() {
    let sums = in_threads(4, |rank| {
        let job = Job::with(JobOptions::new(rank, 4, id() << 8, SECRET)).unwrap();
        assert_eq!((job.rank(), job.size(), job.id()), (rank, 4, id() << 8));
        assert!(job.explain().iter().any(|line| line.contains("the ranks meet at")), "{:?}", job.explain());
        exchange(&job)
    });
    assert_eq!(sums, [10; 4]);
}

#[test]
fn ranks_meet_and_listen_where_they_are_told() {
    let place: Address = format!("unix:@outboard-test-meeting-{}", id()).parse().unwrap();
    let sums = in_threads(3, |rank| {
        let options = JobOptions::new(rank, 3, (id() << 8) + 1, SECRET)
            .with_rendezvous(place.clone())
            .with_listen("tcp:127.0.0.1:0".parse().unwrap());
        let job = Job::with(options).unwrap();
        let met = format!("the ranks meet at {place}");
        assert!(job.explain().contains(&met), "{:?}", job.explain());
        exchange(&job)
    });
    assert_eq!(sums, [6; 3]);
}

#[test]
fn a_job_of_one_needs_no_other() {
    let job = Job::with(JobOptions::new(0, 1, 0, SECRET)).unwrap();
    assert_eq!(exchange(&job), 1);
    assert!(job.outboard().address().is_none() && job.outboard().agent().is_none());
    let error = job.memory().err().unwrap().to_string();
    assert!(error.contains("without a memory server"), "{error}");
}

#[test]
fn what_cannot_be_is_said() {
    let refused = |options| Job::with(options).err().unwrap();
    let beyond = refused(JobOptions::new(2, 2, 7, SECRET));
    assert!(matches!(beyond, JobError::NoSuchRank { rank: 2, size: 2 }), "{beyond}");
    let short = refused(JobOptions::new(0, 2, 7, "short"));
    assert!(matches!(short, JobError::SecretTooShort), "{short}");
    let long = refused(JobOptions::new(0, 2, 7, &"long".repeat(20)));
    assert!(matches!(long, JobError::SecretTooLong), "{long}");
    let shown = format!("{:?}", JobOptions::new(0, 2, 7, SECRET));
    assert!(!shown.contains(SECRET), "{shown}");
    // The other rank never comes.
    let options = JobOptions::new(0, 2, (id() << 8) + 2, SECRET);
    let alone = refused(options.with_join_deadline(Duration::from_millis(50))).to_string();
    assert!(alone.contains("still lacks rank 1 of 2"), "{alone}");
    let nowhere = outboard::Outboard::at("unix:@outboard-no-server-here".parse().unwrap());
    let missing = refused(JobOptions::new(0, 1, 7, SECRET).with_outboard(nowhere));
    assert!(matches!(missing, JobError::NotThere { daemon: "memory", .. }), "{missing}");
}
