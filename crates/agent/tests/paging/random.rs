//! Several applications at once, each with a region that it reads and writes at random, and one that all read: every
//! byte that is answered is the newest that was acknowledged. The cache is far too small.

use std::collections::HashMap;

use fastrand::Rng;
use outboard_link::{Link, RemoteMemory};
use outboard_settings::{ByteSize, ForwardingChoice};
use outboard_wire::RegionDescriptor;
use outboard_wire::paging::{CacheMode, PagingReply, PagingStatus};

use crate::support::{App, Cluster, attach, filled, settings};

const GRAIN: usize = 4096;
const GRAINS: usize = 300;
const STEPS: usize = 1500;

enum Waiting {
    Fetch { grain: usize, count: usize },
    Write { grain: usize, bytes: Vec<u8> },
}

/// One application and what it knows.
fn play<L: Link + RemoteMemory>(app: &mut App<L>, region: &RegionDescriptor, mut known: Vec<u8>, seed: u64) {
    let mut random = Rng::with_seed(seed);
    let mut waiting: HashMap<u32, Waiting> = HashMap::new();
    // Grains on their way are not asked for or written again.
    let mut busy = vec![false; GRAINS];
    let mut at = 0;
    for step in 0..STEPS {
        while waiting.len() < 24 && step < STEPS - 200 {
            // Runs with jumps, so that something is read ahead.
            at = if random.u8(..8) == 0 { random.usize(..GRAINS) } else { (at + 1) % GRAINS };
            let count = random.usize(1..=4).min(GRAINS - at);
            let is_free = busy[at..at + count].iter().all(|busy| !busy);
            if !is_free {
                break;
            }
            let offset = (at * GRAIN) as u64;
            if random.u8(..3) == 0 {
                let bytes = vec![random.u8(..); GRAIN];
                busy[at] = true;
                let tag = app.begin_write_back(region, offset, &bytes);
                waiting.insert(tag, Waiting::Write { grain: at, bytes });
            } else {
                busy[at..at + count].fill(true);
                let tag = app.begin_fetch(&region.grant, offset, (count * GRAIN) as u32);
                waiting.insert(tag, Waiting::Fetch { grain: at, count });
            }
        }
        if waiting.is_empty() {
            continue;
        }
        let (tag, reply, bytes) = app.reply();
        match (waiting.remove(&tag).expect("asked once"), reply) {
            (
                Waiting::Fetch { grain, count },
                PagingReply::Fetched { status: PagingStatus::Done, source, .. },
            ) => {
                busy[grain..grain + count].fill(false);
                let expected = &known[grain * GRAIN..(grain + count) * GRAIN];
                assert!(bytes == expected, "seed {seed}: grains {grain}+{count} from {source:?}");
            }
            (Waiting::Write { grain, bytes }, PagingReply::Written { status: PagingStatus::Done, .. }) => {
                busy[grain] = false;
                known[grain * GRAIN..(grain + 1) * GRAIN].copy_from_slice(&bytes);
            }
            (_, reply) => panic!("seed {seed}: {reply:?}"),
        }
    }
    while !waiting.is_empty() {
        waiting.remove(&app.reply().0);
    }
}

fn run(cluster: &Cluster, mode: CacheMode, seed: u64) {
    let mut keep = Vec::new();
    std::thread::scope(|scope| {
        for number in 0..3 {
            let (server, region, _, bytes) = filled(cluster, (GRAINS * GRAIN) as u64);
            let seed = seed * 10 + number;
            if number == 2 {
                let mut app = cluster.tcp_app();
                app.attach(attach(&region, mode));
                scope.spawn(move || play(&mut app, &region, bytes, seed));
            } else {
                let mut app = cluster.app();
                app.attach(attach(&region, mode));
                scope.spawn(move || play(&mut app, &region, bytes, seed));
            }
            // The region goes with the client that reserved it.
            keep.push(server);
        }
    });
}

#[test]
fn every_answer_is_the_newest_that_was_acknowledged() {
    let base = std::time::UNIX_EPOCH.elapsed().map_or(1, |since| since.as_secs());
    for (index, forwarding) in
        [ForwardingChoice::Serial, ForwardingChoice::Batched, ForwardingChoice::Pipelined]
            .into_iter()
            .enumerate()
    {
        let mut settings = settings();
        settings.agent.forwarding = forwarding;
        settings.agent.cache = ByteSize(6 << 16).into();
        settings.agent.cache_entry = ByteSize(1 << 16);
        let cluster = if index % 2 == 0 { Cluster::new(settings) } else { Cluster::over_tcp(settings) };
        for mode in [CacheMode::Dynamic, CacheMode::Auto, CacheMode::Static, CacheMode::Off] {
            run(&cluster, mode, base + index as u64);
        }
    }
}
