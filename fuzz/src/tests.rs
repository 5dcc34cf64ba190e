//! A short, repeatable fuzzing of every target, in every test run.

use std::collections::HashSet;

use crate::{Mutator, TARGETS, Verdict, find};

const INPUTS_PER_TARGET: usize = 5_000;

#[test]
fn every_seed_decodes() {
    for target in TARGETS {
        let seeds = (target.seeds)();
        assert!(!seeds.is_empty(), "{} has no seed", target.name);
        for seed in seeds {
            assert_eq!((target.run)(&seed), Verdict::Decoded, "{}: {seed:02x?}", target.name);
        }
    }
}

#[test]
fn no_mutation_breaks_a_target() {
    for target in TARGETS {
        let mut mutator = Mutator::new(1, (target.seeds)());
        let mut verdicts = HashSet::new();
        for _ in 0..INPUTS_PER_TARGET {
            verdicts.insert((target.run)(&mutator.next_input()) == Verdict::Decoded);
        }
        assert_eq!(verdicts.len(), 2, "{}: some mutations should decode and some should not", target.name);
    }
}

#[test]
fn no_prefix_of_a_seed_breaks_a_target() {
    for target in TARGETS {
        for seed in (target.seeds)() {
            for len in 0..seed.len() {
                (target.run)(&seed[..len]);
            }
        }
    }
}

#[test]
fn names_are_unique_and_found() {
    let names: HashSet<_> = TARGETS.iter().map(|target| target.name).collect();
    assert_eq!(names.len(), TARGETS.len());
    assert!(find("hello").is_some_and(|target| target.name == "hello"));
    assert!(find("").is_none());
}

#[test]
fn mutations_depend_on_the_seed_alone() {
    let inputs = |seed| {
        let mut mutator = Mutator::new(seed, vec![vec![1, 2, 3, 4], b"other".to_vec()]);
        (0..200).map(|_| mutator.next_input()).collect::<Vec<_>>()
    };
    assert_eq!(inputs(7), inputs(7));
    assert_ne!(inputs(7), inputs(8));
}

#[test]
fn mutations_reach_a_length_that_a_stranger_would_write() {
    let mut mutator = Mutator::new(1, vec![vec![0; 24]]);
    let believes_length = |input: &[u8]| input.len() >= 12 && input[8..12] == [0xff; 4];
    assert!((0..100_000).any(|_| believes_length(&mutator.next_input())));
}
