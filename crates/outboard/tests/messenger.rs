//! Ranks as threads of one process, connected as processes are.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and seeds are printed"
)]

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use outboard::{Address, Conveyor, Job, Messenger, MessengerError, MessengerOptions, SendError, Settings};
use outboard_link::Identity;
use outboard_settings::{Secret, Whereabouts};
use outboard_wire::{JobId, Rank, Role};

/// How ranks reach each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Shm,
    Tcp,
}

fn settings(rank: u32, size: u32, way: Way, job: JobId) -> Settings {
    let mut settings = Settings::default();
    settings.job.id = Some(job);
    settings.job.rank = Some(Rank(rank));
    settings.job.size = Some(size);
    settings.job.secret = Some(Secret::new("a secret of this test").unwrap());
    settings.job.agent = Whereabouts::None;
    settings.job.memory = Whereabouts::None;
    if way == Way::Tcp {
        settings.job.listen = Some("tcp:127.0.0.1:0".parse::<Address>().unwrap());
    }
    settings
}

fn a_job() -> JobId {
    JobId(Identity::new(Role::Tool, "").incarnation.0)
}

/// Runs `work` as each rank of a job.
fn with_ranks<R: Send>(
    size: u32,
    way: Way,
    options: &MessengerOptions,
    work: impl Fn(&mut Messenger) -> R + Sync,
) -> Vec<R> {
    let job = a_job();
    std::thread::scope(|scope| {
        let rank = |rank| {
            let work = &work;
            scope.spawn(move || {
                let mut job = Job::with_settings(&settings(rank, size, way, job)).unwrap();
                let mut messenger = Messenger::new(&mut job, options.clone()).unwrap();
                work(&mut messenger)
            })
        };
        let ranks: Vec<_> = (0..size).map(rank).collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

fn small() -> MessengerOptions {
    MessengerOptions { bundle: 1 << 10, buffers: 2, ..MessengerOptions::default() }
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
    with_ranks(ranks, way, options, |messenger| {
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
        for way in [Way::Shm, Way::Tcp] {
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

#[test]
fn spaces_do_not_mix_and_end_on_their_own() {
    with_ranks(3, Way::Shm, &small().with_spaces(3), |messenger| {
        let ranks = messenger.ranks();
        for round in 0..5u64 {
            for space in 0..3u8 {
                for rank in 0..ranks {
                    messenger.send_value_in(space, rank, [u64::from(space), round]).unwrap();
                }
            }
            for space in [2, 0, 1] {
                let mut count = 0;
                let counted = messenger.quiesce_bundles(space, |_, bundle| {
                    for value in bundle.values::<[u64; 2]>().unwrap().iter() {
                        assert_eq!(value, [u64::from(space), round]);
                        count += 1;
                    }
                });
                counted.unwrap();
                assert_eq!(count, ranks);
            }
        }
    });
}

/// One round of requests to all ranks and their replies.
fn ask_all(
    messenger: &mut Messenger,
    (requests, replies): (&mut Conveyor<[u64; 2]>, &mut Conveyor<[u64; 2]>),
    items: u64,
) -> Vec<Option<u64>> {
    let ranks = u64::from(messenger.ranks());
    let mut found = vec![None; items as usize];
    let mut next = 0;
    loop {
        let more = requests.advance(messenger, next == items).unwrap();
        if !replies.advance(messenger, !more).unwrap() {
            return found;
        }
        while next < items {
            let rank = (next * 7 % ranks) as u32;
            if !requests.push(messenger, [next, next * next], rank).unwrap() {
                break;
            }
            next += 1;
        }
        while let Some(([index, value], from)) = requests.pull(messenger).unwrap() {
            let reply = [index, value + u64::from(messenger.rank())];
            if !replies.push(messenger, reply, from).unwrap() {
                requests.unpull();
                break;
            }
        }
        while let Some(([index, value], from)) = replies.pull(messenger).unwrap() {
            assert_eq!(u64::from(from), index * 7 % ranks);
            assert_eq!(found[index as usize].replace(value), None, "answered twice");
        }
    }
}

#[test]
fn whoever_is_through_keeps_nobody_waiting() {
    let outside = std::sync::Barrier::new(3);
    with_ranks(3, Way::Shm, &small(), |messenger| {
        for _ in 0..20 {
            messenger.barrier().unwrap();
            // Nobody calls the messenger until all are through.
            outside.wait();
            messenger.quiesce(0, |_, _, _| ()).unwrap();
            outside.wait();
        }
    });
}

#[test]
fn conveyors_carry_requests_and_replies() {
    const ITEMS: u64 = 5000;
    with_ranks(4, Way::Shm, &small().with_spaces(2), |messenger| {
        let (mut requests, mut replies) = (Conveyor::new(0), Conveyor::new(1));
        for _ in 0..3 {
            let found = ask_all(messenger, (&mut requests, &mut replies), ITEMS);
            for (index, value) in (0..ITEMS).zip(&found) {
                assert_eq!(*value, Some(index * index + index * 7 % u64::from(messenger.ranks())));
            }
            requests.reset();
            replies.reset();
        }
    });
}

#[test]
fn wrong_input_is_refused_and_disturbs_nobody() {
    let options = MessengerOptions { longest: 10_000, ..small() };
    with_ranks(2, Way::Shm, &options, |messenger| {
        let (no_space, too_long) =
            (SendError::NoSuchSpace { space: 1, spaces: 1 }, SendError::TooLong { len: 10_001, max: 10_000 });
        assert_eq!(messenger.send(2, b"hello"), Err(SendError::NoSuchRank { rank: 2, ranks: 2 }));
        assert_eq!(messenger.send_in(1, 0, b"hello"), Err(no_space.clone()));
        assert_eq!(messenger.send_value_in(1, 0, 7u64), Err(no_space));
        assert_eq!(messenger.send(0, &[0; 10_001]), Err(too_long));
        let received = messenger.receive(9, |_, _, _| ());
        assert!(matches!(received, Err(MessengerError::Send(SendError::NoSuchSpace { space: 9, .. }))));
        messenger.send(0, &[7; 10_000]).unwrap();
        let mut lens = Vec::new();
        messenger.quiesce(0, |_, _, bytes| lens.push(bytes.len())).unwrap();
        assert_eq!(lens, if messenger.rank() == 0 { vec![10_000; 2] } else { vec![] });
    });
}

#[test]
fn a_rank_that_goes_is_named_and_the_rest_go_on() {
    let results = with_ranks(3, Way::Shm, &small(), |messenger| {
        if messenger.rank() == 2 {
            return None;
        }
        // The other one may be told earlier, and write at once.
        let (mut heard, began) = (Vec::new(), Instant::now());
        let quiet = messenger.quiesce(0, |_, source, bytes| heard.push((source, bytes.to_vec())));
        let error = quiet.unwrap_err().to_string();
        assert!(error.contains("rank 2"), "{error}");
        let other = 1 - messenger.rank();
        messenger.send(other, b"still here").unwrap();
        messenger.flush().unwrap();
        while heard.is_empty() && began.elapsed() < Duration::from_secs(20) {
            messenger.receive(0, |_, source, bytes| heard.push((source, bytes.to_vec()))).unwrap();
            messenger.pause().unwrap();
        }
        assert_eq!(heard, [(other, b"still here".to_vec())]);
        let gone = messenger.send(2, b"gone");
        assert!(matches!(gone, Err(SendError::Departed { rank: 2, .. })), "{gone:?}");
        Some(())
    });
    assert_eq!(results.iter().flatten().count(), 2);
}

#[test]
fn ranks_with_other_bundles_are_told_so() {
    let job = a_job();
    let errors: Mutex<Vec<String>> = Mutex::default();
    std::thread::scope(|scope| {
        for rank in 0..2u32 {
            let errors = &errors;
            scope.spawn(move || {
                let mut job = Job::with_settings(&settings(rank, 2, Way::Shm, job)).unwrap();
                let options = MessengerOptions { bundle: 1024 << rank, ..MessengerOptions::default() };
                let failed = match Messenger::new(&mut job, options) {
                    Ok(mut messenger) => messenger.barrier().err().map(|error| error.to_string()),
                    Err(error) => Some(error.to_string()),
                };
                errors.lock().unwrap().extend(failed);
            });
        }
    });
    let errors = errors.into_inner().unwrap();
    assert!(errors.iter().any(|error| error.contains("same settings")), "{errors:?}");
}
