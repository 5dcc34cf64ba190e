//! One round: daemons, honest clients, and attackers beside them, all from one seed.

use std::time::{Duration, Instant};

use crate::attacker::Attacker;
use crate::honest::Honest;
use crate::world::World;
use crate::wrong::{ATTACKS, Attack};
use outboard_e2e::Random;

/// What happens in a round.
pub(crate) struct Round {
    seed: u64,
    attacks: Vec<&'static Attack>,
    span: Duration,
}

/// How long attackers are alone with the daemons.
const LAST_BLOW: Duration = Duration::from_millis(800);
/// How many rounds there are until every attack was played: as many as CI has time for.
const ROUNDS: u64 = 5;

impl Round {
    /// What follows from a seed: some of the attacks in an order that this seed and its neighbours have in common.
    pub(crate) fn from_seed(seed: u64, span: Duration) -> Self {
        let mut all: Vec<&Attack> = ATTACKS.iter().collect();
        Random::new(seed / ROUNDS).shuffle(&mut all);
        let attacks = all.chunks(all.len().div_ceil(ROUNDS as usize)).nth((seed % ROUNDS) as usize);
        Self { seed, attacks: attacks.unwrap_or_default().to_vec(), span }
    }

    /// The seed with which every attack is played in as few rounds as possible, near this one.
    pub(crate) fn first_seed(near: u64) -> u64 {
        near - near % ROUNDS
    }

    /// The seed of the next round.
    pub(crate) fn next_seed(seed: u64) -> u64 {
        match (seed + 1) % ROUNDS {
            0 => Self::first_seed(Random::new(seed).next() >> 16),
            _ => seed + 1,
        }
    }

    /// These attacks at once.
    pub(crate) fn of(attacks: impl IntoIterator<Item = &'static Attack>, seed: u64, span: Duration) -> Self {
        Self { seed, attacks: attacks.into_iter().collect(), span }
    }

    /// What its attacks are called.
    pub(crate) fn names(&self) -> Vec<&'static str> {
        self.attacks.iter().map(|attack| attack.name).collect()
    }

    /// Plays it. What goes wrong is a panic; the seed was printed before.
    pub(crate) fn play(&self) {
        println!("round {}: {}", self.seed, self.names().join(", "));
        let mut random = Random::new(self.seed);
        let mut world = World::start();
        // Once before anybody attacks, so that what is made at the first use is there.
        let honest = Honest::start(&world.scene, random.next());
        honest.await_progress(&honest.done());
        honest.end();
        world.remember();
        let honest = Honest::start(&world.scene, random.next());
        honest.await_progress(&vec![0; honest.done().len()]);
        let before = honest.done();
        self.attack(&world, self.span, &mut random);
        honest.await_progress(&before);
        honest.await_progress(&honest.done());
        honest.end();
        // Once more with nobody else there: whoever comes and goes beside an attacker may clean up behind it.
        self.attack(&world, LAST_BLOW, &mut random);
        world.check();
        world.end();
    }

    /// Has two processes attack. Both are stopped in the middle of it; one goes on, and the other is killed as it is.
    fn attack(&self, world: &World, span: Duration, random: &mut Random) {
        let mut attackers = [0, 1].map(|_| Attacker::start(&world.place, &world.scene));
        for attack in &self.attacks {
            for attacker in &mut attackers {
                attacker.order(attack, random.next(), span);
            }
        }
        pass(span / 2);
        let [one, other] = attackers;
        other.freeze();
        pass(span / 4);
        other.thaw();
        one.freeze();
        pass(span / 4);
        let findings = [one.kill(), other.end()].concat();
        assert!(findings.is_empty(), "{findings:?}");
    }
}

/// Lets time pass in which attackers attack.
fn pass(span: Duration) {
    let until = Instant::now() + span;
    while Instant::now() < until {
        std::thread::park_timeout(until.saturating_duration_since(Instant::now()));
    }
}
