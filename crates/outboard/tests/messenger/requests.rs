//! Requests and their replies.

use outboard::{Conveyor, Messenger};

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
