//! Every rank sends to all.

use std::collections::HashMap;
use std::sync::Mutex;

use outboard::{Messenger, MessengerOptions, SendError};

use crate::team::{Team, Way, small};

/// The seed of this run: drawn anew, or the one in `OUTBOARD_SEED`. Printed, so that a failure can be repeated.
pub(crate) fn seed() -> u64 {
    let given = std::env::var("OUTBOARD_SEED").ok().and_then(|text| text.parse().ok());
    let seed = given.unwrap_or_else(|| fastrand::u64(..1 << 48));
    println!("OUTBOARD_SEED={seed} repeats this");
    seed
}

/// How many rounds there are: as many as `OUTBOARD_ROUNDS` says.
pub(crate) fn rounds(usually: u64) -> u64 {
    std::env::var("OUTBOARD_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(usually)
}

/// A message that says what is in it: who sent it, which one it is, how often it is to be sent on, and bytes that follow
/// from these.
fn letter(from: u32, number: u32, hops: u32, len: usize) -> Vec<u8> {
    let words = [from, number, hops, len as u32];
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut random = fastrand::Rng::with_seed((u64::from(from) << 32) | u64::from(number));
    bytes.extend((0..len).map(|_| random.u8(..)));
    bytes
}

fn read_letter(bytes: &[u8]) -> (u32, u32, u32, usize) {
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let (from, number, hops, len) = (word(0), word(4), word(8), word(12) as usize);
    assert_eq!(bytes, letter(from, number, hops, len), "a message was changed on its way");
    (from, number, hops, len)
}

fn size_of_letter(random: &mut fastrand::Rng) -> usize {
    match random.u32(..100) {
        0..60 => random.usize(..64),
        60..95 => random.usize(..2000),
        95..99 => random.usize(..100_000),
        _ => random.usize(..1 << 20),
    }
}

/// What a rank sends: for whom, how often it is sent on, how long it is.
fn lots(ranks: u32, rank: u32, letters: u32, seed: u64) -> Vec<(u32, u32, usize)> {
    let mut random = fastrand::Rng::with_seed(seed ^ (u64::from(rank) << 40));
    (0..letters).map(|_| (random.u32(..ranks), random.u32(..3), size_of_letter(&mut random))).collect()
}

/// Every rank sends letters to all others and to itself; who handles one may send it on. In the end every letter has been
/// handled as often as it should, whatever its size and however few bundles there are.
fn all_to_all(ranks: u32, way: Way, options: &MessengerOptions, letters: u32, seed: u64) {
    println!("seed {seed}: {ranks} ranks by {way:?}, bundles of {}", options.bundle);
    let handled: Mutex<HashMap<(u32, u32, u32), u32>> = Mutex::default();
    Team::new(ranks, way, options.clone()).run(|messenger| {
        let me = messenger.rank();
        let mut random = fastrand::Rng::with_seed(!seed ^ u64::from(me));
        let mut own: Vec<(u32, u32, u32)> = Vec::new();
        let mut handle = |this: &mut Messenger, source: u32, bytes: &[u8]| {
            let (from, number, hops, len) = read_letter(bytes);
            assert!(source < ranks);
            own.push((from, number, hops));
            if hops > 0 {
                this.send(random.u32(..ranks), &letter(from, number, hops - 1, len)).unwrap();
            }
        };
        for (number, (to, hops, len)) in (0..).zip(lots(ranks, me, letters, seed)) {
            let bytes = letter(me, number, hops, len);
            while let Err(error) = messenger.send(to, &bytes) {
                assert_eq!(error, SendError::Full, "seed {seed}");
                messenger.receive(0, &mut handle).unwrap();
                messenger.pause().unwrap();
            }
        }
        messenger.quiesce(0, &mut handle).unwrap();
        // Nothing comes after the end.
        messenger.barrier().unwrap();
        assert_eq!(messenger.receive(0, |_, _, _| ()).unwrap(), 0, "seed {seed}");
        let mut handled = handled.lock().unwrap();
        own.into_iter().for_each(|key| *handled.entry(key).or_default() += 1);
    });
    let mut expected = HashMap::new();
    for rank in 0..ranks {
        for (number, (_, hops, _)) in (0..).zip(lots(ranks, rank, letters, seed)) {
            (0..=hops).for_each(|left| *expected.entry((rank, number, left)).or_default() += 1);
        }
    }
    assert!(handled.into_inner().unwrap() == expected, "seed {seed}: {ranks} ranks by {way:?}");
}

#[test]
fn every_letter_is_handled_once() {
    for seed in 0..6 {
        for way in Way::ALL {
            let ranks = 2 + (seed % 4) as u32;
            all_to_all(ranks, way, &small(), 100, seed);
            all_to_all(ranks, way, &MessengerOptions::default(), 100, seed);
        }
    }
}

#[test]
fn a_rank_alone_talks_to_itself() {
    all_to_all(1, Way::Shm, &small(), 200, 7);
}

#[test]
fn many_ranks_talk_at_once() {
    all_to_all(16, Way::Shm, &small(), 30, 9);
}
