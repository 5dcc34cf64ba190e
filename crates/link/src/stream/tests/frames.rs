use super::*;
use crate::{FrameSendError, Loss};

#[test]
fn frames_arrive_in_order_once_they_are_flushed() {
    let mut pair = Pair::new(FaultPlan::none());
    for number in 0..10u8 {
        pair.first.send(NOTE, &vec![number; usize::from(number) * 100]).unwrap();
    }
    pair.settle().unwrap();
    assert!(take_all(&mut pair.second).unwrap().is_empty(), "nothing is visible before the flush");
    pair.first.flush().unwrap();
    pair.settle().unwrap();
    let frames = take_all(&mut pair.second).unwrap();
    assert_eq!(frames, (0..10u8).map(|n| vec![n; usize::from(n) * 100]).collect::<Vec<_>>());
    assert_eq!(pair.first.counters().frames_sent, 10);
    assert_eq!(pair.second.counters().frames_received, 10);
}

#[test]
fn a_reserved_frame_may_shrink_and_may_be_abandoned() {
    let mut pair = Pair::new(FaultPlan::none());
    pair.first.reserve(NOTE, 100).unwrap().write(0, &[1; 100]);
    pair.first.reserve(NOTE.with_tag(9), 50).unwrap().write(0, &[2; 50]);
    pair.first.commit(20);
    pair.first.flush().unwrap();
    pair.settle().unwrap();
    let mut heads = Vec::new();
    let taken = pair.second.receive(9, |frame| {
        heads.push((frame.head.tag, frame.payload.to_vec()));
        Disposition::Taken
    });
    assert_eq!(taken.unwrap(), 1);
    assert_eq!(heads, [(9, vec![2; 20])]);
}

#[test]
fn back_pressure_reaches_the_sender_and_ends() {
    let mut pair = Pair::new(FaultPlan::none());
    let longest = pair.first.capabilities().max_payload;
    assert!(matches!(pair.first.send(NOTE, &vec![0; longest + 1]), Err(FrameSendError::TooLong { .. })));
    let mut sent = 0u32;
    for _ in 0..100 {
        while pair.first.send(NOTE, &vec![sent as u8; longest]).is_ok() {
            sent += 1;
        }
        pair.settle().unwrap();
    }
    assert!(matches!(pair.first.send(NOTE, &[]), Ok(()) | Err(FrameSendError::Full)));
    assert!(sent < 12, "an unread link takes {sent} frames of {longest} bytes");
    let mut seen = 0u32;
    while seen < sent {
        pair.settle().unwrap();
        for frame in take_all(&mut pair.second).unwrap().into_iter().filter(|frame| !frame.is_empty()) {
            assert_eq!(frame, vec![seen as u8; longest]);
            seen += 1;
        }
    }
    pair.first.send(NOTE, &vec![0; longest]).unwrap();
}

#[test]
fn a_deferred_frame_holds_back_everything_behind_it() {
    let mut pair = Pair::new(FaultPlan::none());
    pair.first.send(NOTE, b"one").unwrap();
    pair.first.send(NOTE, b"two").unwrap();
    let grant = pair.grant;
    pair.first.open(&grant, Rights::READ, Token(3)).unwrap();
    pair.first.flush().unwrap();
    pair.settle().unwrap();
    let taken = pair.second.receive(9, |frame| {
        if frame.payload.to_vec() == b"one" { Disposition::Taken } else { Disposition::Deferred }
    });
    assert_eq!(taken.unwrap(), 1);
    pair.settle().unwrap();
    assert_eq!(pair.first.completions(|_| panic!("the opening is behind the frame")), 0);
    assert!(pair.second.prepare_to_wait(), "a deferred frame keeps no side awake");
    assert_eq!(take_all(&mut pair.second).unwrap(), [b"two".to_vec()]);
    assert_eq!(pair.complete().unwrap().len(), 1);
}

#[test]
fn a_goodbye_comes_after_what_was_sent_before_it() {
    let mut pair = Pair::new(FaultPlan::none());
    pair.first.send(NOTE, b"last words").unwrap();
    pair.first.close("work is done");
    assert!(matches!(pair.first.progress(pair.now), Err(LinkError { loss: Loss::ClosedHere, .. })));
    assert!(matches!(pair.first.send(NOTE, b""), Err(FrameSendError::Lost(_))));
    for _ in 0..3 {
        pair.second.progress(pair.now).unwrap();
    }
    assert_eq!(take_all(&mut pair.second).unwrap(), [b"last words".to_vec()]);
    for _ in 0..2 {
        let lost = pair.second.progress(pair.now).unwrap_err();
        assert_eq!(lost.loss, Loss::Closed { reason: "work is done".to_owned() });
        assert!(lost.to_string().contains("first"), "{lost}");
    }
    assert!(pair.second.receive(1, |_| Disposition::Taken).is_err());
}

#[test]
fn a_goodbye_reaches_a_peer_that_lags_behind() {
    let mut pair = Pair::new(FaultPlan::none());
    let mut sent = 0;
    while pair.first.send(NOTE, &[7; 1000]).is_ok() {
        sent += 1;
    }
    pair.first.close("enough");
    let mut seen = 0;
    let lost = loop {
        // The closed side is still asked to progress, so what it could not send at once leaves now.
        assert!(pair.first.progress(pair.now).is_err());
        match pair.second.progress(pair.now) {
            Ok(_) => seen += take_all(&mut pair.second).unwrap().len(),
            Err(lost) => break lost,
        }
    };
    assert_eq!((seen, lost.loss), (sent, Loss::Closed { reason: "enough".to_owned() }));
}

#[test]
fn a_peer_that_hangs_up_is_gone_once_its_frames_are_taken() {
    let mut pair = Pair::new(FaultPlan::none());
    pair.first.send(NOTE, b"almost").unwrap();
    pair.first.flush().unwrap();
    let Pair { first, mut second, now, .. } = pair;
    drop(first);
    for _ in 0..3 {
        second.progress(now).unwrap();
        let _ = second.flush();
    }
    assert!(!second.prepare_to_wait());
    assert_eq!(take_all(&mut second).unwrap(), [b"almost".to_vec()]);
    assert_eq!(second.progress(now).unwrap_err().loss, Loss::Gone);
    assert_eq!(second.flush().unwrap_err().loss, Loss::Gone);
}
