//! Every interleaving of a small ring, by the model checker.

use loom::cell::UnsafeCell;
use loom::sync::{Arc, Notify};
use loom::thread;

use super::{Consumer, Cursors, Producer, RECORD_ALIGN};

const STEP: u64 = RECORD_ALIGN as u64;
const CELLS: usize = 2;

struct Ring {
    cursors: Cursors,
    cells: [UnsafeCell<u64>; CELLS],
    /// The doorbells of both sides. A side that sleeps is only woken by its bell, so a lost wake-up is a deadlock,
    /// which the checker reports.
    consumer_bell: Notify,
    producer_bell: Notify,
}

struct Shared(Arc<Ring>);

impl core::ops::Deref for Shared {
    type Target = Cursors;

    fn deref(&self) -> &Cursors {
        &self.0.cursors
    }
}

fn ring() -> (Arc<Ring>, Producer<Shared>, Consumer<Shared>) {
    let ring = Arc::new(Ring {
        cursors: Cursors::new(),
        cells: [UnsafeCell::new(0), UnsafeCell::new(0)],
        consumer_bell: Notify::new(),
        producer_bell: Notify::new(),
    });
    let capacity = STEP * CELLS as u64;
    let producer = Producer::new(Shared(Arc::clone(&ring)), capacity);
    let consumer = Consumer::new(Shared(Arc::clone(&ring)), capacity);
    (ring, producer, consumer)
}

fn cell(ring: &Ring, position: u64) -> &UnsafeCell<u64> {
    &ring.cells[(position / STEP) as usize % CELLS]
}

#[test]
fn every_value_arrives_once_in_order_without_a_lost_wake_up() {
    const VALUES: u64 = 3;
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let (ring, mut producer, mut consumer) = ring();
        let sender = thread::spawn({
            let ring = Arc::clone(&ring);
            move || {
                for value in 1..=VALUES {
                    while !producer.has_room(STEP).unwrap() {
                        if producer.prepare_to_wait(STEP).unwrap() {
                            ring.producer_bell.wait();
                        }
                    }
                    // A data race with the consumer would be reported here.
                    cell(&ring, producer.position()).with_mut(|cell| {
                        // SAFETY: the checker proves that the consumer is not there.
                        unsafe { *cell = value }
                    });
                    producer.advance(STEP);
                    if producer.publish() {
                        ring.consumer_bell.notify();
                    }
                }
            }
        });
        for value in 1..=VALUES {
            while consumer.available().unwrap() == 0 {
                if consumer.prepare_to_wait().unwrap() {
                    ring.consumer_bell.wait();
                }
            }
            let found = cell(&ring, consumer.position()).with(|cell| {
                // SAFETY: the checker proves that the producer is not there.
                unsafe { *cell }
            });
            assert_eq!(found, value);
            consumer.advance(STEP);
            if consumer.release() {
                ring.producer_bell.notify();
            }
        }
        sender.join().unwrap();
    });
}

/// Batches of two that need the whole ring: the producer sleeps for more than one step, with nothing published in
/// between, and the consumer takes what it likes.
#[test]
fn batches_that_need_the_whole_ring_do_not_lose_a_wake_up() {
    const BATCHES: u64 = 2;
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let (ring, mut producer, mut consumer) = ring();
        let sender = thread::spawn({
            let ring = Arc::clone(&ring);
            move || {
                for batch in 0..BATCHES {
                    while !producer.has_room(2 * STEP).unwrap() {
                        if producer.prepare_to_wait(2 * STEP).unwrap() {
                            ring.producer_bell.wait();
                        }
                    }
                    for step in 0..2 {
                        assert!(producer.position() + STEP <= producer.known_limit());
                        cell(&ring, producer.position()).with_mut(|cell| {
                            // SAFETY: the checker proves that the consumer is not there.
                            unsafe { *cell = 2 * batch + step }
                        });
                        producer.advance(STEP);
                    }
                    if producer.publish() {
                        ring.consumer_bell.notify();
                    }
                }
            }
        });
        for value in 0..2 * BATCHES {
            while consumer.available().unwrap() == 0 {
                if consumer.prepare_to_wait().unwrap() {
                    ring.consumer_bell.wait();
                }
            }
            let found = cell(&ring, consumer.position()).with(|cell| {
                // SAFETY: the checker proves that the producer is not there.
                unsafe { *cell }
            });
            assert_eq!(found, value);
            consumer.advance(STEP);
            if consumer.release() {
                ring.producer_bell.notify();
            }
        }
        sender.join().unwrap();
    });
}
