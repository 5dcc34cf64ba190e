//! An application that uses everything: ballots in far memory, messages that count them, remote writes that publish the counts,
//! and a function beside the data that finds the winner. It is cut as most are: the ranks hold and exchange, one region has what
//! all of them need, and a look at that costs one call.
//!
//!     cargo build --release -p outboard --examples
//!     outboard up &
//!     outboard run -n 3 -- target/release/examples/election
#![allow(clippy::print_stdout, reason = "a program speaks to people")]

use std::error::Error;
use std::time::Duration;

use outboard::zerocopy::{FromBytes, Immutable, IntoBytes};
use outboard::{
    Bundle, FarMemory, FarRegion, FarVec, FunctionImage, FunctionOptions, Job, Messenger, Rights, SendError,
};

/// How many ballots each rank has, and for how many candidates.
const BALLOTS: usize = 2 << 20;
const CANDIDATES: usize = 1000;
const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// A vote: 16 bytes that mean the same everywhere. It lies in far memory and travels in messages as it is.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[zerocopy(crate = "outboard::zerocopy")]
#[repr(C)]
struct Ballot {
    candidate: u32,
    district: u32,
    weight: u64,
}

/// Goes over all counts of its first region, of which its argument says how many there are. Returns their sum, and replies the
/// number of the largest and how large it is.
const TALLY: &str = "
    ldxdw r6, [r1+0]         ; how many are left
    mov r7, 0                ; where the next one is
    mov r8, 0                ; the sum
    stdw [r10-16], 0         ; where the largest is
    stdw [r10-24], 0         ; how large it is
next:
    jeq r6, 0, done
    mov r1, 0
    mov r2, r7
    mov r3, r10
    add r3, -8
    mov r4, 8
    call region_read
    ldxdw r3, [r10-8]
    add r8, r3
    ldxdw r4, [r10-24]
    jle r3, r4, other
    stxdw [r10-16], r7
    stxdw [r10-24], r3
other:
    add r7, 8
    sub r6, 1
    ja next
done:
    mov r1, r10
    add r1, -24
    mov r2, 16
    call reply
    mov r0, r8
    exit";

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let job = Job::join()?; // which rank this is, of how many; one of one without `outboard run`
    let mut messenger = job.messenger()?;

    // 1. Far memory: this rank's ballots, 32 MiB of which 8 MiB are here at a time.
    let far = job.far_with(job.far_options().with_buffer("8MiB".parse()?))?;
    let ballots = collect_ballots(&far, job.rank())?;

    // 2. Messages: each ballot goes to the rank that counts for its candidate.
    let counts = count(&mut messenger, &ballots)?;
    let (own, traffic) = (counts.iter().sum::<u64>(), far.stats().traffic);
    let came = (traffic.demand + traffic.ahead) >> 20;
    println!(
        "rank {} of {} has counted {own} votes; {came} MiB of ballots came back",
        job.rank(),
        job.size()
    );

    // 3. Writes: each rank publishes its counts in a region that all ranks share.
    let mut memory = job.memory()?;
    let name = format!("election-{:016x}", job.id());
    let size = (CANDIDATES * size_of::<u64>()) as u64;
    if job.rank() == 0 {
        memory.reserve_shared(size, &name)?; // it has a name, so it stays until it is freed
    }
    messenger.barrier()?; // it is there
    let results = memory.open_shared(&name, Rights::ALL)?;
    publish(&job, &results, &counts)?;
    messenger.barrier()?; // everything is written

    // 4. Calls: one rank has the memory server look through all of it.
    if job.rank() == 0 {
        let (votes, winner, winning) = tally(&job, &results)?;
        println!("candidate {winner} of {CANDIDATES} wins with {winning} of {votes} votes");
        memory.free(results)?;
    }
    // Until rank 0 has seen the result: a job ends when its ranks do.
    messenger.barrier()?;
    Ok(())
}

/// The ballots that this rank has got, more of them than it has memory for.
fn collect_ballots(far: &FarMemory, rank: u32) -> Result<FarVec<Ballot>, Box<dyn Error>> {
    let mut ballots = far.allocate::<Ballot>(BALLOTS)?;
    let mut random = SEED ^ u64::from(rank);
    for ballot in ballots.iter_mut() {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        // The product of two numbers: some candidates are more popular than others.
        let (one, other) = (random >> 48, (random >> 32) & 0xffff);
        let candidate = (one * other * CANDIDATES as u64) >> 32;
        *ballot = Ballot { candidate: candidate as u32, district: rank, weight: 1 };
    }
    Ok(ballots)
}

/// Sends every ballot to the rank that counts for its candidate, and counts those that come here. Candidate `c` is counted by
/// rank `c % ranks`, at place `c / ranks`.
fn count(messenger: &mut Messenger, ballots: &[Ballot]) -> Result<Vec<u64>, Box<dyn Error>> {
    let ranks = messenger.ranks();
    let mut counts = vec![0; CANDIDATES.div_ceil(ranks as usize)];
    let mut handle = |_: &mut Messenger, bundle: Bundle<'_>| {
        for ballot in bundle.values::<Ballot>().into_iter().flatten() {
            counts[(ballot.candidate / ranks) as usize] += ballot.weight;
        }
    };
    for ballot in ballots {
        while let Err(error) = messenger.send_value(ballot.candidate % ranks, *ballot) {
            match error {
                SendError::Full => messenger.make_room(0, &mut handle)?, // handle what has come, then try again
                error => return Err(error.into()),
            }
        }
    }
    messenger.quiesce_bundles(0, &mut handle)?; // until every ballot is counted everywhere
    Ok(counts)
}

/// Writes this rank's counts to the places of their candidates.
fn publish(job: &Job, results: &FarRegion, counts: &[u64]) -> Result<(), Box<dyn Error>> {
    let mut writer = job.writer()?;
    let target = writer.open(results)?;
    for (place, votes) in counts.iter().enumerate() {
        let candidate = place * job.size() as usize + job.rank() as usize;
        if candidate < CANDIDATES {
            writer.write(target, (candidate * size_of::<u64>()) as u64, &votes.to_le_bytes())?;
        }
    }
    writer.flush()?; // all of it is visible to everyone now
    Ok(())
}

/// Has the memory server add up all counts and find the largest: one round trip instead of a thousand. Gives the number of
/// votes, the winner, and the winner's votes.
fn tally(job: &Job, results: &FarRegion) -> Result<(u64, u64, u64), Box<dyn Error>> {
    let mut caller = job.caller()?;
    let options = FunctionOptions::default().with_region(results, Rights::READ);
    let tally = caller.register(&FunctionImage::from_text(TALLY, "main")?, options)?;
    let deadline = Duration::from_secs(5);
    let reply = caller.call_within(tally, &(CANDIDATES as u64).to_le_bytes(), deadline)?;
    let (winning, rest) = reply.bytes.split_first_chunk().ok_or("the reply is too short")?;
    let (offset, _) = rest.split_first_chunk().ok_or("the reply is too short")?;
    let winner = u64::from_le_bytes(*offset) / size_of::<u64>() as u64;
    let votes = reply.value;
    if votes != u64::from(job.size()) * BALLOTS as u64 {
        return Err(
            format!("{votes} votes were counted, of {BALLOTS} from each of {} ranks", job.size()).into()
        );
    }
    Ok((votes, winner, u64::from_le_bytes(*winning)))
}
