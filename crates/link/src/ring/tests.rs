//! The ring's counts, seen from both sides and from a peer that lies.

use std::sync::Arc;

use proptest::prelude::*;

use super::{Consumer, Cursors, Producer, RECORD_ALIGN};
use crate::Violation;
use crate::sync::{AtomicU64, Ordering};

const CAPACITY: u64 = 64 * RECORD_ALIGN as u64;

fn pair() -> (Producer<Arc<Cursors>>, Consumer<Arc<Cursors>>, Arc<Cursors>) {
    let cursors = Arc::new(Cursors::new());
    (Producer::new(cursors.clone(), CAPACITY), Consumer::new(cursors.clone(), CAPACITY), cursors)
}

/// The word that a peer could scribble on: 0 is the producer's count, 128 the consumer's.
fn scribble(cursors: &Arc<Cursors>, offset: usize, value: u64) {
    // SAFETY: both counts are words inside `Cursors`, which consists of atomics.
    let word = unsafe { AtomicU64::from_ptr(Arc::as_ptr(cursors).cast_mut().byte_add(offset).cast()) };
    word.store(value, Ordering::Release);
}

proptest! {
    #[test]
    fn the_counts_agree_with_a_queue(steps in prop::collection::vec((0u64..20, any::<bool>()), 1..200)) {
        let (mut producer, mut consumer, _) = pair();
        let (mut written, mut published, mut read) = (0u64, 0u64, 0u64);
        for (blocks, is_write) in steps {
            let len = blocks * RECORD_ALIGN as u64;
            if is_write {
                let fits = written + len - read <= CAPACITY;
                prop_assert_eq!(producer.has_room(len).unwrap(), fits);
                if fits {
                    producer.advance(len);
                    written += len;
                }
                if blocks % 2 == 0 {
                    producer.publish();
                    published = written;
                }
            } else {
                let available = consumer.available().unwrap();
                prop_assert!(available <= published - read);
                prop_assert_eq!(available == 0, published == read);
                let len = len.min(available);
                consumer.advance(len);
                consumer.release();
                read += len;
            }
        }
    }

    #[test]
    fn a_producer_that_lies_is_told_from_one_that_does_not(index: u64, written in 0u64..=64) {
        let (mut producer, mut consumer, cursors) = pair();
        producer.advance(written * RECORD_ALIGN as u64);
        producer.publish();
        scribble(&cursors, 0, index);
        let is_possible = index <= CAPACITY && index.is_multiple_of(RECORD_ALIGN as u64);
        match consumer.available() {
            Ok(available) => prop_assert!(is_possible && available == index),
            Err(Violation::Index { .. }) => prop_assert!(!is_possible),
            Err(other) => prop_assert!(false, "{}", other),
        }
    }

    #[test]
    fn a_consumer_that_lies_is_told_from_one_that_does_not(index: u64, written in 0u64..=64) {
        let (mut producer, _consumer, cursors) = pair();
        let written = written * RECORD_ALIGN as u64;
        producer.advance(written);
        producer.publish();
        scribble(&cursors, 128, index);
        let result = producer.has_room(CAPACITY + 1);
        prop_assert_eq!(result.is_ok(), index <= written);
    }
}

#[test]
fn a_sleeper_is_woken_exactly_once() {
    let (mut producer, mut consumer, _) = pair();
    assert!(!producer.publish(), "the consumer does not sleep yet");
    assert!(consumer.prepare_to_wait().unwrap());
    producer.advance(16);
    assert!(producer.publish());
    assert!(!producer.publish());
    assert!(!consumer.prepare_to_wait().unwrap(), "there is something to read");
}

#[test]
fn a_starved_producer_is_woken_by_a_release() {
    let (mut producer, mut consumer, _) = pair();
    producer.advance(CAPACITY);
    producer.publish();
    assert!(!producer.has_room(16).unwrap());
    assert!(producer.prepare_to_wait(16).unwrap());
    assert_eq!(consumer.available().unwrap(), CAPACITY);
    consumer.advance(16);
    assert!(consumer.release());
    assert!(producer.has_room(16).unwrap());
}
