//! Bundles that the user fills.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use outboard::{Messenger, SendError};

use crate::team::{Team, Way, small};

const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn bundles_arrive_whole_and_their_senders_can_ask() {
    for way in Way::ALL {
        let asked = Barrier::new(2);
        Team::new(2, way, small()).try_run(|messenger| {
            let mut messenger = messenger.unwrap();
            if messenger.rank() == 0 { build(&mut messenger, &asked) } else { take(messenger, &asked) }
        });
    }
}

fn build(messenger: &mut Messenger, asked: &Barrier) {
    let mut bundle = messenger.bundle(0, 1).unwrap();
    assert_eq!((bundle.is_empty(), bundle.remaining()), (true, 1024 - 8));
    assert!(bundle.push(b"bytes") && bundle.push_value(7u64) && !bundle.push(&[0; 1000]));
    assert!(bundle.push_with(3, |bytes| bytes.copy_from_slice(b"abc")));
    assert!(!bundle.push_with(1000, |_| panic!("there is no room")));
    assert_eq!((bundle.len(), bundle.remaining()), (48, 1024 - 48 - 8));
    let id = bundle.send();
    assert_eq!((id.rank(), id.space()), (1, 0));
    // The other rank does nothing yet.
    assert_eq!(messenger.poll_completion(id), Ok(false));
    asked.wait();
    let began = Instant::now();
    while !messenger.poll_completion(id).unwrap() {
        assert!(began.elapsed() < PATIENCE, "it never came");
    }
    // Messages that have arrived stay, and those that are sent afterwards never arrive.
    while messenger.poll_completion(id) == Ok(true) && messenger.bundle(0, 1).is_ok() {
        messenger.progress().unwrap();
        assert!(began.elapsed() < PATIENCE, "no rank said that rank 1 has left");
    }
    assert_eq!(messenger.poll_completion(id), Ok(true));
    assert!(matches!(messenger.bundle(0, 1), Err(SendError::Departed { rank: 1, .. })));
}

fn take(mut messenger: Messenger, asked: &Barrier) {
    asked.wait();
    let (mut heard, began) = (Vec::new(), Instant::now());
    while heard.is_empty() {
        let received = messenger.receive_bundles(0, |_, bundle| {
            assert_eq!((bundle.source(), bundle.bytes().len()), (0, 48));
            heard.extend(bundle.messages().map(|message| message.unwrap().to_vec()));
        });
        received.unwrap();
        assert!(began.elapsed() < PATIENCE, "nothing came");
    }
    assert_eq!(heard, [b"bytes".to_vec(), 7u64.to_le_bytes().to_vec(), b"abc".to_vec()]);
}

#[test]
fn bundles_that_are_not_sent_go_back() {
    Team::new(1, Way::Shm, small()).run(|messenger| {
        for _ in 0..1000 {
            assert!(messenger.bundle(0, 0).unwrap().push(b"never sent"));
            let empty = messenger.bundle(0, 0).unwrap().send();
            assert_eq!(messenger.poll_completion(empty), Ok(true));
        }
        let mut sent = 0;
        let full = loop {
            match messenger.bundle(0, 0) {
                Ok(mut bundle) => assert!(bundle.push(b"to itself")),
                Err(error) => break error,
            }
            messenger.bundle(0, 0).map(|mut bundle| bundle.push_value(sent).then(|| bundle.send())).unwrap();
            sent += 1;
        };
        assert_eq!(full, SendError::Full);
        let mut heard = Vec::new();
        messenger.receive_values(0, |_, _, value: i32| heard.push(value)).unwrap();
        assert!(sent > 0 && heard == (0..sent).collect::<Vec<_>>());
        assert!(messenger.bundle(0, 0).is_ok());
        assert!(matches!(messenger.bundle(0, 1), Err(SendError::NoSuchRank { rank: 1, ranks: 1 })));
        assert!(matches!(messenger.bundle(1, 0), Err(SendError::NoSuchSpace { space: 1, spaces: 1 })));
    });
}

#[test]
fn messages_of_one_size_have_heads_only_once_there_are_others() {
    Team::new(2, Way::Shm, small()).run(|messenger| {
        let mut seen = Vec::new();
        if messenger.rank() == 0 {
            for others in [&[][..], &[3, 0, 70]] {
                let mut bundle = messenger.bundle(0, 1).unwrap();
                assert!((0..20u64).all(|number| bundle.push_value(number)));
                assert_eq!(bundle.len(), 20 * 8, "no heads so far");
                assert!(others.iter().all(|len| bundle.push(&vec![9; *len])));
                bundle.send();
            }
            let mut full = messenger.bundle(0, 1).unwrap();
            assert!((0..128u64).all(|number| full.push_value(number)) && !full.push_value(0u64));
            assert!(!full.push(b"other"), "heads for all do not fit");
            full.send();
        }
        messenger
            .quiesce_bundles(0, |_, bundle| {
                let messages = bundle.messages().map(|message| message.unwrap().to_vec());
                seen.push((bundle.each(), messages.collect::<Vec<_>>()));
            })
            .unwrap();
        seen.sort_by_key(|(each, messages)| (each.is_none(), messages.len()));
        let numbers = |count: u64| (0..count).map(|number| number.to_le_bytes().to_vec());
        let mixed = numbers(20).chain([3, 0, 70].map(|len| vec![9; len])).collect();
        if messenger.rank() == 1 {
            let expected =
                [(Some(8), numbers(20).collect()), (Some(8), numbers(128).collect()), (None, mixed)];
            assert_eq!(seen, expected);
        }
    });
}
