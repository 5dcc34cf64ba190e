//! Faults happen as planned, and the same seed gives the same trace.

use std::sync::Arc;
use std::time::Duration;

use outboard_wire::{FrameHead, FrameKind, Generation, RegionId, RegionKey, Rights, Role, Room, Time};

use super::{FaultCounts, FaultPlan, LoopbackConfig, LoopbackLink, Network};
use crate::StreamConfig;
use crate::memory::{Buffer, Segment};
use crate::{
    AccessOutcome, Disposition, Export, Exports, Identity, Link, LinkError, OpenRegion, RemoteMemory, Token,
    Waiter,
};

const NOTE: FrameHead = FrameHead::new(FrameKind::new(Room::Trial, 1));

/// A network, a link on it, and a record of what happened when.
struct World {
    network: Network,
    ends: [LoopbackLink; 2],
    grant: outboard_wire::Grant,
    region: Option<OpenRegion>,
    into: Buffer,
    now: Time,
    trace: Vec<(Time, usize, String)>,
}

impl World {
    fn new(seed: u64, plan: FaultPlan) -> Self {
        let config = LoopbackConfig {
            stream: StreamConfig { buffer_bytes: 1 << 16, ..StreamConfig::default() },
            ..LoopbackConfig::default()
        };
        let network = Network::with_config(seed, plan, config);
        let export = Export {
            region: RegionId(1),
            generation: Generation(1),
            memory: Arc::new(Segment::create(c"test", 1 << 16).unwrap()),
            keys: vec![(RegionKey([1; 16]), Rights::ALL)],
        };
        let grant = export.grant(0).unwrap();
        let exports = Exports::new();
        exports.add(export);
        let [first, second] = ["first", "second"].map(|name| Identity::new(Role::Tool, name));
        let (first, second) = network.connect(first, Exports::new(), second, exports).unwrap();
        let into = Buffer::allocate(1 << 16).unwrap();
        let (ends, trace) = ([first, second], Vec::new());
        Self { network, ends, grant, region: None, into, now: Time::ZERO, trace }
    }

    /// One turn of everything, then a jump to the next event.
    fn turn(&mut self, number: u64) -> Result<(), LinkError> {
        self.use_memory(number);
        for side in 0..2 {
            let link = &mut self.ends[side];
            let _ =
                link.send(NOTE.with_tag(number as u32), &vec![number as u8; (number as usize * 31) % 3000]);
            link.flush()?;
            link.progress(self.now)?;
            let trace = &mut self.trace;
            let now = self.now;
            link.receive(100, |frame| {
                trace.push((now, side, format!("{} {}", frame.head.tag, frame.payload.len())));
                Disposition::Taken
            })?;
        }
        let (trace, region, now) = (&mut self.trace, &mut self.region, self.now);
        self.ends[0].completions(|completion| {
            trace.push((now, 0, format!("{completion:?}")));
            if let Ok(AccessOutcome::Opened(opened)) = completion.result {
                *region = Some(opened);
            }
        });
        let due = [self.network.next_event(), self.ends[0].next_deadline(), self.ends[1].next_deadline()];
        let next = due.into_iter().flatten().filter(|due| *due > now).min();
        self.now = next.unwrap_or(now).min(now + Duration::from_millis(10));
        Ok(())
    }

    fn use_memory(&mut self, number: u64) {
        let link = &mut self.ends[0];
        let _ = match self.region {
            None if number == 0 => link.open(&self.grant, Rights::ALL, Token(0)),
            None => Ok(()),
            Some(region) if number.is_multiple_of(2) => link.fetch_add(region, 8, 1, Token(number)),
            Some(region) => link.read(region, 16, &self.into, 0, 1000, Token(number)),
        };
    }

    /// Runs for up to `turns` turns and says how it ended.
    fn run(mut self, turns: u64) -> (Vec<(Time, usize, String)>, FaultCounts, Option<String>) {
        for number in 0..turns {
            if let Err(lost) = self.turn(number) {
                return (self.trace, self.network.faults(), Some(format!("{:?}", lost.loss)));
            }
        }
        (self.trace, self.network.faults(), None)
    }
}

fn delays() -> FaultPlan {
    FaultPlan::delayed(Duration::from_micros(10), Duration::from_millis(3))
}

#[test]
fn without_faults_nothing_is_lost_or_late() {
    let (trace, faults, lost) = World::new(1, FaultPlan::none()).run(500);
    assert_eq!((faults, lost), (FaultCounts::default(), None));
    assert!(trace.len() > 1400, "{} events", trace.len());
}

#[test]
fn one_seed_gives_one_trace_and_another_gives_another() {
    let plan = FaultPlan { tear: 0.3, drop: 0.001, ..delays() };
    let traces = [7, 7, 8].map(|seed| World::new(seed, plan.clone()).run(400));
    assert_eq!(traces[0], traces[1]);
    assert_ne!(traces[0].0, traces[2].0);
}

#[test]
fn each_fault_happens_and_ends_cleanly() {
    let none = FaultPlan::none();
    type Count = fn(&FaultCounts) -> u64;
    let plans: [(FaultPlan, Count); 6] = [
        (delays(), |faults| faults.delayed),
        (FaultPlan { duplicate: 0.05, ..none.clone() }, |faults| faults.duplicated),
        (FaultPlan { drop: 0.05, ..none.clone() }, |faults| faults.dropped),
        (FaultPlan { truncate: 0.05, ..none.clone() }, |faults| faults.truncated),
        (FaultPlan { close: 0.02, ..none.clone() }, |faults| faults.closed),
        (FaultPlan { tear: 0.5, ..none.clone() }, |faults| faults.torn),
    ];
    for (plan, count) in plans {
        let mut seen = 0;
        for seed in 0..20 {
            let (_, faults, lost) = World::new(seed, plan.clone()).run(2000);
            seen += count(&faults);
            let harmless = plan.drop + plan.duplicate + plan.truncate + plan.close == 0.0;
            assert!(!(harmless && lost.is_some()), "seed {seed}, {plan:?}: {lost:?}");
            let fatal = plan.truncate + plan.close > 0.0;
            assert!(!fatal || lost.is_some() || count(&faults) == 0, "seed {seed}, {plan:?} went unnoticed");
        }
        assert!(seen > 10, "{plan:?} happened {seen} times");
    }
}

#[test]
fn everything_at_once_never_panics_or_hangs() {
    let plan =
        FaultPlan { duplicate: 0.01, drop: 0.01, truncate: 0.005, close: 0.005, tear: 0.2, ..delays() };
    for seed in 0..200 {
        let (_, _, lost) = World::new(seed, plan.clone()).run(20_000);
        assert!(lost.is_some(), "seed {seed} survived");
    }
}

#[test]
fn links_overtake_each_other_but_not_themselves() {
    let network = Network::new(3, delays());
    let mut links: Vec<_> = (0..8)
        .map(|number| {
            let identity = || Identity::new(Role::Tool, format!("{number}"));
            network.connect(identity(), Exports::new(), identity(), Exports::new()).unwrap()
        })
        .collect();
    let mut arrived = Vec::new();
    for (index, (first, second)) in links.iter_mut().enumerate() {
        second.progress(Time::ZERO).unwrap();
        for number in 0..3 {
            first.send(NOTE.with_tag((index * 10 + number) as u32), b"").unwrap();
        }
        first.flush().unwrap();
    }
    while arrived.len() < 24 {
        let now = network.next_event().map_or(network.now(), |event| event.max(network.now()));
        for (_, second) in &mut links {
            second.progress(now).unwrap();
            second
                .receive(9, |frame| {
                    arrived.push(frame.head.tag);
                    Disposition::Taken
                })
                .unwrap();
        }
    }
    for index in 0..8 {
        let own: Vec<_> = arrived.iter().filter(|tag| *tag / 10 == index).map(|tag| tag % 10).collect();
        assert_eq!(own, [0, 1, 2]);
    }
    assert!(!arrived.is_sorted(), "{arrived:?}");
}

#[test]
fn a_sleeping_thread_is_woken_by_an_arrival() {
    let network = Network::new(1, FaultPlan::none());
    let identity = |name| Identity::new(Role::Tool, name);
    let (mut first, mut second) =
        network.connect(identity("a"), Exports::new(), identity("b"), Exports::new()).unwrap();
    const ROUNDS: u64 = 200;
    let echo = std::thread::spawn(move || {
        let waiter = Waiter::new();
        for _ in 0..ROUNDS {
            let limit = Duration::from_secs(20);
            let take =
                |link: &mut LoopbackLink| Ok((link.receive(1, |_| Disposition::Taken)? == 1).then_some(()));
            waiter.until(&mut second, limit, "a frame", take).unwrap();
            second.send(NOTE, b"back").unwrap();
            second.flush().unwrap();
        }
    });
    let waiter = Waiter::new();
    for _ in 0..ROUNDS {
        first.send(NOTE, b"there").unwrap();
        first.flush().unwrap();
        let take =
            |link: &mut LoopbackLink| Ok((link.receive(1, |_| Disposition::Taken)? == 1).then_some(()));
        waiter.until(&mut first, Duration::from_secs(20), "an echo", take).unwrap();
    }
    // Heartbeats come every 500 ms: a side that slept until then would have taken minutes.
    assert!(waiter.clock.now() < Time::ZERO + Duration::from_secs(15));
    echo.join().unwrap();
}
