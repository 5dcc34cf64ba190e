//! Full is an ordinary answer, and nothing is lost over it.

use outboard_link::{Disposition, FrameSendError, Link};

use crate::fixture::Fixture;
use crate::pair::{Pair, Patience, Sent, frame, receive_into};

/// More than any link may swallow before it says that it is full.
const SWALLOW_MAX: usize = 256 << 20;
const LEN: usize = 3000;

/// Sends numbered frames from one side until it is told `Full` for good: time passes and it stays full.
fn fill<F: Fixture>(pair: &mut Pair<F>, next: &mut u32) {
    let mut refusals = 0;
    while refusals < 15 {
        let sent = frame(*next, LEN);
        match pair.ada.send(sent.head, &sent.payload) {
            Ok(()) => {
                *next += 1;
                refusals = 0;
                assert!((*next as usize) * LEN < SWALLOW_MAX, "never full");
            }
            Err(FrameSendError::Full) => {
                refusals += 1;
                pair.ada.flush().unwrap();
                pair.settle();
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// A batch that fills the link is seen by the peer without a flush: how else would there ever be room?
pub(crate) fn ends_without_a_flush<F: Fixture>() {
    let mut pair = Pair::<F>::new();
    let mut sent = 0;
    while pair.ada.send(frame(sent, LEN).head, &frame(sent, LEN).payload).is_ok() {
        sent += 1;
    }
    let next = frame(sent, LEN);
    let mut taken = Vec::new();
    let patience = Patience::new("room, and frames at the other side, without a flush");
    let mut has_room = false;
    while !has_room || taken.is_empty() {
        has_room |= pair.ada.send(next.head, &next.payload).is_ok();
        pair.ada.prepare_to_wait();
        pair.turn();
        receive_into(&mut pair.ben, 100, &mut taken).unwrap();
        patience.check();
    }
    assert_eq!(taken[0], frame(0, LEN));
}

/// Fill until full, drain, continue, several times: every frame arrives once.
pub(crate) fn loses_nothing<F: Fixture>() {
    let mut pair = Pair::<F>::new();
    let (mut sent, mut received) = (0, 0);
    for round in 0..3 {
        let full_before = pair.ada.counters().full;
        fill(&mut pair, &mut sent);
        assert!(pair.ada.counters().full > full_before, "being full is counted");
        assert!(sent > received, "a drained link takes frames again in round {round}");
        // Not to the last frame, so that the rounds overlap.
        let until = if round == 2 { sent } else { sent - 1 };
        for taken in pair.take((until - received) as usize) {
            assert_eq!(taken, frame(received, LEN));
            received += 1;
        }
    }
    pair.settle();
    assert_eq!(receive_into(&mut pair.ben, 9, &mut Vec::new()).unwrap(), 0, "nothing comes twice");
    pair.assert_alive();
}

/// Both sides fill up without receiving, and both get free again.
pub(crate) fn does_not_deadlock<F: Fixture>() {
    let mut pair = Pair::<F>::new();
    let (mut there, mut back) = (0, 0);
    fill(&mut pair, &mut there);
    std::mem::swap(&mut pair.ada, &mut pair.ben);
    fill(&mut pair, &mut back);
    std::mem::swap(&mut pair.ada, &mut pair.ben);
    let (mut at_ben, mut at_ada) = (0, 0);
    let patience = Patience::new("both sides to drain");
    while (at_ben, at_ada) != (there, back) {
        pair.turn();
        at_ben += receive_into(&mut pair.ben, 3, &mut Vec::new()).unwrap() as u32;
        at_ada += receive_into(&mut pair.ada, 3, &mut Vec::new()).unwrap() as u32;
        patience.check();
    }
    pair.assert_alive();
}

/// A frame that the receiver has no room for comes again, and holds back those behind it.
pub(crate) fn defers_frames<F: Fixture>() {
    let mut pair = Pair::<F>::new();
    let sent: Vec<Sent> = (0..6).map(|number| frame(number, 200 * number as usize)).collect();
    for frame in &sent {
        pair.ada.send(frame.head, &frame.payload).unwrap();
    }
    pair.ada.flush().unwrap();
    pair.until("a frame to be offered", |pair| {
        let mut is_offered = None;
        let offered = pair.ben.receive(1, |_| {
            is_offered = Some(());
            Disposition::Deferred
        });
        offered.map(|_| is_offered).unwrap()
    });
    pair.settle();

    for _ in 0..3 {
        let mut offered = Vec::new();
        let taken = pair.ben.receive(10, |frame| {
            offered.push(frame.head);
            Disposition::Deferred
        });
        assert_eq!((taken.unwrap(), offered), (0, vec![sent[0].head]), "nothing overtakes it");
        assert!(pair.ben.prepare_to_wait(), "a deferred frame keeps no side awake");
    }

    let mut received = Vec::new();
    let taken = pair.ben.receive(10, |frame| {
        if received.len() == 3 {
            return Disposition::Deferred;
        }
        received.push(Sent { head: frame.head, payload: frame.payload.to_vec() });
        Disposition::Taken
    });
    assert_eq!(taken.unwrap(), 3, "a deferred frame is not counted");
    received.extend(pair.take(3));
    assert_eq!(received, sent);
    assert_eq!(pair.ben.counters().frames_received, 6);
}
