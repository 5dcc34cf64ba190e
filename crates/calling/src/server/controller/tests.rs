mod world;

use std::ops::Range;

use outboard_steering::Preference;
use outboard_wire::calling::Seen;
use proptest::prelude::*;

use super::*;
use world::{Demand, MS, Nature, Scatter, World};

const SECOND: Duration = Duration::from_secs(1);

fn nature(service_us: f64, latency_us: f64) -> Nature {
    Nature { service_ns: service_us * 1e3, scatter: Scatter::Exponential, latency_ns: latency_us * 1e3 }
}

/// The application takes no part, the agent is slower than the server. Either carries some 25,000 calls a second.
fn natures() -> [Nature; 3] {
    [nature(1e6, 0.0), nature(45.0, 200.0), nature(40.0, 40.0)]
}

fn world(seed: u64, demand: Demand) -> World {
    World::new(seed, demand, natures(), ControllerConfig::default())
}

/// A world in which the server has had calls for a while.
fn settled(seed: u64, per_second: f64) -> World {
    let mut world = world(seed, Demand::Open(per_second));
    world.run(2 * SECOND);
    assert_eq!((world.counts(), world.shifts.len()), ([0, 0, 256], 0));
    world
}

/// Competes for the server's core from now on, and says after how many milliseconds calls go elsewhere.
fn left_after(world: &mut World, (taken, of): (u64, u64)) -> Option<u64> {
    let start = world.now().as_nanos();
    world.compete(Site::Server, Some((start, taken, of)));
    let is_left = |world: &World| world.is_silent[2] || world.counts()[2] < 64;
    world.run_until(start + 100 * MS, is_left).map(|at| (at - start).div_ceil(MS))
}

/// Competes with calls that may write, and says after how many milliseconds slots are gone.
fn slots_left_after(world: &mut World, (taken, of): (u64, u64)) -> Option<u64> {
    let start = world.now().as_nanos();
    world.writes = true;
    world.compete(Site::Server, Some((start, taken, of)));
    world.run_until(start + 200 * MS, |world| world.counts()[2] < 64).map(|at| (at - start).div_ceil(MS))
}

#[test]
fn nothing_moves_under_steady_load() {
    let even = [1e6, 45.0, 40.0].map(|us| Nature { scatter: Scatter::Even(0.3), ..nature(us, 100.0) });
    for (seed, natures, per_second, seconds) in
        [(1, natures(), 17_500.0, 60), (2, natures(), 5_000.0, 20), (3, even, 17_500.0, 20)]
    {
        let mut world = World::new(seed, Demand::Open(per_second), natures, ControllerConfig::default());
        world.run(seconds * SECOND);
        assert_eq!(world.shifts, [], "{:#?}", world.controller.explain(world.now()));
    }
}

#[test]
fn a_site_whose_core_is_taken_is_left_within_ten_milliseconds() {
    for (seed, slices) in [(3, 6), (4, 8), (6, 12), (8, 10)].into_iter().enumerate() {
        for per_second in [2_000.0, 10_000.0, 17_500.0] {
            let mut world = settled(seed as u64, per_second);
            let after = left_after(&mut world, (slices.0 * MS, slices.1 * MS));
            assert!(after.is_some_and(|ms| ms <= 10), "{slices:?}, {per_second} a second: {after:?}");
        }
    }
}

#[test]
fn a_short_standstill_moves_nothing() {
    for seed in 0..5 {
        let mut world = settled(seed, 10_000.0);
        let start = world.now().as_nanos();
        world.compete(Site::Server, Some((start, 5 * MS / 2, 1000 * MS)));
        world.run(SECOND / 2);
        assert_eq!(world.shifts, [], "{:#?}", world.controller.explain(world.now()));
    }
}

#[test]
fn slots_return_to_a_site_that_is_idle_again_a_few_at_first() {
    for seed in 0..3 {
        let mut world = settled(seed, 10_000.0);
        assert!(slots_left_after(&mut world, (3 * MS, 6 * MS)).is_some());
        world.run(2 * SECOND);
        assert!(world.counts()[2] < 64, "it is not better yet: {:?}", world.counts());
        world.compete(Site::Server, None);
        let (start, before) = (world.now().as_nanos(), world.shifts.len());
        let back = world.run_until(start + 4000 * MS, |world| world.counts()[2] >= 250);
        assert!(back.is_some(), "{:#?}", world.controller.explain(world.now()));
        let first = world.shifts[before].1[2];
        assert!((1..=FIRST_SLOTS).contains(&first), "{:?}", &world.shifts[before..]);
    }
}

#[test]
fn a_site_that_fails_is_tried_ever_more_rarely() {
    for seed in 0..3 {
        let mut world = settled(seed, 10_000.0);
        assert!(slots_left_after(&mut world, (3 * MS, 6 * MS)).is_some());
        world.run(10 * SECOND);
        let ends = [2, 12].map(|second| second * 1000 * MS);
        assert!(shifts_within(&world, ends[0]..ends[1]) <= 16, "{:?}", world.shifts);
        assert!(world.counts()[2] < 64, "{:?}", world.counts());
    }
}

fn shifts_within(world: &World, span: Range<u64>) -> usize {
    world.shifts.iter().filter(|(at, _)| span.contains(at)).count()
}

#[test]
fn more_than_one_site_can_carry_is_divided() {
    for depth in [16, 64, 256] {
        let config = ControllerConfig { preference: Preference::Fixed(Site::Server), ..Default::default() };
        let mut alone = World::new(1, Demand::Closed(depth), natures(), config);
        alone.run(4 * SECOND);
        let mut world = world(1, Demand::Closed(depth));
        world.run(2 * SECOND);
        let (before, shifts) = (world.done, world.shifts.len());
        world.run(4 * SECOND);
        assert!(
            (world.done - before) * 10 > alone.done * 16,
            "{} against {}",
            world.done - before,
            alone.done
        );
        assert!(world.shifts.len() - shifts <= 2, "it settles: {:?}", world.shifts);
    }
}

#[test]
fn demand_that_grows_beyond_a_site_is_shared_at_once() {
    let mut world = settled(1, 10_000.0);
    world.demand(Demand::Open(40_000.0));
    let start = world.now().as_nanos();
    let shared = world.run_until(start + 100 * MS, |world| world.counts()[1] > 64);
    assert!(shared.is_some(), "{:#?}", world.controller.explain(world.now()));
    world.run(2 * SECOND);
    assert!(world.counts()[1] > 64 && world.counts()[2] > 64, "{:?}", world.counts());
}

#[test]
fn a_lost_site_is_left_at_once_and_not_used_again() {
    let mut world = world(1, Demand::Closed(64));
    world.run(2 * SECOND);
    assert!(world.counts()[1] > 64, "{:?}", world.counts());
    world.set_usable(Site::Agent, false);
    let start = world.now().as_nanos();
    let left = world.run_until(start + 10 * MS, |world| world.counts()[1] == 0);
    assert!(left.is_some_and(|at| at - start <= 2 * MS));
    assert_eq!(world.controller.shifts().next().map(|shift| shift.reason), Some(Reason::FormerExcluded));
    assert_eq!(world.run_until(start + 1000 * MS, |world| world.counts()[1] > 0), None);
    world.set_usable(Site::Agent, true);
    world.run(2 * SECOND);
    assert!(world.counts()[1] > 64, "it has come back: {:?}", world.counts());
}

#[test]
fn a_silent_site_is_left_in_time_and_not_moved_to() {
    let mut world = world(1, Demand::Open(40_000.0));
    world.run(2 * SECOND);
    assert!(world.counts()[1] > 64, "{:?}", world.counts());
    world.demand(Demand::Open(10_000.0));
    world.silence(Site::Agent, true);
    let start = world.now().as_nanos();
    let left = world.run_until(start + 100 * MS, |world| world.is_silent[1]);
    assert!(left.is_some_and(|at| at - start <= 3 * MS), "callers leave it by themselves");
    let moved = world.run_until(start + 100 * MS, |world| world.counts()[1] == 0);
    assert!(moved.is_some(), "{:#?}", world.controller.explain(world.now()));
    // The server is hindered now, but where no site answers it is worse.
    assert_eq!(slots_left_after(&mut world, (3 * MS, 6 * MS)), None);
}

#[test]
fn any_load_stays_within_the_budget_of_moves() {
    let ControllerConfig { shift_burst, shift_period, .. } = ControllerConfig::default();
    for seed in 0..12 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut world = world(seed, Demand::Open(10_000.0));
        for _ in 0..12 {
            match random.u8(..4) {
                0 => world.demand(Demand::Open(40_000.0 * random.f64() + 100.0)),
                1 => world.demand(Demand::Closed(random.usize(1..200))),
                _ => {
                    let of = random.u64(1..20) * MS;
                    let start = world.now().as_nanos();
                    let site = if random.bool() { Site::Agent } else { Site::Server };
                    world
                        .compete(site, random.bool().then(|| (start, (of as f64 * random.f64()) as u64, of)));
                }
            }
            world.run(Duration::from_millis(random.u64(1..300)));
        }
        for (index, (first, _)) in world.shifts.iter().enumerate() {
            for (more, (last, _)) in world.shifts[index..].iter().enumerate() {
                let periods = (last - first) as f64 / shift_period.as_nanos() as f64;
                let most = f64::from(shift_burst) + periods;
                assert!((more + 1) as f64 <= most + 1e-6, "seed {seed}: {:?}", world.shifts);
            }
        }
    }
}

#[test]
fn a_fixed_site_keeps_all_and_a_hinted_one_begins() {
    let config = |preference| ControllerConfig { preference, ..ControllerConfig::default() };
    let mut fixed = World::new(1, Demand::Closed(64), natures(), config(Preference::Fixed(Site::Agent)));
    fixed.run(SECOND);
    assert_eq!((fixed.counts(), fixed.shifts.len()), ([0, 256, 0], 0));
    let like = [nature(1e6, 0.0), nature(40.0, 50.0), nature(40.0, 40.0)];
    let mut hinted = World::new(1, Demand::Open(8_000.0), like, config(Preference::Hint(Site::Agent)));
    hinted.run(SECOND);
    assert_eq!((hinted.counts(), hinted.shifts.len()), ([0, 256, 0], 0), "it is about as good, and wanted");
}

#[test]
fn one_that_lies_among_others_moves_nothing() {
    let usable = Seen { is_usable: true, ..Seen::default() };
    let dear = Seen { calls: u32::MAX, round_trips_ns: u64::MAX, oldest_ns: u64::MAX, ..usable };
    let free = Seen { calls: u32::MAX, round_trips_ns: 1, ..usable };
    let gone = Seen { left: u32::MAX, left_ns: u64::MAX, ..Seen::default() };
    for lie in [[free, free, dear], [gone, dear, free], [Seen::default(), gone, gone], [free, dear, dear]] {
        let mut world = settled(1, 10_000.0);
        world.liar = Some(Observed { sites: lie });
        world.run(2 * SECOND);
        assert_eq!(world.shifts, [], "{:#?}", world.controller.explain(world.now()));
        // Nor can it keep slots where they are.
        assert!(slots_left_after(&mut world, (3 * MS, 6 * MS)).is_some(), "{lie:?}");
    }
}

#[test]
fn a_site_that_is_faster_than_others_while_it_runs_keeps_its_calls() {
    let natures = [nature(1e6, 0.0), nature(50.0, 20.0), nature(20.0, 20.0)];
    let mut world = World::new(1, Demand::Closed(8), natures, ControllerConfig::default());
    world.run(SECOND);
    let start = world.now().as_nanos();
    world.compete(Site::Server, Some((start, 8 * MS, 12 * MS)));
    let mut alone = World::new(
        1,
        Demand::Closed(8),
        natures,
        ControllerConfig { preference: Preference::Fixed(Site::Agent), ..Default::default() },
    );
    alone.run(SECOND);
    let before = [world.done, alone.done];
    world.run(SECOND);
    alone.run(SECOND);
    let done = [world.done - before[0], alone.done - before[1]];
    assert!(done[0] * 100 >= done[1] * 95, "{done:?}, {:#?}", world.controller.explain(world.now()));
}

#[test]
fn calls_that_take_no_time_at_all_are_known_to_be_cheap() {
    let mut controller = Controller::new(ControllerConfig::default(), Time::ZERO);
    let usable = Seen { is_usable: true, ..Seen::default() };
    let (here, server) =
        (Seen { calls: 1, ..usable }, Seen { calls: 100, round_trips_ns: 100 * MS, ..usable });
    for tick in 1..1000 {
        let now = Time::from_nanos(tick * MS);
        controller.on_observed(now, CallerNumber(0), &Observed { sites: [here, Seen::default(), server] });
        controller.on_time(now);
    }
    assert_eq!(
        controller.table().counts(),
        [256, 0, 0],
        "{:#?}",
        controller.explain(Time::from_nanos(1000 * MS))
    );
}

#[test]
fn every_move_is_explained() {
    let mut world = settled(1, 10_000.0);
    assert!(slots_left_after(&mut world, (3 * MS, 6 * MS)).is_some());
    let lines = world.controller.explain(world.now());
    assert!(lines[0].starts_with("slots: "), "{lines:#?}");
    assert!(lines.iter().any(|line| line.starts_with("calls at server: ") && line.contains("% busy")));
    let shift = lines.iter().find(|line| line.starts_with("epoch ")).unwrap();
    assert!(
        shift.contains("slots: agent for ") && shift.contains("moved from server because it is cheaper"),
        "{shift}"
    );
    assert!(shift.contains(" at server (margin 50 %)"), "{shift}");
}

#[test]
fn how_busy_a_site_is_does_not_depend_on_how_often_it_says_so() {
    for every in [1, 2, 10] {
        let mut record = Record::new(true);
        for tick in 1..=200u64 {
            if tick % every == 0 {
                // Two workers say each for itself that they were busy for half of the time.
                let (span_ns, busy_ns) = (every * MS, every * MS / 2);
                let load = SiteLoad { span_ns, workers: 1, calls: 100, busy_ns, ..SiteLoad::default() };
                (0..2).for_each(|_| record.on_load(&load));
            }
            let now = Time::from_nanos(tick * MS);
            record.look(now, Duration::from_millis(1), None, SECOND);
        }
        let work = record.work.unwrap();
        assert!((work.busy - 0.5).abs() < 0.01, "every {every} ms: {work:?}");
        assert!((work.workers - 2.0).abs() < 0.5, "every {every} ms: {work:?}");
        let later = Time::from_nanos(300 * MS);
        record.look(later, Duration::from_millis(100), None, SECOND);
        assert_eq!(record.work.unwrap().busy, 0.0, "nothing was heard");
    }
}

#[test]
fn without_calls_there_is_nothing_to_do() {
    let mut controller = Controller::new(ControllerConfig::default(), Time::ZERO);
    assert_eq!(controller.next_deadline(), None);
    let at = |ms| Time::ZERO + Duration::from_millis(ms);
    controller.on_observed(at(500), CallerNumber(0), &Observed::default());
    assert_eq!(controller.next_deadline(), Some(at(501)));
    (501..700).for_each(|ms| assert!(!controller.on_time(at(ms))));
    assert_eq!(controller.next_deadline(), None);
}

proptest! {
    #[test]
    fn no_report_upsets_it(
        reports in proptest::collection::vec((any::<[u64; 5]>(), any::<[u32; 2]>(), any::<[bool; 3]>(), 0..3usize), 1..80),
    ) {
        let mut controller = Controller::new(ControllerConfig::default(), Time::ZERO);
        let mut now = Time::ZERO;
        for (words, counts, flags, site) in reports {
            let [span_ns, queueing_ns, busy_ns, service_ns, oldest_ns] = words;
            let [workers, calls] = counts;
            let load = SiteLoad { span_ns, workers, calls, queueing_ns, busy_ns, service_ns, oldest_ns };
            controller.on_load(now, Site::ALL[site], &load);
            let (left, left_ns) = (workers, service_ns);
            let seen = |is_usable| {
                Seen { is_usable, calls, round_trips_ns: busy_ns, oldest_ns: span_ns, left, left_ns }
            };
            let caller = CallerNumber(queueing_ns % 3);
            controller.on_observed(now, caller, &Observed { sites: flags.map(seen) });
            if flags == [false; 3] {
                controller.forget_caller(caller);
            }
            now += Duration::from_nanos(words[0] % 10_000_000);
            controller.on_time(now);
            prop_assert_eq!(controller.table().counts().iter().sum::<usize>(), SLOTS);
            prop_assert!(controller.explain(now).len() <= 4 + SHIFTS_MAX);
        }
    }
}
