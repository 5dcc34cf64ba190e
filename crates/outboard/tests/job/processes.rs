//! Ranks that are processes, started by a program that is no launcher.

use std::process::{Child, Stdio};

use outboard::{Job, JobOptions};

use crate::threads::{SECRET, id};

const VARIABLE: &str = "OUTBOARD_TEST_RANK";
const RANKS: u32 = 3;

/// What this process does if it was started for that: it sends its process id to rank 0, which says how many it has heard of.
pub(crate) fn act_as_told() {
    let told = std::env::var(VARIABLE).unwrap();
    let (id, rank) = told.split_once(' ').unwrap();
    let options = JobOptions::new(rank.parse().unwrap(), RANKS, id.parse().unwrap(), SECRET);
    let job = Job::with(options).unwrap();
    let mut messenger = job.messenger().unwrap();
    messenger.send_value(0, std::process::id()).unwrap();
    let mut heard = std::collections::BTreeSet::new();
    messenger
        .quiesce(0, |_, _, bytes| {
            heard.insert(u32::from_le_bytes(bytes.try_into().unwrap()));
        })
        .unwrap();
    println!("rank {} of {} has heard of {} processes", job.rank(), job.size(), heard.len());
}

/// A rank. One that is left behind by a failure is killed.
struct Rank(Option<Child>);

impl Rank {
    fn start(id: u64, rank: u32) -> Self {
        let mut command = outboard_child::again();
        command.env(VARIABLE, format!("{id} {rank}")).stdout(Stdio::piped());
        // Such settings are for processes that ask for them.
        command.env("OUTBOARD_JOB_RANK", "17").env("OUTBOARD_JOB_SIZE", "18");
        Self(Some(command.spawn().unwrap()))
    }

    fn said(mut self) -> String {
        let output = self.0.take().unwrap().wait_with_output().unwrap();
        assert!(output.status.success(), "{:?}", output.status);
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for Rank {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            // It may have ended.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn ranks_that_no_launcher_has_started_are_a_job() {
    let id = (id() << 8) + 3;
    let ranks: Vec<Rank> = (0..RANKS).map(|rank| Rank::start(id, rank)).collect();
    let said: Vec<String> = ranks.into_iter().map(Rank::said).collect();
    for (rank, said) in said.iter().enumerate() {
        let heard = if rank == 0 { RANKS } else { 0 };
        assert!(said.contains(&format!("rank {rank} of {RANKS} has heard of {heard} processes")), "{said}");
    }
}
