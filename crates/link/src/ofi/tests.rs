//! Long messages, which are written and told of by their completion.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use outboard_wire::Time;

use super::bytes::OfiBytes;
use super::credits::KEPT;
use super::endpoint::Far;
use super::raw::RawMeeting;
use super::{OfiConfig, choose, pool};
use crate::memory::Window;
use crate::stream::{Arrival, ByteStream};
use crate::{Loss, Violation};

/// The pool is the process's, and so are its tests: one after the other, each with all of it.
static POOL: Mutex<()> = Mutex::new(());

/// Waits until the pool is free, and keeps others from it.
fn whole_pool() -> MutexGuard<'static, ()> {
    let guard = POOL.lock().unwrap_or_else(PoisonError::into_inner);
    let began = Instant::now();
    while pool::taken() > 0 {
        std::thread::yield_now();
        assert!(began.elapsed() < LIMIT, "a link has not given its share back");
    }
    // Wishes that other tests left behind are none of this one.
    pool::take_wish();
    guard
}

const LIMIT: Duration = Duration::from_secs(20);
const PROVIDERS: [&str; 2] = ["tcp;ofi_rxm", "shm"];

/// Two ends of a stream; `None` where the provider is not there.
fn ends(provider: &str, pool_bytes: usize) -> Option<(OfiBytes, OfiBytes)> {
    if let Err(why) = choose(Some(Ipv4Addr::LOCALHOST.into()), Some(provider)) {
        println!("skipped: {why}");
        return None;
    }
    let config = OfiConfig { provider: Some(provider.to_owned()), pool_bytes, ..OfiConfig::default() };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let mut dialling = RawMeeting::dial(listener.local_addr().unwrap(), &config).unwrap();
    let mut accepting = RawMeeting::accept(&listener, &config).unwrap();
    let (mut ada, mut ben) = (None, None);
    let began = Instant::now();
    while ada.is_none() || ben.is_none() {
        ada = ada.or_else(|| dialling.poll().unwrap());
        ben = ben.or_else(|| accepting.poll().unwrap());
        assert!(began.elapsed() < LIMIT, "they do not find each other");
    }
    Some((ada.unwrap().0, ben.unwrap().0))
}

/// Sends everything from one end to the other, in frames of this length, and returns what has arrived.
fn carry(ends: (&mut OfiBytes, &mut OfiBytes), bytes: &[u8], len: usize) -> Vec<u8> {
    carry_at(Time::ZERO, ends, bytes, len)
}

/// Moves both ends at one time.
fn carry_at(now: Time, (ada, ben): (&mut OfiBytes, &mut OfiBytes), bytes: &[u8], len: usize) -> Vec<u8> {
    let (mut left, mut arrived) = (bytes.chunks(len).collect::<Vec<_>>(), Vec::new());
    left.reverse();
    let mut buffer = vec![0; 1 << 17];
    let began = Instant::now();
    while arrived.len() < bytes.len() {
        if let Some(piece) = left.pop() {
            let taken = ada.send_gathered(now, &piece[..8], Window::from(&piece[8..])).unwrap();
            if taken < piece.len() {
                left.push(&piece[taken..]);
            }
        }
        assert_eq!(ada.receive(now, &mut buffer).unwrap(), Arrival::Nothing);
        if let Arrival::Bytes(len) = ben.receive(now, &mut buffer).unwrap() {
            arrived.extend_from_slice(&buffer[..len]);
        }
        assert!(began.elapsed() < LIMIT, "{} of {} bytes", arrived.len(), bytes.len());
    }
    arrived
}

fn at(seconds: u64) -> Time {
    Time::ZERO + Duration::from_secs(seconds)
}

/// Some other link gets nothing.
fn wish() {
    assert!(pool::taken() > 0 && pool::Share::take(usize::MAX, usize::MAX).is_none());
}

/// Lets both ends work at this time until something is so.
fn work_until(
    now: Time,
    (ada, ben): (&mut OfiBytes, &mut OfiBytes),
    is_so: impl Fn(&OfiBytes, &OfiBytes) -> bool,
    what: &str,
) {
    let (mut buffer, began) = ([0; 64], Instant::now());
    while !is_so(ada, ben) {
        for end in [&mut *ada, &mut *ben] {
            assert_eq!(end.receive(now, &mut buffer).unwrap(), Arrival::Nothing);
        }
        assert!(began.elapsed() < LIMIT, "{what}");
    }
}

/// Lets some time go by in which no peer writes to ben's room, which another link wants.
fn lose_landing(now: Time, (ada, ben): (&mut OfiBytes, &mut OfiBytes)) {
    wish();
    let is_back = |_: &OfiBytes, ben: &OfiBytes| ben.endpoint.landing.is_none();
    work_until(now, (ada, ben), is_back, "it keeps what it does not use");
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251 + at / 65_536) as u8).collect()
}

#[test]
fn long_messages_are_written_once_the_receiver_has_made_room() {
    for provider in PROVIDERS {
        let _pool = whole_pool();
        let Some((mut ada, mut ben)) = ends(provider, usize::MAX) else { continue };
        let short = pattern(1 << 16);
        assert_eq!(carry((&mut ada, &mut ben), &short, 1024), short, "{provider}");
        assert!(ada.far.is_none() && ben.endpoint.landing.is_none(), "{provider}: no link needs it yet");
        let long = pattern(5 << 20);
        assert!(carry((&mut ada, &mut ben), &long, 1 << 16) == long, "{provider}");
        let written = ada.far.as_ref().map_or(0, |far| far.written);
        assert!((60..=80).contains(&written), "{provider}: {written} of 80 messages were written");
        assert!(ben.far.is_none() && ada.endpoint.landing.is_none(), "{provider}: the other way is idle");
    }
}

#[test]
fn without_room_in_the_pool_long_messages_come_in_pieces() {
    for provider in PROVIDERS {
        let _pool = whole_pool();
        let Some((mut ada, mut ben)) = ends(provider, 0) else { continue };
        let long = pattern(1 << 20);
        assert!(carry((&mut ada, &mut ben), &long, 1 << 16) == long, "{provider}");
        assert!(ada.far.is_none() && ben.endpoint.landing.is_none(), "{provider}");
    }
}

#[test]
fn who_tells_of_what_cannot_be_there_has_broken_the_rules() {
    for provider in PROVIDERS {
        let _pool = whole_pool();
        let Some((mut ada, mut ben)) = ends(provider, usize::MAX) else { continue };
        let long = pattern(1 << 20);
        assert!(carry((&mut ada, &mut ben), &long, 1 << 16) == long);
        let (far, _) = ada.far.as_mut().unwrap().next(64);
        let slot = ada.take_long().unwrap();
        // A place behind the last.
        let note = 1000 << 21 | 64;
        assert!(ada.endpoint.write_far((slot, note), Far { len: 64, ..far }, false).unwrap());
        let began = Instant::now();
        let mut buffer = [0; 4096];
        let lost = loop {
            ada.turn().unwrap();
            match ben.receive(Time::ZERO, &mut buffer) {
                Ok(arrival) => assert_eq!(arrival, Arrival::Nothing, "{provider}"),
                Err(lost) => break lost,
            }
            assert!(began.elapsed() < LIMIT, "{provider}: it is not noticed");
        };
        assert!(matches!(lost, Loss::Broke(Violation::Nonsense(_))), "{provider}: {lost}");
    }
}

#[test]
fn room_that_no_link_uses_goes_to_one_that_needs_it() {
    for provider in PROVIDERS {
        let _pool = whole_pool();
        let OfiConfig { slots, slot_bytes, .. } = OfiConfig::default();
        // One has room to receive and another to send.
        let share = (slots - KEPT + slots / 2) * slot_bytes;
        let Some((mut ada, mut ben)) = ends(provider, share) else { continue };
        let Some((mut cy, mut dee)) = ends(provider, share) else { continue };
        let long = pattern(1 << 20);
        assert!(carry((&mut ada, &mut ben), &long, 1 << 16) == long);
        assert_eq!(pool::taken(), share, "{provider}");
        assert!(carry((&mut cy, &mut dee), &long, 1 << 16) == long);
        assert!(cy.far.is_none(), "{provider}: there is nothing left");
        // For ben some time goes by in which no peer writes to it.
        let (later, began) = (Time::ZERO + Duration::from_secs(3), Instant::now());
        let mut buffer = [0; 64];
        while ben.endpoint.landing.is_some() {
            ben.receive(later, &mut buffer).unwrap();
            ada.receive(Time::ZERO, &mut buffer).unwrap();
            assert!(began.elapsed() < LIMIT, "{provider}: it keeps what it does not use");
        }
        assert!(ada.far.is_none() && pool::taken() == 0, "{provider}");
        assert!(carry((&mut cy, &mut dee), &long, 1 << 16) == long);
        assert!(cy.far.is_some(), "{provider}: there is room again");
        assert!(carry((&mut ada, &mut ben), &long, 1 << 16) == long, "{provider}: in pieces");
    }
}

#[test]
fn what_long_messages_left_from_goes_to_who_needs_it() {
    for provider in PROVIDERS {
        let _pool = whole_pool();
        let Some((mut ada, mut ben)) = ends(provider, usize::MAX) else { continue };
        let long = pattern(1 << 20);
        assert!(carry((&mut ada, &mut ben), &long, 1 << 16) == long);
        let has_left = |ada: &OfiBytes, _: &OfiBytes| !ada.is_sending();
        work_until(Time::ZERO, (&mut ada, &mut ben), has_left, "it does not leave");
        let (taken, mut buffer) = (pool::taken(), [0; 64]);
        ada.receive(at(3), &mut buffer).unwrap();
        assert_eq!(pool::taken(), taken, "{provider}: no link wants it");
        wish();
        ada.receive(at(1), &mut buffer).unwrap();
        assert_eq!(pool::taken(), taken, "{provider}: it was used a moment ago");
        ada.receive(at(2), &mut buffer).unwrap();
        let OfiConfig { slots, slot_bytes, .. } = OfiConfig::default();
        assert_eq!(pool::taken(), taken - slots / 2 * slot_bytes, "{provider}");
        assert!(ada.endpoint.long.is_none() && ada.far.is_some(), "{provider}");
        // It is made again for the next.
        let written = ada.far.as_ref().unwrap().written;
        assert!(carry((&mut ada, &mut ben), &long, 1 << 16) == long);
        assert!(ada.far.as_ref().unwrap().written > written && pool::taken() == taken, "{provider}");
    }
}

#[test]
fn a_peer_that_cannot_use_its_room_waits_longer_each_time_for_more() {
    for provider in PROVIDERS {
        let _pool = whole_pool();
        let Some((mut ada, mut ben)) = ends(provider, usize::MAX) else { continue };
        // It has no room to send from.
        ada.pool_bytes = 0;
        let long = pattern(1 << 20);
        let mut now = 0;
        for wait in [2, 4, 8] {
            assert!(carry_at(at(now), (&mut ada, &mut ben), &long, 1 << 16) == long);
            assert!(ben.endpoint.landing.is_some(), "{provider}: its time has come");
            now += 2;
            lose_landing(at(now), (&mut ada, &mut ben));
            assert!(carry_at(at(now + wait - 1), (&mut ada, &mut ben), &long, 1 << 16) == long);
            assert!(ben.endpoint.landing.is_none(), "{provider}: {wait} s have not gone by");
            now += wait;
        }
        // Once it has used it, it gets more at once.
        ada.pool_bytes = usize::MAX;
        assert!(carry_at(at(now), (&mut ada, &mut ben), &long, 1 << 16) == long);
        assert!(ada.far.as_ref().is_some_and(|far| far.written > 0), "{provider}");
        let has_left = |ada: &OfiBytes, _: &OfiBytes| !ada.is_sending();
        work_until(at(now), (&mut ada, &mut ben), has_left, "it does not leave");
        // For ada no time goes by: what is wished for is ben's.
        wish();
        let (mut buffer, began) = ([0; 64], Instant::now());
        while ben.endpoint.landing.is_some() {
            ben.receive(at(now + 2), &mut buffer).unwrap();
            ada.receive(at(now), &mut buffer).unwrap();
            assert!(began.elapsed() < LIMIT, "{provider}: it keeps what it does not use");
        }
        ada.pool_bytes = 0;
        assert!(carry_at(at(now + 2), (&mut ada, &mut ben), &long, 1 << 16) == long);
        assert!(ben.endpoint.landing.is_some(), "{provider}: it has used the last");
        // And the waits begin anew.
        lose_landing(at(now + 4), (&mut ada, &mut ben));
        assert!(carry_at(at(now + 6), (&mut ada, &mut ben), &long, 1 << 16) == long);
        assert!(ben.endpoint.landing.is_some(), "{provider}: it waits as long as before");
    }
}

#[test]
fn memory_that_cannot_be_had_is_not_asked_for_with_every_message() {
    for provider in PROVIDERS {
        let _pool = whole_pool();
        let Some((mut ada, mut ben)) = ends(provider, usize::MAX) else { continue };
        let (long, slot_bytes) = (pattern(1 << 20), OfiConfig::default().slot_bytes);
        // More than an address space has.
        ben.endpoint.sizes.slot_bytes = 1 << 50;
        assert!(carry((&mut ada, &mut ben), &long, 1 << 16) == long);
        ben.endpoint.sizes.slot_bytes = slot_bytes;
        assert!(carry_at(at(1), (&mut ada, &mut ben), &long, 1 << 16) == long);
        assert!(ben.endpoint.landing.is_none(), "{provider}: it was tried again at once");
        ada.endpoint.sizes.slot_bytes = 1 << 50;
        assert!(carry_at(at(2), (&mut ada, &mut ben), &long, 1 << 16) == long);
        assert!(ben.endpoint.landing.is_some() && ada.far.is_some(), "{provider}");
        ada.endpoint.sizes.slot_bytes = slot_bytes;
        assert!(carry_at(at(3), (&mut ada, &mut ben), &long, 1 << 16) == long);
        assert!(ada.endpoint.long.is_none(), "{provider}: it was tried again at once");
        assert!(carry_at(at(4), (&mut ada, &mut ben), &long, 1 << 16) == long);
        assert!(ada.far.as_ref().is_some_and(|far| far.written > 0), "{provider}");
    }
}

#[test]
fn who_keeps_room_that_was_withdrawn_is_lost() {
    for provider in PROVIDERS {
        let _pool = whole_pool();
        let Some((mut ada, mut ben)) = ends(provider, usize::MAX) else { continue };
        let long = pattern(1 << 20);
        assert!(carry((&mut ada, &mut ben), &long, 1 << 16) == long);
        wish();
        // It reads what is said, and says nothing of it.
        ada.is_finished = true;
        let mut buffer = [0; 64];
        ben.receive(at(2), &mut buffer).unwrap();
        let has_heard = |ada: &OfiBytes, _: &OfiBytes| ada.far.is_none();
        work_until(at(2), (&mut ada, &mut ben), has_heard, "it does not hear of it");
        for seconds in 3..60 {
            assert_eq!(
                ben.receive(at(seconds), &mut buffer).unwrap(),
                Arrival::Nothing,
                "it may be held back"
            );
        }
        assert_eq!(carry_at(at(60), (&mut ben, &mut ada), &[7; 64], 64), [7; 64]);
        assert_eq!(carry_at(at(60), (&mut ada, &mut ben), &[8; 64], 64), [8; 64]);
        let deadline = OfiConfig::default().stream.deadline.as_secs();
        for seconds in 60..60 + deadline {
            assert_eq!(ben.receive(at(seconds), &mut buffer).unwrap(), Arrival::Nothing, "{provider}");
        }
        let lost = ben.receive(at(60 + deadline), &mut buffer).unwrap_err();
        assert!(matches!(lost, Loss::Stalled { .. }), "{provider}: {lost}");
        assert!(lost.to_string().contains("release of room for long frames"), "{provider}: {lost}");
        ada.is_finished = false;
    }
}
