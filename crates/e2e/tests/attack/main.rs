//! Hostile clients, servers and agents that speak the protocol and do everything wrong on purpose, from a seed, beside honest
//! clients that check every result.
//!
//! `wrong/` has the attacks, a file for each service and each layer below; `honest.rs` the clients beside them; `holdings.rs`
//! what a daemon must hold no more of afterwards. A failure prints the seed of its round, and `cargo xtask attack --seed S`
//! plays that round again.
// Also outside test functions a test fails by panicking, and prints the seed that repeats it.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod attacker;
mod holdings;
mod honest;
mod round;
mod scene;
#[path = "../../../outboard/tests/messenger/team.rs"]
mod team;
mod world;
mod wrong;

use std::time::{Duration, Instant};

use outboard_e2e::seed;
use round::Round;
use scene::Scene;
use wrong::{ATTACKS, Attack};

/// How long `cargo xtask attack` wants it to last, in seconds; without it there is one round.
const SECONDS: &str = "ATTACK_SECONDS";
/// Which attacks there are to be, by the beginning of their names, instead of those that the seed chooses.
const ONLY: &str = "ATTACK_ONLY";
/// How long the attackers of one round attack.
const SPAN: Duration = Duration::from_secs(4);

outboard_child::instead_of_tests!(attack);

/// What attackers do.
fn attack() {
    attacker::run(&Scene::from_environment().expect("an attacker is told where to attack"));
}

fn variable<T: std::str::FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

#[test]
fn honest_clients_and_the_daemons_survive_what_a_seed_chooses() {
    outboard_driver::raise_descriptor_limit();
    let until = Instant::now() + Duration::from_secs(variable(SECONDS).unwrap_or(0));
    let (mut seed, mut rounds) = (seed(), 0);
    if std::env::var("OUTBOARD_SEED").is_err() {
        seed = Round::first_seed(seed);
    }
    loop {
        match variable::<String>(ONLY) {
            Some(only) => Round::of(chosen(&only), seed, SPAN).play(),
            None => Round::from_seed(seed, SPAN).play(),
        }
        rounds += 1;
        if Instant::now() >= until {
            break;
        }
        seed = Round::next_seed(seed);
    }
    println!("{rounds} rounds without a finding");
}

fn chosen(only: &str) -> Vec<&'static Attack> {
    let is_meant = |attack: &&Attack| only.split(',').any(|name| attack.name.starts_with(name));
    let found: Vec<&Attack> = ATTACKS.iter().filter(is_meant).collect();
    let known: Vec<String> =
        ATTACKS.iter().map(|attack| format!("{}: {}", attack.name, attack.what)).collect();
    assert!(!found.is_empty(), "no attack is called {only}; there are\n{}", known.join("\n"));
    found
}

#[test]
fn a_few_rounds_play_every_attack() {
    let (mut seed, mut played) = (Round::first_seed(12_345), std::collections::BTreeSet::new());
    while played.len() < ATTACKS.len() {
        let round = Round::from_seed(seed, SPAN);
        assert!(!round.names().is_empty() && round.names().iter().all(|name| played.insert(*name)));
        seed = Round::next_seed(seed);
    }
    assert_eq!(seed, Round::first_seed(seed), "the next ones are drawn anew");
}
