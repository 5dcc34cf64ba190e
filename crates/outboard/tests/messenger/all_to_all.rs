//! Every rank sends to all.

use outboard::MessengerOptions;

use crate::letters::{all_to_all, random_team, rounds, seed};
use crate::team::{Team, Way, small};

#[test]
fn counts_and_bytes_are_exact_whatever_the_seed() {
    let first = seed();
    for round in 0..rounds(6) {
        let seed = first.wrapping_add(round);
        let team = random_team(seed);
        all_to_all(&team, 400 / team.ranks, seed, |_, _| ());
    }
}

#[test]
fn every_letter_is_handled_once() {
    for seed in 0..2 {
        for way in Way::ALL {
            let ranks = 2 + 3 * seed as u32;
            all_to_all(&Team::new(ranks, way, small()), 100, seed, |_, _| ());
            all_to_all(&Team::new(ranks, way, MessengerOptions::default()), 100, seed, |_, _| ());
        }
    }
}

#[test]
fn a_rank_alone_talks_to_itself() {
    all_to_all(&Team::new(1, Way::Shm, small()), 200, 7, |_, _| ());
}

#[test]
fn many_ranks_talk_at_once() {
    all_to_all(&Team::new(16, Way::Shm, small()), 30, 9, |_, _| ());
}
