use super::*;

/// A target that has the translations of some pages at hand: those written most recently.
struct World {
    policy: Policy,
    now: Time,
    random: fastrand::Rng,
    at_hand: std::collections::VecDeque<u64>,
    /// What a write takes: by the ring, at hand, and not at hand.
    costs: [u64; 3],
}

const ENTRIES: usize = 512;

impl World {
    fn new(costs: [u64; 3]) -> Self {
        let (policy, random) = (Policy::adaptive(Time::ZERO), fastrand::Rng::with_seed(9));
        Self { policy, now: Time::ZERO, random, at_hand: Default::default(), costs }
    }

    fn write(&mut self, page: u64, hint: Hint) -> WritePath {
        self.write_bytes(64, page, hint)
    }

    fn write_bytes(&mut self, len: u64, page: u64, hint: Hint) -> WritePath {
        let span = WriteSpan { slot: 0, offset: page << PAGE_LOG2, len };
        let (path, lesson) = self.policy.choose(&span, hint);
        let found = self.at_hand.iter().position(|held| *held == page);
        let [unload, warm, cold] = self.costs;
        let took = match (path, found) {
            (WritePath::Unload, _) => unload,
            (WritePath::Offload, Some(_)) => warm,
            (WritePath::Offload, None) => cold,
        };
        if path == WritePath::Offload {
            found.map(|at| self.at_hand.remove(at));
            self.at_hand.push_front(page);
            self.at_hand.truncate(ENTRIES);
        }
        self.now += Duration::from_nanos(took / 4);
        self.policy.learn(self.now, lesson, Duration::from_nanos(took));
        path
    }

    /// The share of writes to hot pages from `hot`, and of those to cold ones, that are offloaded.
    fn mixed(&mut self, writes: u32, hot: u64) -> [f64; 2] {
        let mut counts = [[0.0; 2]; 2];
        for _ in 0..writes {
            let is_cold = self.random.bool();
            let page = if is_cold { self.random.u64(1 << 20..1 << 40) } else { hot + self.random.u64(..256) };
            let path = self.write(page, Hint::None);
            counts[usize::from(is_cold)][usize::from(path == WritePath::Offload)] += 1.0;
        }
        counts.map(|[unloaded, offloaded]| offloaded / (offloaded + unloaded))
    }
}

const USUAL: [u64; 3] = [1900, 1600, 3200];

#[test]
fn hot_pages_are_offloaded_and_cold_ones_unloaded() {
    let mut world = World::new(USUAL);
    world.mixed(20_000, 0);
    let [hot, cold] = world.mixed(20_000, 0);
    assert!(hot > 0.97 && cold < 0.02, "{hot} {cold}");
    let said = world.policy.explain(world.now).to_string();
    assert!(said.contains("cold writes, up to 256 B: unload") && said.contains("1.9 µs against"), "{said}");
}

#[test]
fn another_hot_set_is_known_within_4096_writes() {
    let mut world = World::new(USUAL);
    world.mixed(60_000, 0);
    world.mixed(4096, 5000);
    let [hot, cold] = world.mixed(4096, 5000);
    assert!(hot > 0.97 && cold < 0.02, "{hot} {cold}");
}

#[test]
fn cold_pages_take_the_other_path_within_8192_writes_when_that_becomes_cheaper() {
    let mut world = World::new([1900, 1600, 1700]);
    world.mixed(60_000, 0);
    let [_, cold] = world.mixed(20_000, 0);
    assert!(cold > 0.97, "{cold}");
    world.costs = USUAL;
    world.mixed(8192, 0);
    let [hot, cold] = world.mixed(8192, 0);
    assert!(hot > 0.95 && cold < 0.05, "{hot} {cold}");
}

#[test]
fn where_misses_cost_no_more_than_the_ring_everything_is_offloaded() {
    let mut world = World::new([1900, 1600, 1850]);
    world.mixed(20_000, 0);
    let [hot, cold] = world.mixed(20_000, 0);
    assert!(hot > 0.98 && cold > 0.98, "{hot} {cold}");
}

#[test]
fn hints_are_believed() {
    let mut world = World::new(USUAL);
    world.mixed(40_000, 0);
    assert!((0..500).all(|page| world.write((1 << 50) + page, Hint::Hot) == WritePath::Offload));
    assert!((0..500).all(|page| world.write((1 << 50) + page, Hint::Streaming) == WritePath::Offload));
    let unloaded = (0..500).filter(|_| world.write(3, Hint::Cold) == WritePath::Unload).count();
    assert!(unloaded > 480, "{unloaded}");
}

#[test]
fn where_offloading_is_a_copy_few_writes_are_looked_at() {
    let mut world = World::new([5000, 60, 90]);
    world.mixed(100_000, 0);
    assert_eq!(world.policy.explain(world.now).looks_one_in, 512);
    let [hot, cold] = world.mixed(100_000, 0);
    assert!(hot > 0.9999 && cold > 0.9999, "{hot} {cold}");
}

#[test]
fn that_offloading_is_no_copy_any_more_is_known_within_20480_writes() {
    // Checks are 8192 writes apart, so that the shift comes at all times between two of them.
    for shift_after in (0..8).map(|eighth| 12_000 + 1024 * eighth) {
        let mut world = World::new([5000, 60, 90]);
        world.mixed(shift_after, 0);
        assert_eq!(world.policy.explain(world.now).looks_one_in, 512);
        world.costs = USUAL;
        world.mixed(20_480, 0);
        assert_eq!(world.policy.explain(world.now).looks_one_in, 1, "a shift after {shift_after}");
    }
}

#[test]
fn cold_pages_are_unloaded_once_that_was_measured_when_offloading_is_no_copy_any_more() {
    let mut world = World::new([5000, 60, 90]);
    world.mixed(40_000, 0);
    world.costs = USUAL;
    world.mixed(20_480, 0);
    let measured_by = world.now + STEERING.explore_after;
    while world.now < measured_by {
        world.mixed(1024, 0);
    }
    world.mixed(8192, 0);
    let [hot, cold] = world.mixed(8192, 0);
    assert!(hot > 0.95 && cold < 0.05, "{hot} {cold}");
}

#[test]
fn sizes_that_are_not_written_any_more_have_no_say_after_8192_writes() {
    let mut world = World::new([30_000, 2000, 4000]);
    for _ in 0..20_000 {
        let page = world.random.u64(..1000);
        world.write_bytes(16 << 10, page, Hint::None);
    }
    let explained = world.policy.explain(world.now);
    assert!(explained.looks_one_in == 1 && explained.sizes[2].cost.is_some(), "{explained}");
    world.costs = [5000, 60, 90];
    world.mixed(8192, 0);
    assert_eq!(world.policy.explain(world.now).looks_one_in, 512);
    // And as soon as they are written again and slow, everything is looked at.
    world.costs = [30_000, 2000, 4000];
    for page in 0..20_480 {
        world.write_bytes(16 << 10, page, Hint::None);
    }
    assert_eq!(world.policy.explain(world.now).looks_one_in, 1);
}
