//! Message spaces, each for itself.

use std::time::{Duration, Instant};

use outboard::{MessengerOptions, SendError};

use crate::team::{Team, Way, small};

#[test]
fn spaces_do_not_mix_and_end_on_their_own() {
    Team::new(3, Way::Shm, small().with_spaces(3)).run(|messenger| {
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

#[test]
fn a_rank_that_is_through_keeps_no_other_waiting() {
    let outside = std::sync::Barrier::new(3);
    Team::new(3, Way::Shm, small()).run(|messenger| {
        for _ in 0..20 {
            messenger.barrier().unwrap();
            // No rank calls the messenger until all are through.
            outside.wait();
            messenger.quiesce(0, |_, _, _| ()).unwrap();
            outside.wait();
        }
    });
}

#[test]
fn what_waits_in_one_space_holds_up_no_other() {
    const LONG: usize = 100_000;
    let patience = Duration::from_secs(20);
    let options = MessengerOptions { longest: LONG, deadline: patience, ..small() }.with_spaces(2);
    Team::new(2, Way::Shm, options).run(|messenger| {
        let (began, mut heard, mut sent) = (Instant::now(), 0, 0);
        if messenger.rank() == 0 {
            // Until nothing more is taken: the other rank does not receive in this space.
            while messenger.send_in(0, 1, &[7; LONG]).is_ok() {
                sent += 1;
            }
            assert_eq!(messenger.send_in(0, 1, &[7; LONG]), Err(SendError::Full));
            messenger.send_in(1, 1, &[8; LONG]).unwrap();
        } else {
            while heard == 0 && began.elapsed() < patience {
                messenger.receive(1, |_, _, bytes| heard += usize::from(bytes == [8; LONG])).unwrap();
                messenger.pause().unwrap();
            }
            assert_eq!(heard, 1, "a message waited for those of another space");
        }
        messenger.quiesce(1, |_, _, _| panic!("there was one message")).unwrap();
        let mut rest = 0;
        messenger.quiesce(0, |_, _, bytes| rest += usize::from(bytes == [7; LONG])).unwrap();
        assert!(sent > 0 || rest > 0);
    });
}
