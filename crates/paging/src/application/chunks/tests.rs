use std::collections::{HashMap, HashSet};

use proptest::prelude::*;

use super::*;

mod samples;
mod sizes;

const CLASS: SizeClass = SizeClass(16);
const CHUNK: usize = CLASS.bytes();

fn key(index: u32) -> ChunkKey {
    ChunkKey::new(0, index)
}

/// Drives a shard as a caller does whose fetches and saves end at once.
struct Prompt {
    shard: Shard,
    written: HashSet<u32>,
    /// The cost of replacement.
    fetches: u64,
    rescues: u64,
}

impl Prompt {
    fn new(seats: usize) -> Self {
        let mut shard = Shard::new(seats * CHUNK);
        shard.prepare(CLASS);
        Self { shard, written: HashSet::new(), fetches: 0, rescues: 0 }
    }

    fn move_out(&mut self, seat: SeatId) {
        let index = self.shard.key(seat).index;
        self.shard.left(seat, self.written.remove(&index));
        while let Some(seat) = self.shard.save_next(|_| true) {
            assert!(!self.shard.sent(seat));
            self.shard.saved(seat);
        }
    }

    fn touch(&mut self, index: u32, access: Access) {
        if !matches!(self.shard.state(key(index)), State::Resident) {
            loop {
                match self.shard.fault(key(index), CLASS, access) {
                    Answer::Fetch(seat) => {
                        self.fetches += 1;
                        assert_eq!(self.shard.filled(seat, true), ArrivalStep::MoveIn);
                        self.shard.arrived(seat);
                        break;
                    }
                    Answer::Rescue(seat) => {
                        self.rescues += 1;
                        self.shard.rescued(seat);
                        break;
                    }
                    Answer::MakeRoom => {
                        let oldest = self.shard.oldest().unwrap();
                        self.move_out(oldest);
                    }
                    answer => panic!("{answer:?}"),
                }
            }
        }
        if access == Access::Write {
            self.written.insert(index);
        }
        while self.shard.wants_room()
            && let Some(next) = self.shard.next_to_leave()
        {
            self.move_out(next);
        }
    }
}

/// A skewed choice: low numbers more often, by the inverse of their rank.
fn zipf(random: &mut fastrand::Rng, count: u32) -> u32 {
    let exponent = f64::from(count).ln() * random.f64();
    (exponent.exp() as u32).min(count - 1)
}

/// Fetches of plain first-in-first-out with as many seats.
fn fifo(trace: &[u32], seats: usize) -> u64 {
    let (mut queue, mut here, mut fetches) = (std::collections::VecDeque::new(), HashSet::new(), 0);
    for &index in trace {
        if here.insert(index) {
            fetches += 1;
            queue.push_back(index);
            if queue.len() > seats {
                here.remove(&queue.pop_front().unwrap());
            }
        }
    }
    fetches
}

#[test]
fn replacement_by_recency_beats_first_in_first_out() {
    let mut random = fastrand::Rng::with_seed(7);
    let trace: Vec<u32> = (0..200_000).map(|_| zipf(&mut random, 3000)).collect();
    let mut prompt = Prompt::new(1000);
    for &index in &trace {
        prompt.touch(index, Access::Read);
    }
    let plain = fifo(&trace, 1000);
    println!("fetches: {} by recency, {plain} by age; {} rescues", prompt.fetches, prompt.rescues);
    assert!(prompt.fetches * 100 < plain * 93, "{} fetches, first in first out {plain}", prompt.fetches);
}

#[test]
fn scans_of_more_than_fits_find_what_there_is_room_for() {
    let mut prompt = Prompt::new(100);
    (0..300).for_each(|index| prompt.touch(index, Access::Read));
    assert_eq!((prompt.fetches, prompt.rescues), (300, 0));
    for round in 1..5 {
        let (fetches, rescues) = (prompt.fetches, prompt.rescues);
        (0..300).for_each(|index| prompt.touch(index, Access::Read));
        // A pager that knew the future could not do with less than 200.
        let (fetches, rescues) = (prompt.fetches - fetches, prompt.rescues - rescues);
        assert!(fetches <= 210 && rescues <= 20, "round {round}: {fetches} fetches, {rescues} rescues");
    }
}

#[test]
fn a_stream_does_not_push_out_what_is_used() {
    let mut prompt = Prompt::new(100);
    let mut random = fastrand::Rng::with_seed(5);
    let mut trace: Vec<u32> = (0..10_000).map(|_| random.u32(..60)).collect();
    for chunk in 1000..3000 {
        trace.push(chunk);
        trace.extend((0..5).map(|_| random.u32(..60)));
    }
    trace.iter().for_each(|&index| prompt.touch(index, Access::Read));
    let (again, by_age) = (prompt.fetches - 2060, fifo(&trace, 100) - 2060);
    println!("{again} of what is used was fetched again, first in first out {by_age}");
    assert!(again * 5 < by_age, "{again} of what is used was fetched again, first in first out {by_age}");
}

#[test]
fn other_chunks_are_kept_when_others_are_used() {
    let mut prompt = Prompt::new(100);
    let mut random = fastrand::Rng::with_seed(5);
    for phase in 0..10 {
        let fetches = prompt.fetches;
        (0..5000).for_each(|_| prompt.touch(phase * 1000 + random.u32(..80), Access::Read));
        let fetches = prompt.fetches - fetches;
        assert!(fetches < 300, "phase {phase}: {fetches} fetches of 80 chunks");
    }
}

#[test]
fn what_fits_is_never_moved_out() {
    let mut prompt = Prompt::new(64);
    for round in 0..5 {
        for index in 0..62 {
            prompt.touch(index, Access::Write);
        }
        assert_eq!((prompt.fetches, prompt.rescues), (62, 0), "round {round}");
    }
    assert_eq!(prompt.shard.counts().saved, 0);
}

/// Those that were moved out for the last ones come back once.
#[test]
fn what_just_fits_is_moved_out_no_more_once_all_is_here() {
    let mut prompt = Prompt::new(64);
    (0..64).for_each(|index| prompt.touch(index, Access::Write));
    (0..64).for_each(|index| prompt.touch(index, Access::Write));
    let (rescues, saved) = (prompt.rescues, prompt.shard.counts().saved);
    assert!(rescues <= 4 && saved <= 4, "{rescues} came back, {saved} were saved");
    for _ in 0..5 {
        (0..64).for_each(|index| prompt.touch(index, Access::Write));
    }
    assert_eq!((prompt.fetches, prompt.rescues, prompt.shard.counts().saved), (64, rescues, saved));
}

#[test]
fn what_is_a_little_too_large_costs_a_little() {
    let mut prompt = Prompt::new(900);
    let mut random = fastrand::Rng::with_seed(3);
    (0..20_000).for_each(|_| prompt.touch(random.u32(..1000), Access::Read));
    let (fetches, rescues) = (prompt.fetches, prompt.rescues);
    (0..100_000).for_each(|_| prompt.touch(random.u32(..1000), Access::Read));
    let (fetches, rescues) = (prompt.fetches - fetches, prompt.rescues - rescues);
    println!("{fetches} fetches, {rescues} rescues of 100000");
    assert!((9_000..11_500).contains(&fetches) && rescues < 5_000, "{fetches} fetches, {rescues} rescues");
}

/// Fetches chunks as the shard of a pool, moving out what has to leave. Returns false if it has to wait for others.
fn fill(shard: &mut Shard, indices: std::ops::Range<u32>) -> bool {
    for index in indices {
        loop {
            match shard.fault(key(index), CLASS, Access::Read) {
                Answer::Fetch(seat) => {
                    shard.filled(seat, false);
                    shard.arrived(seat);
                }
                Answer::Here => break,
                Answer::Rescue(seat) => shard.rescued(seat),
                Answer::MakeRoom => {
                    let seat = shard.oldest().expect("something can be moved out");
                    shard.left(seat, false);
                }
                Answer::Parked => return false,
                Answer::Joined => unreachable!("all that is fetched arrives"),
            }
        }
    }
    true
}

#[test]
fn a_shard_has_what_others_do_not_need_and_gives_it_back() {
    let pool = std::sync::Arc::new(Pool::new(40 * CHUNK, 40 * CHUNK, 4));
    let mut shards = [0, 1, 2, 3].map(|_| Shard::of(std::sync::Arc::clone(&pool)));
    // Ten more than its share: nothing has to leave.
    assert!(fill(&mut shards[0], 0..20));
    assert_eq!((shards[0].residents(), shards[0].counts().evicted), (20, 0));
    assert!(fill(&mut shards[1], 0..10) && fill(&mut shards[2], 0..9));
    // One is left for a shard that needs several at once: it waits, and the first gives back what it has borrowed.
    assert!(!fill(&mut shards[3], 0..10));
    shards[3].settle();
    let mut turns = 0;
    while !fill(&mut shards[3], 0..10) {
        shards[3].settle();
        while shards[3].unpark().is_some() {}
        if !shards[0].give_back() && shards[0].wants_room() {
            let seat = shards[0].oldest().unwrap();
            shards[0].left(seat, false);
        }
        turns += 1;
        assert!(turns < 100, "it never got its share");
    }
    assert_eq!(shards.each_ref().map(|shard| shard.used() / CHUNK).iter().sum::<usize>(), 40);
    assert!(shards[3].used() >= 4 * CHUNK && shards[0].used() >= 10 * CHUNK);
    assert_eq!((shards[1].used(), shards[2].used()), (10 * CHUNK, 9 * CHUNK));
}

#[test]
fn sizes_share_one_budget() {
    let mut shard = Shard::new(16 * CHUNK);
    let (large, small) = (SizeClass(16), SizeClass(12));
    let fill = |shard: &mut Shard, region, index, class: SizeClass| loop {
        match shard.fault(ChunkKey::new(region, index), class, Access::Read) {
            Answer::Fetch(seat) => {
                shard.filled(seat, false);
                shard.arrived(seat);
                break;
            }
            Answer::MakeRoom => {
                let seat = shard.oldest().unwrap();
                shard.left(seat, false);
            }
            answer => panic!("{answer:?}"),
        }
    };
    for index in 0..20 {
        fill(&mut shard, 0, index, large);
    }
    for index in 0..400 {
        fill(&mut shard, 1, index, small);
        assert!(shard.used() <= 16 * CHUNK);
    }
    let discarded: Vec<_> = std::iter::from_fn(|| shard.discarded()).collect();
    assert!(!discarded.is_empty() && discarded.iter().all(|frame| frame.class == large));
    for index in 0..20 {
        fill(&mut shard, 0, index, large);
        assert!(shard.used() <= 16 * CHUNK);
    }
}

#[test]
fn a_frame_that_was_given_back_is_used_before_another_is_made() {
    let mut shard = Shard::new(4 * CHUNK);
    let small = SizeClass(14);
    let fetch = |shard: &mut Shard, index| match shard.fault(ChunkKey::new(1, index), small, Access::Read) {
        Answer::Fetch(seat) => seat,
        answer => panic!("{answer:?}"),
    };
    let seats: Vec<SeatId> = (0..16).map(|index| fetch(&mut shard, index)).collect();
    shard.failed(seats[15]);
    // It gives a small frame back and finds that this is not enough.
    assert_eq!(shard.fault(key(0), CLASS, Access::Read), Answer::Parked);
    let seat = fetch(&mut shard, 16);
    assert!(shard.frame(seat).slot < 16, "{:?} is the seventeenth of sixteen", shard.frame(seat));
}

/// The caller of a shard, with everything that takes time taking it.
#[derive(Default)]
struct Slow {
    fetching: Vec<SeatId>,
    sending: Vec<SeatId>,
    saving: Vec<(SeatId, u64)>,
    /// The values that the application wrote, those that the region and the seats hold, and those of the server.
    newest: HashMap<u32, u64>,
    local: HashMap<u32, u64>,
    server: HashMap<u32, u64>,
    clock: u64,
    waiting: HashSet<u32>,
    held: Vec<u32>,
    /// The chunks that were ever sent to the server; the rest is known to be zero there.
    sent: HashSet<u32>,
    /// The values that had been written when a flush began that has not ended.
    flushed: Option<HashMap<u32, u64>>,
}

#[derive(Clone, Copy, Debug)]
enum Act {
    Touch(u32, bool),
    Ahead(u32),
    Arrive(usize, bool),
    Fail(usize),
    MoveOut,
    Stuck,
    Save,
    Sent(usize),
    Saved(usize),
    SaveFail(usize),
    Unpark,
    Flush,
    SendHome,
    Hold(u32),
    Release,
    Discard(u32),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => (0..24u32, any::<bool>()).prop_map(|(index, write)| Act::Touch(index, write)),
        1 => (0..24u32).prop_map(Act::Ahead),
        5 => (any::<usize>(), any::<bool>()).prop_map(|(which, stay)| Act::Arrive(which, stay)),
        1 => any::<usize>().prop_map(Act::Fail),
        3 => Just(Act::MoveOut),
        1 => Just(Act::Stuck),
        3 => Just(Act::Save),
        3 => any::<usize>().prop_map(Act::Sent),
        3 => any::<usize>().prop_map(Act::Saved),
        1 => any::<usize>().prop_map(Act::SaveFail),
        2 => Just(Act::Unpark),
        1 => Just(Act::Flush),
        2 => Just(Act::SendHome),
        1 => (0..24u32).prop_map(Act::Hold),
        1 => Just(Act::Release),
        1 => (0..24u32).prop_map(Act::Discard),
    ]
}

impl Slow {
    fn store(&mut self, index: u32) {
        self.clock += 1;
        self.newest.insert(index, self.clock);
        self.local.insert(index, self.clock);
    }

    fn touch(&mut self, shard: &mut Shard, index: u32, write: bool) {
        let access = if write { Access::Write } else { Access::Read };
        if !matches!(shard.state(key(index)), State::Resident | State::Returned) {
            match shard.fault(key(index), CLASS, access) {
                Answer::Rescue(seat) => shard.rescued(seat),
                Answer::Fetch(seat) if !self.sent.contains(&index) => {
                    self.local.remove(&index);
                    assert_eq!(shard.blanked(seat, false), ArrivalStep::MoveIn);
                    shard.came_blank(seat);
                }
                Answer::Fetch(seat) => self.fetching.push(seat),
                Answer::Joined | Answer::Parked | Answer::MakeRoom => {}
                Answer::Here => panic!("it was not there"),
            }
        }
        if matches!(shard.state(key(index)), State::Resident | State::Returned) {
            assert_eq!(self.local.get(&index), self.newest.get(&index), "chunk {index} is old");
            if write {
                self.store(index);
            }
        }
    }

    fn leave(&self, shard: &mut Shard, seat: SeatId) {
        let index = shard.key(seat).index;
        assert!(!self.held.contains(&index), "it is held");
        shard.left(seat, self.local.get(&index) != self.server.get(&index));
    }

    /// A flush has ended when nothing is owed; then the server must have all that was written before it began.
    fn end_flush(&mut self, shard: &Shard) {
        if shard.owed(0) == 0
            && let Some(flushed) = self.flushed.take()
        {
            for (index, version) in flushed {
                assert!(self.server.get(&index) >= Some(&version), "chunk {index} was not flushed");
            }
        }
    }

    fn discard(&mut self, shard: &mut Shard, index: u32) {
        let found = shard.in_range(0, &(index..index + 1), 0).next();
        let may_be = found.is_none_or(|(seat, _, _)| shard.may_be_discarded(seat));
        if may_be && self.flushed.is_none() {
            found.into_iter().for_each(|(seat, _, _)| shard.discard(seat));
            for versions in [&mut self.newest, &mut self.local, &mut self.server] {
                versions.remove(&index);
            }
            self.sent.remove(&index);
        }
    }

    fn step(&mut self, shard: &mut Shard, act: Act) {
        match act {
            Act::Touch(index, write) => self.touch(shard, index, write),
            Act::Ahead(index) => self.fetching.extend(shard.fetch_ahead(key(index), CLASS)),
            Act::Arrive(which, stay) if !self.fetching.is_empty() => {
                let seat = self.fetching.swap_remove(which % self.fetching.len());
                let index = shard.key(seat).index;
                self.waiting.remove(&index);
                match self.server.get(&index) {
                    Some(version) => self.local.insert(index, *version),
                    None => self.local.remove(&index),
                };
                if shard.filled(seat, stay) == ArrivalStep::MoveIn {
                    shard.arrived(seat);
                }
            }
            Act::Fail(which) if !self.fetching.is_empty() => {
                shard.failed(self.fetching.swap_remove(which % self.fetching.len()));
            }
            Act::MoveOut => {
                if let Some(seat) = shard.next_to_leave().or_else(|| shard.oldest()) {
                    self.leave(shard, seat);
                }
            }
            Act::Stuck => {
                if let Some(seat) = shard.oldest() {
                    shard.stuck(seat);
                }
            }
            Act::Save => {
                if let Some(seat) = shard.save_next(|_| true) {
                    assert!(!self.saving.iter().any(|(other, _)| *other == seat), "saved twice at once");
                    self.sent.insert(shard.key(seat).index);
                    self.sending.push(seat);
                }
            }
            Act::Sent(which) if !self.sending.is_empty() => {
                let seat = self.sending.swap_remove(which % self.sending.len());
                assert_eq!(shard.state(shard.key(seat)), State::Saving, "it left while it was read");
                self.saving.push((seat, self.local[&shard.key(seat).index]));
                if shard.sent(seat) {
                    shard.rescued(seat);
                }
            }
            Act::Saved(which) if !self.saving.is_empty() => {
                let (seat, version) = self.saving.swap_remove(which % self.saving.len());
                self.server.insert(shard.key(seat).index, version);
                shard.saved(seat);
            }
            Act::SaveFail(which) if !self.saving.is_empty() => {
                let (seat, version) = self.saving.swap_remove(which % self.saving.len());
                // It may have got there all the same.
                if which % 2 == 0 {
                    self.server.insert(shard.key(seat).index, version);
                }
                assert!(!shard.save_failed(seat), "no thread waits for what was sent");
            }
            Act::Unpark => {
                if let Some((key, _, access)) = shard.unpark() {
                    self.touch(shard, key.index, access == Access::Write);
                }
            }
            Act::Flush if self.flushed.is_none() => {
                shard.owe(0);
                self.flushed = Some(self.newest.clone());
            }
            Act::SendHome => {
                let key = shard.owed_here(0).next();
                if let Some(seat) = key.and_then(|key| shard.owed_seat(key)) {
                    self.leave(shard, seat);
                }
            }
            Act::Discard(index) => self.discard(shard, index),
            Act::Hold(index) => self.held.extend(shard.hold(key(index)).then_some(index)),
            Act::Release => self.held.pop().into_iter().for_each(|index| shard.release(key(index))),
            _ => {}
        }
        self.end_flush(shard);
    }
}

proptest! {
    /// Whatever ends when, the application never sees anything but what it wrote last.
    #[test]
    fn no_order_of_events_loses_a_store(acts in prop::collection::vec(act(), 1..400)) {
        let mut shard = Shard::new(6 * CHUNK);
        let mut slow = Slow::default();
        for act in acts {
            slow.step(&mut shard, act);
            prop_assert!(shard.used() <= 6 * CHUNK);
        }
        // Everything that is only here can still be brought home.
        while !slow.sending.is_empty() {
            slow.step(&mut shard, Act::Sent(0));
        }
        while let Some((seat, version)) = slow.saving.pop() {
            slow.server.insert(shard.key(seat).index, version);
            shard.saved(seat);
        }
        while !slow.held.is_empty() {
            slow.step(&mut shard, Act::Release);
        }
        while let Some(seat) = shard.oldest() {
            let index = shard.key(seat).index;
            shard.left(seat, slow.local.get(&index) != slow.server.get(&index));
        }
        while let Some(seat) = shard.save_next(|_| true) {
            let index = shard.key(seat).index;
            shard.sent(seat);
            slow.server.insert(index, slow.local[&index]);
            shard.saved(seat);
        }
        prop_assert_eq!(&slow.server, &slow.newest);
        prop_assert_eq!(shard.owed(0), 0);
        for seat in slow.fetching {
            shard.failed(seat);
        }
        prop_assert_eq!(shard.forget(0), 0);
        prop_assert_eq!(shard.resident(key(0)), None);
    }
}

#[test]
fn every_way_between_states_can_be_gone() {
    let mut shard = Shard::new(6 * CHUNK);
    let mut slow = Slow::default();
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    for _ in 0..20_000 {
        let act = proptest::strategy::ValueTree::current(&act().new_tree(&mut runner).unwrap());
        slow.step(&mut shard, act);
    }
    for seat in slow.fetching.drain(..) {
        shard.failed(seat);
    }
    for index in 0..24 {
        slow.touch(&mut shard, index, true);
    }
    for _ in 0..24 {
        slow.step(&mut shard, Act::MoveOut);
    }
    // No flush waits for one that is discarded.
    slow.flushed = None;
    if let Some(index) = (0..24).find(|index| shard.state(key(*index)) == State::Dirty) {
        slow.step(&mut shard, Act::Discard(index));
    }
    shard.forget(0);
    for (way, count) in TRANSITIONS.iter().zip(shard.counts().edges) {
        assert!(count > 0, "{way:?} never happened");
    }
}
