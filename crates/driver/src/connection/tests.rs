//! Clients are tended while the application computes, by one thread, and for no longer than they exist.

use std::sync::mpsc::{Receiver, Sender, channel};

use super::*;

/// How long anything here may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(2);

/// A client that tells when it is tended, and by which thread.
struct Told(Sender<std::thread::ThreadId>);

impl Tend for Told {
    fn tend(&mut self) -> Option<Duration> {
        // The test may have stopped listening.
        let _ = self.0.send(std::thread::current().id());
        None
    }
}

fn tended() -> (Tended<Told>, Receiver<std::thread::ThreadId>) {
    let (sender, receiver) = channel();
    (Tended::new(Told(sender), PAUSE), receiver)
}

#[test]
fn clients_are_tended_by_one_thread_for_as_long_as_they_exist() {
    let (first, first_told) = tended();
    let (second, second_told) = tended();
    let thread = first_told.recv_timeout(PATIENCE).unwrap();
    assert_ne!(thread, std::thread::current().id());
    assert_eq!(second_told.recv_timeout(PATIENCE).unwrap(), thread);
    drop(first);
    // Earlier words are still there; then the channel shows that none will follow.
    while first_told.recv_timeout(PATIENCE).is_ok() {}
    while second_told.try_recv().is_ok() {}
    assert_eq!(second_told.recv_timeout(PATIENCE).unwrap(), thread, "the other one is tended on");
    drop(second);
    while second_told.recv_timeout(PATIENCE).is_ok() {}
    // The thread has ended, or ends now; a client that comes then is tended all the same.
    for _ in 0..100 {
        let (_client, told) = tended();
        told.recv_timeout(PATIENCE).unwrap();
    }
}

#[test]
fn a_client_that_is_in_a_call_holds_up_no_other() {
    let (busy, busy_told) = tended();
    let (_free, told) = tended();
    busy_told.recv_timeout(PATIENCE).unwrap();
    let call = busy.lock();
    while busy_told.try_recv().is_ok() {}
    for _ in 0..3 {
        told.recv_timeout(PATIENCE).unwrap();
    }
    assert!(busy_told.try_recv().is_err(), "a call shows that we live");
    drop(call);
    busy_told.recv_timeout(PATIENCE).unwrap();
}
