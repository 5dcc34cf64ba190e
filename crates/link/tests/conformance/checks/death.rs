//! A lost peer is reported by name, after what it had sent.

use outboard_link::memory::Buffer;
use outboard_link::{AccessError, Disposition, FrameSendError, Link, LinkError, Loss, RemoteMemory, Token};
use outboard_wire::Rights;

use crate::fixture::{ADA, BEN, Fixture, Sides};
use crate::pair::{ALL, Pair, Patience, Sent, frame, receive_into, region};

/// Receives until the link is lost.
#[track_caller]
fn receive_to_the_end<F: Fixture>(pair: &mut Survivor<F>) -> (Vec<Sent>, LinkError) {
    let mut frames = Vec::new();
    let patience = Patience::new("the loss to be reported");
    loop {
        // Either call may be the one that reports it; nothing may arrive after that.
        let now = pair.clock.now();
        let result = pair.link.progress(now).and_then(|_| receive_into(&mut pair.link, 3, &mut frames));
        if let Err(lost) = result {
            return (frames, lost);
        }
        patience.check();
    }
}

struct Survivor<F: Fixture> {
    link: F::Link,
    clock: crate::fixture::TestClock,
}

#[track_caller]
fn assert_gone(lost: &LinkError, name: &str) {
    let gone = matches!(lost.loss, Loss::Gone | Loss::System { .. } | Loss::Stalled { .. });
    assert!(gone, "a peer that dies without a word is not {:?}", lost.loss);
    assert!(lost.to_string().contains(name), "{lost}");
    assert_eq!(lost.peer.intro().name.as_str(), name);
}

/// A peer dies in the middle of a batch: what it flushed arrives, the rest does not, then it is mourned by name.
pub(crate) fn in_the_middle_of_a_batch<F: Fixture>() {
    let mut pair = Pair::<F>::new();
    let flushed: Vec<Sent> = (0..20).map(|number| frame(number, 300)).collect();
    for sent in &flushed {
        pair.ada.send(sent.head, &sent.payload).unwrap();
    }
    pair.ada.flush().unwrap();
    pair.settle();
    for number in 20..25 {
        let never = frame(number, 300);
        pair.ada.send(never.head, &never.payload).unwrap();
    }
    pair.ada.reserve(frame(25, 0).head, 100).unwrap();
    let Pair { ada, ben, clock } = pair;
    drop(ada);
    let mut survivor = Survivor::<F> { link: ben, clock };
    let (received, lost) = receive_to_the_end(&mut survivor);
    assert_eq!(received, flushed);
    assert_gone(&lost, ADA);
    assert_stays_lost(&mut survivor);
}

/// A peer dies and leaves a frame for which there is no room: the survivor does not wait for ever for room to answer the dead.
pub(crate) fn before_a_frame_that_is_deferred<F: Fixture>() {
    let mut pair = Pair::<F>::new();
    for number in 0..3 {
        let sent = frame(number, 300);
        pair.ada.send(sent.head, &sent.payload).unwrap();
    }
    pair.ada.flush().unwrap();
    pair.settle();
    let Pair { ada, mut ben, clock } = pair;
    drop(ada);
    let patience = Patience::new("the loss to be reported");
    let lost = loop {
        let result = ben.progress(clock.now()).and_then(|_| ben.receive(3, |_| Disposition::Deferred));
        match result {
            Ok(taken) => assert_eq!(taken, 0),
            Err(lost) => break lost,
        }
        patience.check();
    };
    assert_gone(&lost, ADA);
    assert_stays_lost(&mut Survivor::<F> { link: ben, clock });
}

/// The other side of the handshake is mourned as well.
pub(crate) fn of_the_accepting_side<F: Fixture>() {
    let Pair { ada, ben, clock } = Pair::<F>::new();
    drop(ben);
    let mut survivor = Survivor::<F> { link: ada, clock };
    let (received, lost) = receive_to_the_end(&mut survivor);
    assert_eq!(received, []);
    assert_gone(&lost, BEN);
    assert_stays_lost(&mut survivor);
}

#[track_caller]
fn assert_stays_lost<F: Fixture>(survivor: &mut Survivor<F>) {
    let sent = frame(1, 10);
    for _ in 0..3 {
        let now = survivor.clock.now();
        assert!(matches!(survivor.link.send(sent.head, &sent.payload), Err(FrameSendError::Lost(_))));
        assert!(survivor.link.flush().is_err());
        assert!(survivor.link.progress(now).is_err());
        assert!(receive_into(&mut survivor.link, 1, &mut Vec::new()).is_err());
        assert!(!survivor.link.prepare_to_wait(), "no side sleeps on a lost link");
    }
}

/// A goodbye brings its reason, after the frames that were flushed before it.
pub(crate) fn with_a_goodbye<F: Fixture>() {
    let mut pair = Pair::<F>::new();
    let flushed: Vec<Sent> = (0..7).map(|number| frame(number, 50)).collect();
    for sent in &flushed {
        pair.ada.send(sent.head, &sent.payload).unwrap();
    }
    pair.ada.flush().unwrap();
    pair.ada.close("the work is done");
    let here = pair.ada.progress(pair.clock.now()).unwrap_err();
    assert_eq!(here.loss, Loss::ClosedHere, "{here}");
    assert!(matches!(pair.ada.send(flushed[0].head, &[]), Err(FrameSendError::Lost(_))));
    let Pair { ada, ben, clock } = pair;
    let mut survivor = Survivor::<F> { link: ben, clock };
    let (received, lost) = receive_to_the_end(&mut survivor);
    assert_eq!(received, flushed);
    assert_eq!(lost.loss, Loss::Closed { reason: "the work is done".to_owned() });
    assert!(lost.to_string().contains(ADA) && lost.to_string().contains("the work is done"), "{lost}");
    assert_stays_lost(&mut survivor);
    drop(ada);
}

/// Operations under way when the owner dies end once each, done or lost.
pub(crate) fn ends_operations<F: Fixture>() {
    let sides = Sides::default();
    let export = region(1);
    let grant = export.grant(ALL).unwrap();
    sides.ben.add(export);
    let mut pair = Pair::<F>::with(&sides);
    let opened = pair.open(&grant, Rights::ALL).unwrap();
    let buffer = Buffer::allocate(4096).unwrap();
    let Pair { mut ada, ben, clock } = pair;
    // Ben makes no progress any more: a peer that needs it for an operation waits for him.
    for token in 0..8 {
        ada.read(opened, token * 64, &buffer, 0, 64, Token(token)).unwrap();
    }
    drop(ben);
    let mut survivor = Survivor::<F> { link: ada, clock };
    let (_, lost) = receive_to_the_end(&mut survivor);
    assert_gone(&lost, BEN);
    let mut ended = Vec::new();
    survivor.link.completions(|completion| ended.push(completion));
    ended.sort_by_key(|completion| completion.token);
    let tokens: Vec<u64> = ended.iter().map(|completion| completion.token.0).collect();
    assert_eq!(tokens, [0, 1, 2, 3, 4, 5, 6, 7], "each ends once");
    for completion in &ended {
        assert!(matches!(completion.result, Ok(_) | Err(AccessError::Lost(_))), "{completion:?}");
    }
    let refused = survivor.link.fetch_add(opened, 0, 1, Token(9)).unwrap_err();
    assert!(matches!(refused, AccessError::Lost(_)), "{refused}");
    assert_eq!(survivor.link.completions(|_| ()), 0);
}
