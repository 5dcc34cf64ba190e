//! Frames arrive whole, in order, each once.

use std::panic::{AssertUnwindSafe, catch_unwind};

use outboard_link::{FrameSendError, Link};

use crate::fixture::Fixture;
use crate::pair::{Pair, Patience, Sent, frame, receive_into};

/// One direction of a conversation with batches and turns of random sizes.
struct Talk {
    random: fastrand::Rng,
    sent: u32,
    received: u32,
    total: u32,
}

impl Talk {
    fn new(seed: u64, total: u32) -> Self {
        Self { random: fastrand::Rng::with_seed(seed), sent: 0, received: 0, total }
    }

    fn nth(number: u32) -> Sent {
        let len = fastrand::Rng::with_seed(u64::from(number) << 32).usize(0..2000);
        frame(number, if number.is_multiple_of(3) { len % 40 } else { len })
    }

    fn send_batch(&mut self, link: &mut impl Link) {
        let batch = self.random.u32(0..20).min(self.total - self.sent);
        let frames: Vec<Sent> = (self.sent..self.sent + batch).map(Self::nth).collect();
        if self.random.bool() {
            match link.send_batch(frames.iter().map(|next| (next.head, &next.payload[..]))) {
                Ok(sent) => self.sent += sent as u32,
                Err(FrameSendError::Full) => {}
                Err(error) => panic!("{error}"),
            }
        } else {
            for next in frames {
                match link.send(next.head, &next.payload) {
                    Ok(()) => self.sent += 1,
                    Err(FrameSendError::Full) => break,
                    Err(error) => panic!("{error}"),
                }
            }
        }
        link.flush().unwrap();
    }

    fn receive_some(&mut self, link: &mut impl Link) {
        let mut frames = Vec::new();
        let max = self.random.usize(0..30);
        let taken = receive_into(link, max, &mut frames).unwrap();
        assert!(taken <= max && taken == frames.len());
        for received in frames {
            assert_eq!(received, Self::nth(self.received), "frame {}", self.received);
            self.received += 1;
        }
    }
}

/// A batch ends before what can never be sent, and says how far it came.
pub(crate) fn end_a_batch_before_what_is_too_long<F: Fixture>() {
    let mut pair = Pair::<F>::new();
    let max = pair.ada.capabilities().max_payload;
    let good = frame(7, 100);
    let long = vec![0; max + 1];
    let batch = [(good.head, &good.payload[..]), (good.head, &long[..]), (good.head, &good.payload[..])];
    assert_eq!(pair.ada.send_batch(batch).unwrap(), 1);
    let refused = pair.ada.send_batch(batch.into_iter().skip(1)).unwrap_err();
    assert!(matches!(refused, FrameSendError::TooLong { len, max: most } if len == max + 1 && most == max));
    pair.ada.flush().unwrap();
    assert_eq!(pair.take(1), [good]);
    assert_eq!(pair.ada.counters().frames_sent, 1);
}

/// Thousands of frames in both directions at once, in batches and turns of random sizes.
pub(crate) fn arrive_in_order<F: Fixture>() {
    let mut pair = Pair::<F>::new();
    let mut there = Talk::new(1, 4000);
    let mut back = Talk::new(2, 4000);
    let patience = Patience::new("frames in both directions");
    while there.received < there.total || back.received < back.total {
        there.send_batch(&mut pair.ada);
        back.send_batch(&mut pair.ben);
        pair.turn();
        there.receive_some(&mut pair.ben);
        back.receive_some(&mut pair.ada);
        patience.check();
    }
    pair.settle();
    let mut surplus = Vec::new();
    assert_eq!(receive_into(&mut pair.ben, 1, &mut surplus).unwrap(), 0, "{surplus:?}");
    let (sent, received) = (pair.ada.counters(), pair.ben.counters());
    assert_eq!((sent.frames_sent, received.frames_received), (4000, 4000));
    assert_eq!(sent.bytes_sent, received.bytes_received);
    assert_eq!(sent.bytes_sent, (0..4000).map(|n| Talk::nth(n).payload.len() as u64).sum::<u64>());
}

/// A batch in the making is not seen.
pub(crate) fn are_invisible_until_flushed<F: Fixture>() {
    let mut pair = Pair::<F>::new();
    let batch: Vec<Sent> = (0..10).map(|number| frame(number, 100)).collect();
    for sent in &batch {
        pair.ada.send(sent.head, &sent.payload).unwrap();
    }
    pair.settle();
    let mut early = Vec::new();
    assert_eq!(receive_into(&mut pair.ben, 100, &mut early).unwrap(), 0, "{early:?}");
    pair.ada.flush().unwrap();
    assert_eq!(pair.take(10), batch);
}

/// Frames are written where they will be sent from; an abandoned one leaves no trace.
pub(crate) fn are_written_in_place<F: Fixture>() {
    let mut pair = Pair::<F>::new();
    let whole = frame(1, 64);
    {
        let mut place = pair.ada.reserve(whole.head, 64).unwrap();
        assert_eq!(place.len(), 64);
        for piece in [3, 0, 2, 1] {
            place.write(piece * 16, &whole.payload[piece * 16..][..16]);
        }
    }
    pair.ada.commit(64);

    pair.ada.reserve(frame(2, 0).head, 500).unwrap().write(0, &[0xee; 500]);
    let instead = frame(3, 20);
    pair.ada.reserve(instead.head, 200).unwrap().write(0, &instead.payload);
    pair.ada.commit(20);

    pair.ada.reserve(frame(4, 0).head, 40).unwrap().write(0, &[0xdd; 40]);
    pair.ada.flush().unwrap();
    let last = frame(5, 7);
    pair.ada.send(last.head, &last.payload).unwrap();
    pair.ada.flush().unwrap();
    assert_eq!(pair.take(3), [whole, instead, last]);
}

/// A commit that was not reserved is a mistake of the program, not of the link.
pub(crate) fn are_committed_only_when_reserved<F: Fixture>() {
    let mut pair = Pair::<F>::new();
    assert!(catch_unwind(AssertUnwindSafe(|| pair.ada.commit(0))).is_err());
    pair.ada.reserve(frame(1, 0).head, 10).unwrap();
    assert!(catch_unwind(AssertUnwindSafe(|| pair.ada.commit(11))).is_err());
    // A link may keep a reservation over other calls or abandon it, but never sends anything else in its place.
    let (kept, batched) = (frame(1, 10), frame(2, 10));
    let mut expected = Vec::new();
    for what in 0..5 {
        pair.ada.reserve(kept.head, 10).unwrap().write(0, &kept.payload);
        match what {
            0 => {
                pair.ada.send_batch([(batched.head, &batched.payload[..])]).unwrap();
                expected.push(batched.clone());
            }
            1 => pair.ada.flush().unwrap(),
            2 => drop(receive_into(&mut pair.ada, 1, &mut Vec::new()).unwrap()),
            3 => pair.settle(),
            _ => drop(pair.ada.prepare_to_wait()),
        }
        if catch_unwind(AssertUnwindSafe(|| pair.ada.commit(10))).is_ok() {
            expected.push(kept.clone());
        }
    }
    pair.ada.flush().unwrap();
    assert_eq!(pair.take(expected.len()), expected);
    pair.assert_alive();
}

/// Every length from nothing to the longest arrives; one byte more is refused, and the link lives.
pub(crate) fn have_any_length_up_to_the_limit<F: Fixture>() {
    let mut pair = Pair::<F>::new();
    let max = pair.ada.capabilities().max_payload;
    let lengths = [0, 1, 15, 16, 17, 4096, max / 2 + 1, max - 1, max, 0, max];
    for (number, len) in lengths.into_iter().enumerate() {
        let sent = frame(number as u32, len);
        pair.send(&sent);
        assert_eq!(pair.take(1), [sent], "{len} bytes");
    }
    for len in [max + 1, max * 2, usize::MAX - 64, usize::MAX] {
        let refused = pair.ada.reserve(frame(0, 0).head, len).map(drop).unwrap_err();
        assert!(
            matches!(refused, FrameSendError::TooLong { len: was, max: limit } if (was, limit) == (len, max)),
            "{refused}"
        );
        assert!(refused.to_string().contains(&max.to_string()), "{refused}");
    }
    let oversize = vec![0; max + 1];
    assert!(matches!(pair.ada.send(frame(0, 0).head, &oversize), Err(FrameSendError::TooLong { .. })));
    pair.assert_alive();
}
