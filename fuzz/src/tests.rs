//! A short, repeatable fuzzing of every target, in every test run.

use std::collections::HashSet;

use outboard_wire::Versions;

use crate::{FuzzVerdict, Mutator, TARGETS, find, kept};

const INPUTS_PER_TARGET: usize = 5_000;

#[test]
fn every_seed_decodes() {
    for target in TARGETS {
        let seeds = (target.seeds)();
        assert!(!seeds.is_empty(), "{} has no seed", target.name);
        for seed in seeds {
            assert_eq!((target.run)(&seed), FuzzVerdict::Decoded, "{}: {seed:02x?}", target.name);
        }
    }
}

/// FNV-1a over all seeds of a target, each with its length: a message of each kind, as it travels.
fn digest(seeds: &[Vec<u8>]) -> u64 {
    let bytes =
        seeds.iter().flat_map(|seed| seed.len().to_le_bytes().into_iter().chain(seed.iter().copied()));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Two builds that name the same version understand each other, so what travels does not change without the version.
#[test]
fn what_travels_is_what_the_version_says() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/wire.txt");
    let mut now = format!("protocol {}\n", Versions::NEWEST);
    for target in TARGETS {
        now += &format!("{} {:016x}\n", target.name, digest(&(target.seeds)()));
    }
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path, &now).unwrap();
    }
    let kept = std::fs::read_to_string(path).unwrap();
    assert!(
        kept == now,
        "what travels has changed, or the messages of a fuzz target have. A change after a release: raise \
         Versions::NEWEST, and go on speaking the version before it. Then, or if only a message was added to a target: \
         BLESS=1 cargo test -p outboard-fuzz.\n--- {path}\n{kept}--- now\n{now}"
    );
}

/// Bytes as `wire-1.txt` has them: two letters for each.
fn bytes_of(hex: &str) -> Vec<u8> {
    let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(byte).collect()
}

/// A build whose newest version was 1 has written these, one of each kind and form. A peer may be that build.
#[test]
fn messages_of_the_version_before_are_understood() {
    let kept = include_str!("../wire-1.txt");
    assert_eq!(Versions::OURS.min, 1, "keep the messages of version {} instead", Versions::OURS.min);
    for line in kept.lines() {
        let (name, hex) = line.split_once(' ').unwrap();
        let target = find(name).unwrap_or_else(|| panic!("{name} is read no longer"));
        assert_eq!((target.run)(&bytes_of(hex)), FuzzVerdict::Decoded, "{line}");
    }
}

/// A run of the fuzzer begins with them, and so does every run of the tests.
#[test]
fn kept_inputs_are_few_and_break_no_target() {
    for target in TARGETS {
        let inputs = kept::read(target).unwrap();
        let bytes = std::fs::metadata(kept::path(target)).map_or(0, |file| file.len());
        assert!(inputs.len() <= kept::INPUTS_MAX && bytes <= kept::FILE_BYTES_MAX as u64, "{}", target.name);
        inputs.iter().for_each(|input| _ = (target.run)(input));
    }
}

#[test]
fn no_mutation_breaks_a_target() {
    for target in TARGETS {
        let mut mutator = Mutator::new(1, (target.seeds)());
        let mut verdicts = HashSet::new();
        for _ in 0..INPUTS_PER_TARGET {
            verdicts.insert((target.run)(&mutator.next_input()) == FuzzVerdict::Decoded);
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
