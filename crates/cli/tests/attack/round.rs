//! One round: daemons, honest clients, and attackers beside them, all from one seed.

use std::time::{Duration, Instant};

use crate::attacker::Attacker;
use crate::honest::Honest;
use crate::random::Random;
use crate::world::World;
use crate::wrong::{ATTACKS, Attack};

/// What happens in a round.
pub(crate) struct Round {
    seed: u64,
    attacks: Vec<&'static Attack>,
    span: Duration,
}

/// How long attackers are alone with the daemons.
const LAST_BLOW: Duration = Duration::from_millis(800);
/// How many attacks there are at once when a seed chooses them.
const AT_ONCE: usize = 8;

impl Round {
    /// What follows from a seed.
    pub(crate) fn from_seed(seed: u64, span: Duration) -> Self {
        let mut attacks: Vec<&Attack> = ATTACKS.iter().collect();
        Random::new(seed).shuffle(&mut attacks);
        attacks.truncate(AT_ONCE);
        Self { seed, attacks, span }
    }

    /// These attacks at once.
    pub(crate) fn of(attacks: impl IntoIterator<Item = &'static Attack>, seed: u64, span: Duration) -> Self {
        Self { seed, attacks: attacks.into_iter().collect(), span }
    }

    /// Plays it. What goes wrong is a panic; the seed was printed before.
    pub(crate) fn play(&self) {
        let names: Vec<&str> = self.attacks.iter().map(|attack| attack.name).collect();
        println!("round {}: {}", self.seed, names.join(", "));
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

    /// Has two processes attack, one of which is killed in the middle of it.
    fn attack(&self, world: &World, span: Duration, random: &mut Random) {
        let mut attackers = [0, 1].map(|_| Attacker::start(&world.place, &world.scene));
        for attack in &self.attacks {
            for attacker in &mut attackers {
                attacker.order(attack, random.next(), span);
            }
        }
        let until = Instant::now() + span;
        while Instant::now() < until {
            std::thread::park_timeout(until.saturating_duration_since(Instant::now()));
        }
        let [one, other] = attackers;
        let findings = [one.kill(), other.end()].concat();
        assert!(findings.is_empty(), "{findings:?}");
    }
}
