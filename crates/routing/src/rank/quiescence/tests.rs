//! Every order in which a few messages, handlers and signals can happen.

use std::collections::HashSet;

use super::*;

/// A small job: what is under way, and what every rank knows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    ranks: Vec<(Quiescence, SentAndHandled)>,
    /// Messages: for whom, and how many times more they are sent on.
    messages: Vec<(u32, u32)>,
    /// Handlers that have not sent yet what they send.
    handlers: Vec<(u32, u32)>,
    /// Signals: from whom, for whom.
    signals: Vec<(u32, u32, AgreementSignal)>,
    /// How many rounds each rank still comes to.
    rounds: Vec<u32>,
}

/// What is done wrong, to see that the test would notice.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mistake {
    None,
    /// Rank 0 believes a single wave.
    OneWave,
    /// Rank 0 looks at the counts of a rank while its handler runs.
    InHandler,
}

/// Every handler sends two messages, or none.
const FAN_OUT: u32 = 2;
/// Waves beyond this are not explored: they differ by their number alone.
const WAVES_MAX: u64 = 6;

impl World {
    fn new(ranks: u32, rounds: u32, mistake: Mistake) -> Self {
        let rank = |rank| {
            let mut machine = Quiescence::new(rank, ranks);
            if let Some(census) = &mut machine.census {
                census.believes_one_wave = mistake == Mistake::OneWave;
            }
            (machine, SentAndHandled::default())
        };
        let rounds = vec![rounds; ranks as usize];
        let ranks = (0..ranks).map(rank).collect();
        Self { ranks, messages: Vec::new(), handlers: Vec::new(), signals: Vec::new(), rounds }
    }

    fn neighbour(&self, rank: u32) -> u32 {
        (rank + 1) % self.ranks.len() as u32
    }

    fn send(&mut self, from: u32, hops: u32) {
        self.ranks[from as usize].1.sent += 1;
        self.messages.push((self.neighbour(from), hops));
    }

    /// Sends what a handler sends.
    fn send_on(&mut self, rank: u32, hops: u32) {
        if hops > 0 {
            (0..FAN_OUT).for_each(|_| self.send(rank, hops - 1));
        }
    }

    /// Puts a rank's signals under way. The order of what is under way does not matter.
    fn settle(mut self, rank: u32) -> Self {
        while let Some((to, signal)) = self.ranks[rank as usize].0.poll_action() {
            self.signals.push((rank, to, signal));
        }
        self.messages.sort_unstable();
        self.handlers.sort_unstable();
        self.signals.sort_unstable();
        self
    }

    /// All worlds that can come next.
    fn next(&self, hops: u32, mistake: Mistake) -> Vec<Self> {
        let mut worlds = Vec::new();
        for rank in 0..self.ranks.len() as u32 {
            let is_in_handler = self.handlers.iter().any(|(busy, _)| *busy == rank);
            let at = rank as usize;
            if self.rounds[at] > 0 && self.ranks[at].0.is_quiet() && !is_in_handler {
                let mut world = self.clone();
                world.rounds[at] -= 1;
                world.send(rank, hops);
                world.ranks[at].0.enter();
                worlds.push(world.settle(rank));
            }
            if !is_in_handler || mistake == Mistake::InHandler {
                let mut world = self.clone();
                let (machine, counts) = &mut world.ranks[at];
                machine.on_idle(*counts);
                worlds.push(world.settle(rank));
            }
        }
        for index in 0..self.messages.len() {
            let mut world = self.clone();
            let (to, hops) = world.messages.remove(index);
            world.ranks[to as usize].1.handled += 1;
            world.handlers.push((to, hops));
            worlds.push(world.settle(to));
        }
        for index in 0..self.handlers.len() {
            let mut world = self.clone();
            let (rank, hops) = world.handlers.remove(index);
            world.send_on(rank, hops);
            worlds.push(world.settle(rank));
        }
        for index in 0..self.signals.len() {
            let mut world = self.clone();
            let (from, to, signal) = world.signals.remove(index);
            world.ranks[to as usize].0.on_signal(from, signal);
            worlds.push(world.settle(to));
        }
        worlds
    }

    /// What must never be: a rank is through a round, and another has not come to it; or all are through and none has
    /// begun the next, and yet something is under way.
    fn is_wrong(&self) -> bool {
        let machines = || self.ranks.iter().map(|(machine, _)| machine);
        let over = machines().map(|machine| machine.over).max();
        let has_absentee = machines().any(|machine| Some(machine.come) < over);
        let is_between_rounds = machines().all(|machine| Some(machine.come) == over);
        let is_busy = !self.messages.is_empty() || !self.handlers.is_empty();
        has_absentee || (is_between_rounds && over > Some(0) && is_busy)
    }

    fn is_finished(&self) -> bool {
        self.rounds.iter().all(|rounds| *rounds == 0) && self.ranks.iter().all(|(rank, _)| rank.is_quiet())
    }

    fn waves(&self) -> u64 {
        self.ranks[0].0.census.as_ref().map_or(0, |census| census.wave)
    }
}

/// Goes every way. Returns how many worlds there are, or a wrong one.
fn explore(ranks: u32, rounds: u32, hops: u32, mistake: Mistake) -> Result<usize, Box<World>> {
    let start = World::new(ranks, rounds, mistake);
    let mut seen = HashSet::from([start.clone()]);
    let mut left = vec![start];
    let mut has_finished = false;
    while let Some(world) = left.pop() {
        if world.is_wrong() {
            return Err(Box::new(world));
        }
        has_finished |= world.is_finished();
        let next: Vec<_> = world.next(hops, mistake).into_iter().filter(|next| *next != world).collect();
        assert!(!next.is_empty() || world.is_finished(), "stuck: {world:?}");
        let near = next.into_iter().filter(|world| world.waves() <= WAVES_MAX);
        for world in near {
            if seen.insert(world.clone()) {
                left.push(world);
            }
        }
    }
    assert!(has_finished, "no way leads to the end");
    Ok(seen.len())
}

#[test]
fn no_order_of_events_ends_a_round_too_early_or_never() {
    for (ranks, rounds, hops) in [(1, 2, 1), (2, 1, 1), (2, 2, 0), (3, 1, 0)] {
        let worlds = explore(ranks, rounds, hops, Mistake::None)
            .unwrap_or_else(|world| panic!("{ranks} ranks, {rounds} rounds, {hops} hops: {world:?}"));
        assert!(worlds > 10, "{ranks} ranks: {worlds}");
    }
}

#[test]
fn mistakes_are_noticed() {
    assert!(explore(2, 1, 1, Mistake::OneWave).is_err());
    assert!(explore(2, 1, 1, Mistake::InHandler).is_err());
}
