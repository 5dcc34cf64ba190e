//! Ranks that are killed while all send to all.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use outboard::{Messenger, MessengerError, SendError};

use crate::letters::{rounds, seed};
use crate::processes::{Act, DEADLINE, PATIENCE, Part, Process};
use crate::team::Way;

const RANKS: u32 = 4;
/// How many messages each of those that are left sends to each other one.
const AFTERWARDS: u32 = 500;

/// A message of the time before a rank was lost, or of the time after.
#[derive(Clone, Copy, PartialEq, Eq)]
enum When {
    Before,
    After,
}

/// Bytes that tell when they were sent, which message it is, and that nothing has changed them.
fn message(when: When, from: u32, number: u32) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(u64::from(from) << 32 | u64::from(number));
    let len = if random.u32(..50) == 0 { random.usize(..20_000) } else { random.usize(..200) };
    let mut bytes = vec![u8::from(when == When::After)];
    bytes.extend(from.to_le_bytes().into_iter().chain(number.to_le_bytes()));
    bytes.extend((0..len).map(|_| random.u8(..)));
    bytes
}

fn read(bytes: &[u8]) -> (When, u32, u32) {
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let when = if bytes[0] == 0 { When::Before } else { When::After };
    let (from, number) = (word(1), word(5));
    assert!(bytes == message(when, from, number), "a message was changed on its way");
    (when, from, number)
}

/// The messages of a rank that were sent after the loss, by source and number.
struct Heard(Vec<Vec<bool>>);

impl Heard {
    fn note(&mut self, source: u32, bytes: &[u8]) {
        let (when, from, number) = read(bytes);
        assert_eq!(from, source);
        if when == When::After {
            let slot = &mut self.0[from as usize][number as usize];
            assert!(!std::mem::replace(slot, true), "it came twice");
        }
    }

    fn is_all_of(&self, rank: u32) -> bool {
        self.0[rank as usize].iter().all(|is_here| *is_here)
    }

    /// Receives, and lets others run. The rank that is lost, if that comes out.
    fn receive(&mut self, messenger: &mut Messenger) -> Option<u32> {
        messenger.receive(0, |_, source, bytes| self.note(source, bytes)).unwrap();
        match messenger.pause() {
            Ok(()) => None,
            Err(MessengerError::Send(SendError::Departed { rank, .. })) => Some(rank),
            Err(error) => panic!("{error}"),
        }
    }

    /// Sends, however long there is no room. The rank that is lost, if that comes out.
    fn send(&mut self, messenger: &mut Messenger, rank: u32, bytes: &[u8]) -> Option<u32> {
        let began = Instant::now();
        loop {
            assert!(began.elapsed() < PATIENCE, "no room for rank {rank}");
            match messenger.send(rank, bytes) {
                Ok(()) => return None,
                Err(SendError::Departed { rank, .. }) => return Some(rank),
                Err(SendError::Full) => {}
                Err(error) => panic!("{error}"),
            }
            if let Some(lost) = self.receive(messenger) {
                return Some(lost);
            }
        }
    }
}

/// The part of a rank: it sends to all until one is lost, and then to the rest.
pub(crate) fn act(part: Part) {
    let (_job, messenger) = part.team().join(part.rank);
    let mut messenger = messenger.unwrap();
    let mut random = fastrand::Rng::with_seed(part.seed ^ u64::from(part.rank));
    let mut heard = Heard(vec![vec![false; AFTERWARDS as usize]; part.ranks as usize]);
    println!("working");
    let began = Instant::now();
    let lost = (0..).find_map(|number| {
        assert!(began.elapsed() < PATIENCE, "no rank was lost");
        let bytes = message(When::Before, part.rank, number);
        let lost = heard.send(&mut messenger, random.u32(..part.ranks), &bytes);
        if number % 64 == 0 { lost.or_else(|| heard.receive(&mut messenger)) } else { lost }
    });
    let lost = lost.unwrap();
    println!("lost rank {lost}");
    let others: Vec<u32> = (0..part.ranks).filter(|rank| ![lost, part.rank].contains(rank)).collect();
    for number in 0..AFTERWARDS {
        for rank in &others {
            let bytes = message(When::After, part.rank, number);
            while let Some(again) = heard.send(&mut messenger, *rank, &bytes) {
                assert_eq!(again, lost, "another rank is lost");
            }
        }
    }
    let is_over = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&is_over);
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_line(&mut String::new());
        told.store(true, Ordering::Release);
    });
    let (began, mut has_said) = (Instant::now(), false);
    while !is_over.load(Ordering::Acquire) {
        assert!(began.elapsed() < PATIENCE, "not everything came");
        assert!(heard.receive(&mut messenger).is_none_or(|again| again == lost));
        if !has_said && others.iter().all(|rank| heard.is_all_of(*rank)) {
            has_said = true;
            println!("all came");
        }
    }
    let gone = messenger.send(lost, b"gone");
    assert!(matches!(gone, Err(SendError::Departed { rank, .. }) if rank == lost), "{gone:?}");
    // Others may have left by now, and may be named instead.
    let barrier = messenger.barrier();
    assert!(matches!(barrier, Err(MessengerError::Send(SendError::Departed { .. }))), "{barrier:?}");
}

fn kill_one(way: Way, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let (victim, after) = (random.usize(..RANKS as usize), Duration::from_micros(random.u64(..300_000)));
    println!("seed {seed}: rank {victim} is killed after {after:?}, by {way:?}");
    let parts = Part::all(Act::SendUntilOneIsLost, RANKS, way, seed);
    let mut ranks: Vec<Process> = parts.into_iter().map(|part| part.start(&[])).collect();
    ranks.iter_mut().for_each(|rank| drop(rank.await_line("working")));
    std::thread::sleep(after); // tidy: allow(sleep) it is not to wait for something: any moment will do
    ranks.remove(victim).kill();
    let killed = Instant::now();
    for rank in &mut ranks {
        assert_eq!(rank.await_line("lost rank "), victim.to_string(), "seed {seed}");
    }
    let limit = DEADLINE + PATIENCE;
    assert!(killed.elapsed() < limit, "seed {seed}: ranks were told after {:?}", killed.elapsed());
    ranks.iter_mut().for_each(|rank| drop(rank.await_line("all came")));
    ranks.iter_mut().for_each(|rank| rank.tell("end"));
    for rank in &mut ranks {
        assert!(rank.exit().success(), "seed {seed}");
    }
}

#[test]
fn a_rank_that_is_killed_is_named_and_the_rest_go_on() {
    let first = seed();
    for round in 0..rounds(4) {
        kill_one(Way::ALL[round as usize % 2], first.wrapping_add(round));
    }
}
