//! Every rank sends letters to all, and each is handled as often as it should be.

use std::collections::HashMap;
use std::sync::Mutex;

use outboard::{Messenger, MessengerOptions, SendError};

use crate::team::{Team, Way};

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
        0..10 => 0,
        10..60 => random.usize(..64),
        60..95 => random.usize(..2000),
        95..99 => random.usize(..100_000),
        _ => random.usize(..1 << 20),
    }
}

/// A letter: its space, its receiver, how often it is sent on, how long it is.
#[derive(Clone, Copy)]
struct Lot {
    space: u8,
    to: u32,
    hops: u32,
    len: usize,
}

/// The number of all messages without bytes.
const EMPTY: u32 = u32::MAX;

impl Lot {
    /// The bytes of it: none at all, if it is short and goes no further.
    fn message(&self, from: u32, number: u32) -> Vec<u8> {
        if self.is_empty() { Vec::new() } else { letter(from, number, self.hops, self.len) }
    }

    fn is_empty(&self) -> bool {
        self.hops == 0 && self.len == 0
    }
}

/// The letters that a rank sends.
fn lots(team: &Team<'_>, rank: u32, letters: u32, seed: u64) -> Vec<Lot> {
    let mut random = fastrand::Rng::with_seed(seed ^ (u64::from(rank) << 40));
    let lot = |_| Lot {
        space: random.u8(..team.options.spaces),
        to: random.u32(..team.ranks),
        hops: random.u32(..3),
        len: size_of_letter(&mut random),
    };
    (0..letters).map(lot).collect()
}

/// A letter that a rank has handled: its source, its number, and how often it was still to be sent on.
struct Desk {
    handled: Vec<(u32, u32, u32)>,
    random: fastrand::Rng,
}

impl Desk {
    /// Handles a letter, and sends it on in its space or one behind it, so that spaces come to their end one after the other.
    fn handle(&mut self, messenger: &mut Messenger, space: u8, source: u32, bytes: &[u8]) {
        if bytes.is_empty() {
            self.handled.push((source, EMPTY, 0));
            return;
        }
        let (from, number, hops, len) = read_letter(bytes);
        self.handled.push((from, number, hops));
        if hops > 0 {
            let (ranks, spaces) = (messenger.ranks(), messenger.spaces());
            let (space, rank) = (self.random.u8(space..spaces), self.random.u32(..ranks));
            messenger.send_in(space, rank, &letter(from, number, hops - 1, len)).unwrap();
        }
    }

    fn receive(&mut self, messenger: &mut Messenger) {
        for space in 0..messenger.spaces() {
            messenger.receive(space, |this, source, bytes| self.handle(this, space, source, bytes)).unwrap();
        }
    }
}

/// Every rank sends letters to all others and to itself; who handles one may send it on. In the end every letter has been
/// handled as often as it should, whatever its size and however few bundles there are. `between` is called before each
/// letter, with its number.
pub(crate) fn all_to_all(
    team: &Team<'_>,
    letters: u32,
    seed: u64,
    between: impl Fn(&mut Messenger, u32) + Sync,
) {
    let Team { ranks, way, options, .. } = team;
    let MessengerOptions { bundle, buffers, spaces, .. } = options;
    println!("seed {seed}: {ranks} ranks by {way:?}, {spaces} spaces, {buffers} bundles of {bundle}");
    let handled: Mutex<HashMap<(u32, u32, u32), u32>> = Mutex::default();
    team.run(|messenger| {
        let me = messenger.rank();
        let random = fastrand::Rng::with_seed(!seed ^ u64::from(me));
        let mut desk = Desk { handled: Vec::new(), random };
        for (number, lot) in (0..).zip(lots(team, me, letters, seed)) {
            between(messenger, number);
            let bytes = lot.message(me, number);
            while let Err(error) = messenger.send_in(lot.space, lot.to, &bytes) {
                assert_eq!(error, SendError::Full, "seed {seed}");
                desk.receive(messenger);
                messenger.pause().unwrap();
            }
        }
        // A rank in `quiesce` handles one space alone, so one that is still sending could find no room in another.
        messenger.begin_barrier();
        while !messenger.poll_barrier().unwrap() {
            desk.receive(messenger);
            messenger.pause().unwrap();
        }
        for space in 0..messenger.spaces() {
            messenger.quiesce(space, |this, source, bytes| desk.handle(this, space, source, bytes)).unwrap();
        }
        // Nothing comes after the end.
        messenger.barrier().unwrap();
        let before = desk.handled.len();
        desk.receive(messenger);
        assert_eq!(desk.handled.len(), before, "seed {seed}");
        let mut handled = handled.lock().unwrap();
        desk.handled.into_iter().for_each(|key| *handled.entry(key).or_default() += 1);
    });
    let mut expected = HashMap::new();
    for rank in 0..*ranks {
        for (number, lot) in (0..).zip(lots(team, rank, letters, seed)) {
            let number = if lot.is_empty() { EMPTY } else { number };
            (0..=lot.hops).for_each(|left| *expected.entry((rank, number, left)).or_default() += 1);
        }
    }
    assert!(handled.into_inner().unwrap() == expected, "seed {seed}: {ranks} ranks by {way:?}");
}

/// Ranks, ways, bundles and spaces as a seed has it.
pub(crate) fn random_team(seed: u64) -> Team<'static> {
    let mut random = fastrand::Rng::with_seed(seed);
    let options = MessengerOptions {
        bundle: 1 << random.usize(10..=15),
        buffers: random.usize(2..=8),
        ..MessengerOptions::default()
    };
    let way = Way::ALL[random.usize(..Way::ALL.len())];
    Team::new(random.u32(2..=16), way, options.with_spaces(random.u8(1..=4)))
}
