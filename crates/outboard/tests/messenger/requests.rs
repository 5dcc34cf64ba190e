//! Requests and their replies.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use outboard::{Conveyor, Messenger, MessengerError, Requests, SendError};

use crate::team::{Team, Way, small};

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
fn conveyors_carry_requests_and_replies() {
    const ITEMS: u64 = 5000;
    Team::new(4, Way::Shm, small().with_spaces(2)).run(|messenger| {
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

/// The answer of a rank to a request.
fn reply(rank: u32, from: u32, request: u32) -> u64 {
    u64::from(request) << 32 | u64::from(rank) << 8 | u64::from(from)
}

#[test]
fn every_request_is_answered_once() {
    const REQUESTS: u32 = 5000;
    for way in Way::ALL {
        Team::new(4, way, small().with_spaces(3)).run(|messenger| {
            let (me, ranks) = (messenger.rank(), messenger.ranks());
            let mut requests = Requests::<u32, u64>::new(messenger, 2, 0).unwrap();
            for round in 0..2u32 {
                let mut found = vec![None; REQUESTS as usize];
                let mut keep = |from: u32, token: u32, value: u64| {
                    assert_eq!(found[token as usize].replace((from, value)), None, "answered twice");
                };
                for token in 0..REQUESTS {
                    while let Err(error) = requests.ask(messenger, token % ranks, token, token + round) {
                        assert_eq!(error, SendError::Full);
                        requests.answer(messenger, |from, request| reply(me, from, request)).unwrap();
                        requests.collect(messenger, &mut keep).unwrap();
                        messenger.pause().unwrap();
                    }
                }
                requests.settle(messenger, |from, request| reply(me, from, request), &mut keep).unwrap();
                assert_eq!((requests.outstanding(), requests.outstanding_from(1)), (0, 0));
                for (token, found) in (0..).zip(found) {
                    assert_eq!(found, Some((token % ranks, reply(token % ranks, me, token + round))));
                }
            }
        });
    }
}

#[test]
fn a_rank_that_answers_can_look_ahead() {
    Team::new(1, Way::Shm, small().with_spaces(2)).run(|messenger| {
        let mut requests = Requests::<u32, u32>::new(messenger, 0, 1).unwrap();
        (0..10).for_each(|token| requests.ask(messenger, 0, token, 10 * token).unwrap());
        messenger.flush().unwrap();
        let mut later = Vec::new();
        let answer = |_, request, ahead| {
            later.push(ahead);
            request + 1
        };
        assert_eq!(requests.answer_looking_ahead(messenger, 8, answer).unwrap(), 10);
        assert_eq!(later, [&[Some(80), Some(90)][..], &[None; 8][..]].concat());
        let mut found = Vec::new();
        messenger.flush_in(1).unwrap();
        requests.collect(messenger, |_, token, value| found.push((token, value))).unwrap();
        assert_eq!(found, (0..10).map(|token| (token, 10 * token + 1)).collect::<Vec<_>>());
        assert!(Requests::<u32, u32>::new(messenger, 1, 1).is_err());
        assert!(Requests::<u32, u32>::new(messenger, 0, 2).is_err());
    });
}

#[test]
fn a_rank_that_goes_leaves_its_requests_unanswered_and_the_rest_go_on() {
    const LOST: u64 = 7;
    let (asked, done) = (Barrier::new(3), AtomicU32::new(0));
    Team::new(3, Way::Shm, small().with_spaces(2)).run(|messenger| {
        let (me, began) = (messenger.rank(), Instant::now());
        if me == 2 {
            asked.wait();
            return;
        }
        let mut requests = Requests::<u32, u32>::new(messenger, 0, 1).unwrap();
        (0..LOST as u32).for_each(|token| requests.ask(messenger, 2, token, 0).unwrap());
        requests.ask(messenger, 1 - me, 99, me).unwrap();
        messenger.flush().unwrap();
        asked.wait();
        let (mut found, mut lost) = (Vec::new(), None);
        while found.is_empty() || lost.is_none() {
            requests.answer(messenger, |_, request| request + 100).unwrap();
            match requests.collect(messenger, |from, token, value| found.push((from, token, value))) {
                Err(MessengerError::Unanswered { rank, requests, .. }) => lost = Some((rank, requests)),
                other => assert!(other.is_ok(), "{other:?}"),
            }
            assert!(began.elapsed() < Duration::from_secs(30), "{found:?} {lost:?}");
        }
        assert_eq!((found, lost), (vec![(1 - me, 99, me + 100)], Some((2, LOST))));
        assert_eq!(requests.outstanding(), 0);
        assert!(matches!(requests.ask(messenger, 2, 0, 0), Err(SendError::Departed { rank: 2, .. })));
        // The other one may still wait for its reply.
        done.fetch_add(1, Ordering::SeqCst);
        while done.load(Ordering::SeqCst) < 2 && began.elapsed() < Duration::from_secs(30) {
            requests.answer(messenger, |_, request| request + 100).unwrap();
            messenger.flush_in(1).unwrap();
        }
    });
}
