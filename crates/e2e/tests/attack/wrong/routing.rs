//! Messages: ranks that are none, agents that know everybody, parcels that nobody has asked for.

use std::time::Duration;

use outboard_e2e::Random;
use outboard_wire::routing::{
    ANNOUNCE, ATTACH, Announcement, DETACH, Form, JobKey, PARCEL, PING, ParcelHead, RUN, RankAttachment, Run,
    TAKEN,
};
use outboard_wire::{FrameHead, Generation, Grant, JobId, Rank, RegionId, RegionKey, Rights, Role};

use super::Episode;
use super::forge::{edge, mostly_below, perhaps, some_bytes};
use super::raw::{Hung, Raw};
use crate::scene::Scene;

/// The last rank that a job can have.
const LAST_RANK: u32 = (1 << 16) - 1;
/// In how many jobs an agent says to reach it.
const JOBS: u64 = 1000;

fn job(random: &mut Random) -> JobKey {
    JobKey { job: JobId(random.next()), roster: random.next() }
}

fn attachment(job: JobKey, rank: u32) -> RankAttachment {
    let grant = Grant {
        region: RegionId(5),
        generation: Generation(1),
        key: RegionKey([1; 16]),
        rights: Rights::READ,
        size: 1 << 20,
    };
    RankAttachment { job, rank: Rank(rank), ranks: 64, grant, bundle_bytes: 1 << 10, parcel_bytes: 1 << 16 }
}

fn run(source: u32, destination: u32, number: u64, len: u32) -> Run {
    let (source, destination) = (Rank(source), Rank(destination));
    Run { source, destination, number, at: None, len, space: 0, form: Form::Messages }
}

/// A rank whose messages the agent carries.
fn rank_of(scene: &Scene, job: JobKey, rank: u32, random: &mut Random) -> Result<Raw, Hung> {
    let mut link = Raw::connect(scene.agent(random), Role::Application, random)?;
    link.frame(FrameHead::new(ATTACH), &attachment(job, rank).encode())?;
    link.await_frame(|head| head.kind == outboard_wire::routing::WELCOME)?;
    Ok(link)
}

/// Ranks with sizes, numbers and memory that make no sense, and what they send.
pub(super) fn ranks(scene: &Scene, random: &mut Random) -> Episode {
    let mut link = Raw::connect(scene.agent(random), Role::Application, random)?;
    let job = job(random);
    for number in 0..100 {
        let mut said = attachment(job, mostly_below(4, random) as u32);
        said.ranks = mostly_below(64, random) as u32;
        said.bundle_bytes = mostly_below(1 << 12, random) as u32;
        said.grant.size = edge(random);
        let run = Run {
            number: edge(random),
            at: random.once_in(3).then(|| edge(random)),
            space: random.next() as u8,
            form: if random.once_in(2) { Form::Fragment } else { Form::Equal(edge(random) as u16 | 1) },
            ..run(said.rank.0, mostly_below(4, random) as u32, number, mostly_below(256, random) as u32)
        };
        let follow = if run.at.is_some() { Vec::new() } else { vec![1; (run.len as usize).min(2000)] };
        let (kind, payload) = match random.below(6) {
            0 | 1 => (ATTACH, said.encode().to_vec()),
            2 => (DETACH, Vec::new()),
            3 => (PING, Vec::new()),
            4 => (TAKEN, Vec::new()),
            _ => (RUN, [&run.encode()[..], &follow].concat()),
        };
        let head = FrameHead::new(kind).with_tag(edge(random) as u32);
        link.frame_patiently(head, &perhaps(payload, random))?;
        if random.once_in(4) {
            link.take();
        }
    }
    Ok(())
}

/// One rank sends to others that take nothing: what waits for them has to have an end, and others need parcels too.
pub(super) fn deaf_rank(scene: &Scene, random: &mut Random) -> Episode {
    let job = job(random);
    let mut deaf = Vec::new();
    for rank in 1..1 + random.below(40) as u32 {
        deaf.push(rank_of(scene, job, rank, random)?);
    }
    let mut sender = rank_of(scene, job, 0, random)?;
    let bytes = vec![3; random.below(1000) as usize];
    for number in 0..3000 {
        let rank = 1 + number as u32 % (deaf.len() as u32).max(1);
        let payload = [&run(0, rank, number, bytes.len() as u32).encode()[..], &bytes].concat();
        if !sender.frame(FrameHead::new(RUN), &payload)? {
            break;
        }
    }
    std::thread::park_timeout(Duration::from_millis(random.below(100)));
    Ok(())
}

fn agent(scene: &Scene, random: &mut Random) -> Result<Raw, Hung> {
    Raw::connect(scene.agent(random), Role::Agent, random)
}

fn announce(link: &mut Raw, job: JobKey, rank: u32, is_reachable: bool, hops: u8) -> Episode {
    let said = Announcement { job, rank: Rank(rank), is_reachable, hops };
    link.frame_patiently(FrameHead::new(ANNOUNCE), &said.encode())
}

/// An agent that claims to reach the last rank of as many jobs as there can be.
pub(super) fn announcements(scene: &Scene, random: &mut Random) -> Episode {
    let mut link = agent(scene, random)?;
    for number in 0..JOBS {
        let job = JobKey { job: JobId(number), roster: random.next() };
        let rank = if random.once_in(20) { edge(random) as u32 } else { LAST_RANK };
        announce(&mut link, job, rank, true, random.below(3) as u8)?;
        if random.once_in(64) {
            link.take();
        }
    }
    // So that all of it is looked at once more.
    let job = JobKey { job: JobId(1), roster: 0 };
    for _ in 0..20 {
        announce(&mut link, job, 0, random.once_in(2), 0)?;
        std::thread::park_timeout(Duration::from_millis(5));
    }
    Ok(())
}

/// A rank that takes nothing is told every time that another is reached, and is not.
pub(super) fn flapping(scene: &Scene, random: &mut Random) -> Episode {
    let job = job(random);
    let _deaf = rank_of(scene, job, 0, random)?;
    let mut link = agent(scene, random)?;
    for turn in 0..20_000 {
        announce(&mut link, job, 1 + (turn / 2) % 60, turn % 2 == 0, 0)?;
    }
    Ok(())
}

/// Parcels for a rank that takes nothing, more than the agent has said to have taken; and such with nonsense in them.
pub(super) fn parcels(scene: &Scene, random: &mut Random) -> Episode {
    let job = job(random);
    let _deaf = rank_of(scene, job, 0, random)?;
    let mut link = agent(scene, random)?;
    let is_wrong = random.once_in(2);
    for number in 0..1500 {
        let run = run(1, 0, number, 8000);
        let mut parcel = [&run.encode()[..], &[5; 8000]].concat();
        if is_wrong && random.once_in(10) {
            parcel = [parcel, some_bytes(64, random)].concat();
            let len = parcel.len();
            parcel[random.below(len as u64) as usize] ^= 0xff;
        }
        let at = (is_wrong && random.once_in(20)).then(|| edge(random));
        let len = if is_wrong && random.once_in(20) { edge(random) as u32 } else { parcel.len() as u32 };
        let head = ParcelHead { job, at, len };
        let payload = [&head.encode()[..], &parcel].concat();
        link.frame_patiently(FrameHead::new(PARCEL).with_tag(edge(random) as u32), &payload)?;
    }
    Ok(())
}
