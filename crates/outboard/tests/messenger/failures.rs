//! Refusals, and ranks that go.

use std::time::{Duration, Instant};

use outboard::{MessengerError, MessengerOptions, SendError};

use crate::team::{Team, Way, small};

#[test]
fn wrong_input_is_refused_and_disturbs_no_rank() {
    let options = MessengerOptions { longest: 10_000, ..small() };
    Team::new(2, Way::Shm, options.clone()).run(|messenger| {
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
    let results = Team::new(3, Way::Shm, small()).run(|messenger| {
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
    let team = Team::new(2, Way::Shm, MessengerOptions::default());
    let team = team.adjusted(|rank, _, options| options.bundle = 1024 << rank);
    let errors = team.try_run(|messenger| match messenger {
        Ok(mut messenger) => messenger.barrier().err().map(|error| error.to_string()),
        Err(error) => Some(error.to_string()),
    });
    assert!(errors.iter().flatten().any(|error| error.contains("same settings")), "{errors:?}");
}

#[test]
fn a_message_that_is_too_long_for_its_receiver_is_told_and_the_rest_arrives() {
    let team = Team::new(2, Way::Shm, small());
    let team = team.adjusted(|rank, _, options| options.longest = if rank == 0 { 200_000 } else { 100_000 });
    team.run(|messenger| {
        if messenger.rank() == 0 {
            messenger.send(1, &[7; 150_000]).unwrap();
            messenger.send(1, b"short").unwrap();
        }
        let (mut errors, mut heard, began) = (Vec::new(), Vec::new(), Instant::now());
        messenger.begin_quiesce(0).unwrap();
        while !messenger.poll_quiesce(0).unwrap() {
            let received = messenger.receive(0, |_, _, bytes| heard.push(bytes.to_vec()));
            errors.extend(received.err().map(|error| error.to_string()));
            assert!(began.elapsed() < Duration::from_secs(60));
        }
        if messenger.rank() == 1 {
            assert_eq!(heard, [b"short".to_vec()]);
            assert!(errors.iter().all(|error| error.contains("rank 0") && error.contains("150000")));
            assert!(!errors.is_empty());
        }
    });
}
