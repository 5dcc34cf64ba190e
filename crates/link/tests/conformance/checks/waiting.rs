//! A side that sleeps is woken, and no side waits longer than it said.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use outboard_link::{Disposition, FrameSendError, Link, LinkError, Loss, Waiter};

use crate::fixture::{ADA, BEN, Fixture, Sides};
use crate::pair::{LIMIT, Sent, frame, receive_into};

/// Sleeps at once: every wait depends on being woken.
fn sleeper() -> Waiter {
    Waiter::new().with_spin(Duration::ZERO)
}

fn wait_for_frame(waiter: &Waiter, link: &mut impl Link, limit: Duration) -> Result<Sent, LinkError> {
    waiter.until(link, limit, "a frame", |link| {
        let mut frames = Vec::new();
        receive_into(link, 1, &mut frames)?;
        Ok(frames.pop())
    })
}

fn wait_for_room(waiter: &Waiter, link: &mut impl Link, sent: &Sent) -> Result<(), LinkError> {
    waiter.until(link, LIMIT, "room", |link| match link.send(sent.head, &sent.payload) {
        Ok(()) => link.flush().map(Some),
        Err(FrameSendError::Full) => Ok(None),
        Err(FrameSendError::Lost(lost)) => Err(lost),
        Err(error) => panic!("{error}"),
    })
}

/// Hundreds of questions and answers between two sides that both sleep in between.
pub(crate) fn is_ended_by_frames<F: Fixture>() {
    let (mut ada, mut ben) = F::pair(&Sides::default());
    let rounds = 300;
    let echo = std::thread::spawn(move || {
        let waiter = sleeper();
        for _ in 0..rounds {
            let question = wait_for_frame(&waiter, &mut ben, LIMIT).unwrap();
            wait_for_room(&waiter, &mut ben, &question).unwrap();
        }
        // Its last answer may still be on its way.
        let lost = wait_for_frame(&waiter, &mut ben, LIMIT).unwrap_err();
        assert_eq!(lost.loss, Loss::Closed { reason: "enough".to_owned() }, "{lost}");
    });
    let waiter = sleeper();
    for number in 0..rounds {
        let question = frame(number, 100);
        wait_for_room(&waiter, &mut ada, &question).unwrap();
        assert_eq!(wait_for_frame(&waiter, &mut ada, LIMIT).unwrap(), question);
    }
    ada.close("enough");
    echo.join().unwrap();
}

/// A sender that sleeps because everything is full is woken when the receiver makes room.
pub(crate) fn is_ended_by_room<F: Fixture>() {
    let (mut ada, mut ben) = F::pair(&Sides::default());
    let total = 3000;
    let len = 3000;
    let (full, is_full) = mpsc::channel();
    let receiver = std::thread::spawn(move || {
        // Begins only when the sender has met a full link.
        is_full.recv_timeout(LIMIT).unwrap();
        let waiter = sleeper();
        for number in 0..total {
            assert_eq!(wait_for_frame(&waiter, &mut ben, LIMIT).unwrap(), frame(number, len));
        }
        ben.close("all taken");
        ben
    });
    let waiter = sleeper();
    for number in 0..total {
        wait_for_room_or_tell(&waiter, &mut ada, &frame(number, len), &full).unwrap();
    }
    // A link that can swallow all of it was never full.
    let _ = full.send(());
    let closed = wait_for_frame(&waiter, &mut ada, LIMIT).unwrap_err();
    assert_eq!(closed.loss, Loss::Closed { reason: "all taken".to_owned() }, "{closed}");
    receiver.join().unwrap();
}

fn wait_for_room_or_tell(
    waiter: &Waiter,
    link: &mut impl Link,
    sent: &Sent,
    full: &mpsc::Sender<()>,
) -> Result<(), LinkError> {
    waiter.until(link, LIMIT, "room", |link| match link.send(sent.head, &sent.payload) {
        Ok(()) => link.flush().map(Some),
        Err(FrameSendError::Full) => {
            link.flush()?;
            let _ = full.send(());
            Ok(None)
        }
        Err(FrameSendError::Lost(lost)) => Err(lost),
        Err(error) => panic!("{error}"),
    })
}

/// A side that sleeps learns of the other's death, well before its own limit.
pub(crate) fn is_ended_by_death<F: Fixture>() {
    for _ in 0..10 {
        let (mut ada, ben) = F::pair(&Sides::default());
        let (asleep, is_asleep) = mpsc::channel();
        let mourner = std::thread::spawn(move || {
            let waiter = sleeper();
            asleep.send(()).unwrap();
            wait_for_frame(&waiter, &mut ada, LIMIT).unwrap_err()
        });
        is_asleep.recv_timeout(LIMIT).unwrap();
        drop(ben);
        let lost = mourner.join().unwrap();
        assert!(lost.to_string().contains(BEN), "{lost}");
        assert!(matches!(lost.loss, Loss::Gone | Loss::System { .. }), "{lost}");
    }
}

/// A wait that leads to nothing ends at its limit and says what was awaited from whom; the link lives.
pub(crate) fn is_ended_by_its_limit<F: Fixture>() {
    let (mut ada, mut ben) = F::pair(&Sides::default());
    let limit = Duration::from_millis(30);
    let began = Instant::now();
    let waiter = sleeper();
    let stalled = waiter.until(&mut ben, limit, "a word that is never said", |link| {
        let taken = link.receive(1, |_| Disposition::Taken)?;
        Ok((taken > 0).then_some(()))
    });
    let stalled = stalled.unwrap_err();
    match &stalled.loss {
        Loss::Stalled { silent, awaited } => {
            assert!(*silent >= limit);
            assert_eq!(*awaited, "a word that is never said");
        }
        other => panic!("{other}"),
    }
    let text = stalled.to_string();
    assert!(text.contains(ADA) && text.contains("a word that is never said"), "{text}");
    assert!((limit..LIMIT).contains(&began.elapsed()));
    let sent = frame(1, 10);
    wait_for_room(&waiter, &mut ada, &sent).unwrap();
    ada.flush().unwrap();
    let received = waiter.until(&mut ben, LIMIT, "a frame", |link| {
        // Both ends live in this thread: neither may sleep while the other has something to do.
        let _ = ada.progress(waiter.clock.now());
        let mut frames = Vec::new();
        receive_into(link, 1, &mut frames)?;
        Ok(frames.pop())
    });
    assert_eq!(received.unwrap(), sent);
}
