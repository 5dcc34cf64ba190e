//! What is reached past the owner's processor, and what is not.

use std::net::Ipv4Addr;
use std::ptr::NonNull;
use std::time::{Duration, Instant};

use outboard_link::memory::Buffer;
use outboard_link::ofi::{OfiConfig, OfiDialing, OfiListener, Progress};
use outboard_link::{AccessError, AccessOutcome, Exports, Identity, Link, OneSided, RemoteMemory, Token};
use outboard_wire::{RegionId, Rights, Role, Time};

use crate::pair::{PROVIDERS, Pair};

/// A buffer over memory that the link has not allocated.
fn foreign(len: usize) -> Buffer {
    let mut memory = vec![0u64; len / 8].into_boxed_slice();
    let start = NonNull::new(memory.as_mut_ptr().cast()).unwrap();
    // SAFETY: the box owns the bytes and goes with the buffer, and nothing else uses them.
    unsafe { Buffer::from_raw(start, len, Box::new(memory)) }
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8).collect()
}

#[test]
fn a_quiet_region_is_read_and_written_without_its_owner() {
    for provider in PROVIDERS {
        let Some(mut pair) = Pair::new(provider, true) else { continue };
        // Both are made of software.
        assert_eq!(pair.ada.capabilities().one_sided, OneSided::Lent, "{provider}");
        let region = pair.open(Rights::READ.and(Rights::WRITE));
        assert_eq!(pair.served(), 1, "{provider}: the opening");
        for (len, is_foreign) in [(1, false), (4096, true), (40_000, false), (65_536, true)] {
            let data = pattern(len);
            pair.write(region, 24, &data).unwrap();
            assert_eq!(pair.memory.window(24, len).to_vec(), data, "{provider}");
            let buffer = if is_foreign { foreign(1 << 17) } else { Buffer::allocate(1 << 17).unwrap() };
            pair.read(region, 24, &buffer, len).unwrap();
            assert_eq!(buffer.window().part(8, len).to_vec(), data, "{provider}: {len} bytes");
        }
        assert_eq!(pair.served(), 1, "{provider}: the owner was not asked");
        assert_eq!(pair.ada.counters().accesses, 9);
        // Atomics are the owner's, so that they are atomic against its processors.
        let added = pair.run(|ada| ada.fetch_add(region, 0, 5, Token(3)));
        assert_eq!(added.unwrap(), AccessOutcome::Old(0));
        assert_eq!(pair.served(), 2, "{provider}");
    }
}

#[test]
fn a_region_that_changes_while_it_is_read_is_served() {
    for provider in PROVIDERS {
        let Some(mut pair) = Pair::new(provider, false) else { continue };
        let region = pair.open(Rights::ALL);
        pair.write(region, 0, &pattern(1000)).unwrap();
        let buffer = Buffer::allocate(4096).unwrap();
        pair.read(region, 0, &buffer, 1000).unwrap();
        assert_eq!(buffer.window().part(8, 1000).to_vec(), pattern(1000));
        assert_eq!(pair.served(), 3, "{provider}");
    }
}

#[test]
fn a_region_that_is_withdrawn_is_reached_no_more() {
    for provider in PROVIDERS {
        let Some(mut pair) = Pair::new(provider, true) else { continue };
        let region = pair.open(Rights::READ);
        let buffer = Buffer::allocate(4096).unwrap();
        pair.read(region, 0, &buffer, 64).unwrap();
        pair.exports.remove(RegionId(1));
        // It hears of it when both have had their turns.
        let began = Instant::now();
        let refused = loop {
            match pair.read(region, 0, &buffer, 64) {
                Ok(_) => assert!(began.elapsed() < Duration::from_secs(20), "{provider}: still reached"),
                Err(refused) => break refused,
            }
        };
        assert!(matches!(refused, AccessError::NotOpen), "{provider}: {refused}");
        // Nothing else on the link is concerned.
        let grant = pair.grant;
        let refused = pair.run(|ada| ada.open(&grant, Rights::READ, Token(4))).unwrap_err();
        assert!(matches!(refused, AccessError::NotOpen), "{provider}: {refused}");
    }
}

#[test]
fn no_listener_uses_a_provider_that_is_not_there() {
    let config = OfiConfig { provider: Some("nonesuch".to_owned()), ..OfiConfig::default() };
    let identity = Identity::new(Role::Tool, "ben");
    let listener = OfiListener::bind((Ipv4Addr::LOCALHOST, 0).into(), identity, Exports::new(), config);
    // Without libfabric it says what to install.
    let error = listener.err().unwrap().to_string();
    assert!(error.contains("“nonesuch”") || error.contains("apt install"), "{error}");
}

#[test]
fn a_stranger_does_not_choose_locks_in_shared_memory() {
    let theirs = OfiConfig { provider: Some("shm".to_owned()), ..OfiConfig::default() };
    if let Err(why) = theirs.choose(Some(Ipv4Addr::LOCALHOST.into())) {
        println!("skipped: {why}");
        return;
    }
    let (any, identity) = ((Ipv4Addr::LOCALHOST, 0).into(), |name| Identity::new(Role::Tool, name));
    let listener = OfiListener::bind(any, identity("ben"), Exports::new(), OfiConfig::default()).unwrap();
    let address = listener.address();
    let mut dialing = OfiDialing::new(address, identity("ada"), Exports::new(), theirs, Time::ZERO).unwrap();
    let (mut accepting, mut refused, mut refusal) = (None, None, None);
    let began = Instant::now();
    while refused.is_none() || refusal.is_none() {
        assert!(began.elapsed() < Duration::from_secs(20), "they go on");
        refused = refused.or_else(|| dialing.poll(Time::ZERO).err());
        accepting = accepting.or_else(|| listener.accept(Time::ZERO).unwrap());
        if let Some(accepting) = accepting.as_mut().filter(|_| refusal.is_none()) {
            refusal = accepting.poll(Time::ZERO).err();
        }
    }
    for error in [refused.unwrap(), refusal.unwrap()] {
        let text = outboard_wire::with_causes(&error);
        assert!(text.contains("“shm”") && text.contains("link.provider"), "{text}");
    }
}

#[test]
fn a_region_opened_to_read_is_not_written() {
    for provider in PROVIDERS {
        let Some(mut pair) = Pair::new(provider, true) else { continue };
        let region = pair.open(Rights::READ);
        let refused = pair.write(region, 0, &[1; 8]).unwrap_err();
        assert!(matches!(refused, AccessError::NoRight { .. }), "{provider}: {refused}");
        assert_eq!(pair.memory.window(0, 8).to_vec(), [0; 8]);
    }
}

#[test]
fn a_provider_that_works_by_itself_is_read_from_while_its_owner_does_something_else() {
    let provider = Some("tcp;ofi_rxm".to_owned());
    let config = OfiConfig { provider, progress: Progress::Automatic, ..OfiConfig::default() };
    let Some(mut pair) = Pair::with(&config, true) else { return };
    let region = pair.open(Rights::READ);
    pair.memory.window_mut(64, 5000).write(0, &pattern(5000));
    let buffer = Buffer::allocate(1 << 14).unwrap();
    pair.ada.read(region, 64, &buffer, 0, 5000, Token(9)).unwrap();
    let began = Instant::now();
    let mut ended = None;
    // Only the reader is called.
    while ended.is_none() {
        pair.ada.progress(pair.clock.now()).unwrap();
        pair.ada.completions(|completion| ended = Some(completion.result));
        assert!(began.elapsed() < Duration::from_secs(4), "the owner's help was needed");
    }
    assert_eq!(ended.unwrap().unwrap(), AccessOutcome::Read);
    assert_eq!(buffer.window().part(0, 5000).to_vec(), pattern(5000));
}

#[test]
fn progress_is_what_was_asked_for_or_it_says_why_not() {
    let choose = |provider: &str, progress| {
        let config = OfiConfig { provider: Some(provider.to_owned()), progress, ..OfiConfig::default() };
        config.choose(Some(Ipv4Addr::LOCALHOST.into())).ok()
    };
    for provider in PROVIDERS {
        for progress in [Progress::Fitting, Progress::Manual] {
            // Both are made of software, which wants to be called.
            let Some(choice) = choose(provider, progress) else { continue };
            assert!(!choice.is_automatic, "{provider}: {}", choice.progress());
        }
    }
    if let Some(choice) = choose("tcp;ofi_rxm", Progress::Automatic) {
        assert!(choice.is_automatic && choice.progress().contains("asked for"), "{}", choice.progress());
    }
    if let Some(choice) = choose("shm", Progress::Automatic) {
        assert!(!choice.is_automatic && choice.progress().contains("has no other"), "{}", choice.progress());
    }
}
