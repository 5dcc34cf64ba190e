//! The wire's accounts, in virtual time.

use std::time::Duration;

use outboard_wire::{FrameHead, FrameHeader, FrameKind, Role, Room, Time};

use super::{Shaped, Wire};
use crate::StreamConfig;
use crate::loopback::{FaultPlan, LoopbackConfig, LoopbackLink, Network};
use crate::memory::{Buffer, Segment};
use crate::{
    AccessOutcome, Disposition, Export, Exports, FrameSendError, Identity, Link, LinkError, Loss,
    RemoteMemory, Token,
};

const HEAD: FrameHead = FrameHead::new(FrameKind::new(Room::Trial, 1));

fn identity(name: &str) -> Identity {
    Identity::new(Role::Tool, name)
}

fn wire(text: &str) -> Wire {
    text.parse().unwrap()
}

fn pair_with(exports: &std::sync::Arc<Exports>, config: LoopbackConfig) -> (LoopbackLink, LoopbackLink) {
    let network = Network::with_config(1, FaultPlan::default(), config);
    network.connect(identity("sender"), Exports::new(), identity("receiver"), exports.clone()).unwrap()
}

/// A shaped sender and a plain receiver.
fn pair(text: &str) -> (Shaped<LoopbackLink>, LoopbackLink) {
    let (sender, receiver) = pair_with(&Exports::new(), LoopbackConfig::default());
    (Shaped::new(sender, wire(text)).unwrap(), receiver)
}

fn at(nanos: u64) -> Time {
    Time::from_nanos(nanos)
}

/// The tags of what has arrived.
fn receive(link: &mut impl Link, now: Time) -> Result<Vec<u32>, LinkError> {
    let mut tags = Vec::new();
    let moved = link.progress(now);
    let received = link.receive(10_000, |frame| {
        tags.push(frame.head.tag);
        Disposition::Taken
    });
    if tags.is_empty() {
        moved?;
        received?;
    }
    Ok(tags)
}

/// Jumps from deadline to deadline of the sender until `count` frames have arrived; returns when each did.
fn arrivals(sender: &mut impl Link, receiver: &mut impl Link, count: usize) -> Vec<(u32, Time)> {
    let mut now = Time::ZERO;
    let mut arrived = Vec::new();
    while arrived.len() < count {
        sender.progress(now).unwrap();
        arrived.extend(receive(receiver, now).unwrap().into_iter().map(|tag| (tag, now)));
        let next = sender.next_deadline().unwrap();
        assert!(next > now || arrived.len() < count, "time stands still at {now}");
        now = next.max(now);
    }
    arrived
}

#[test]
fn bytes_take_their_time_and_the_latency_once() {
    // 1 byte a nanosecond; each frame is 1000 bytes with its header.
    let (mut sender, mut receiver) = pair("8gbit,5us");
    let payload = vec![7; 1000 - FrameHeader::LEN];
    let count = 200;
    for tag in 0..count {
        sender.send(HEAD.with_tag(tag), &payload).unwrap();
    }
    sender.flush().unwrap();
    let arrived = arrivals(&mut sender, &mut receiver, count as usize);
    for (number, (tag, time)) in arrived.into_iter().enumerate() {
        assert_eq!(tag, number as u32, "in order");
        assert_eq!(time, at((number as u64 + 1) * 1000 + 5000), "frame {number}");
    }
    assert_eq!(sender.queued(), 0);
}

#[test]
fn an_idle_wire_is_not_ahead_and_a_busy_one_is_waited_for() {
    let (mut sender, mut receiver) = pair("8gbit,1us");
    let payload = vec![0; 1000 - FrameHeader::LEN];
    for (tag, now) in [(0, 0), (1, 500), (2, 10_000)] {
        sender.progress(at(now)).unwrap();
        sender.send(HEAD.with_tag(tag), &payload).unwrap();
        sender.flush().unwrap();
        assert_eq!(sender.next_deadline(), Some(at(now)), "what was flushed is put on the wire at once");
        assert!(!sender.prepare_to_wait());
        sender.progress(at(now)).unwrap();
    }
    // The first two were released while the third was sent.
    assert_eq!(receive(&mut receiver, at(10_000)).unwrap(), [0, 1]);
    sender.progress(at(11_999)).unwrap();
    assert_eq!(receive(&mut receiver, at(11_999)).unwrap(), []);
    sender.progress(at(12_000)).unwrap();
    assert_eq!(receive(&mut receiver, at(12_000)).unwrap(), [2]);
}

#[test]
fn a_full_wire_is_back_pressure_and_frees_itself_with_time() {
    let (inner, mut receiver) = pair_with(&Exports::new(), LoopbackConfig::default());
    let mut sender = Shaped::with_queue(inner, wire("8gbit,100us"), 1).unwrap();
    let payload = vec![0; 60_000];
    let mut sent = 0;
    while sender.send(HEAD.with_tag(sent), &payload).is_ok() {
        sent += 1;
    }
    sender.flush().unwrap();
    assert!((1..100).contains(&sent));
    assert_eq!(sender.counters().full, 1);
    let first = at(60_016 + 100_000);
    sender.progress(Time::ZERO).unwrap();
    assert_eq!(sender.next_deadline(), Some(first));
    assert!(matches!(sender.send(HEAD, &payload), Err(FrameSendError::Full)));
    sender.progress(first).unwrap();
    sender.send(HEAD.with_tag(sent), &payload).unwrap();
    sender.flush().unwrap();
    let arrived = arrivals(&mut sender, &mut receiver, sent as usize + 1);
    assert!(arrived.iter().map(|(tag, _)| *tag).eq(0..=sent));
}

/// A region at the receiver, open at the sender by `now`.
fn opened(text: &str) -> (Shaped<LoopbackLink>, LoopbackLink, crate::OpenRegion, Time) {
    let memory = std::sync::Arc::new(Segment::create(c"shaped", 1 << 16).unwrap());
    let key = outboard_wire::RegionKey([1; 16]);
    let export = Export {
        region: outboard_wire::RegionId(1),
        generation: outboard_wire::Generation(1),
        memory,
        keys: vec![(key, outboard_wire::Rights::ALL)],
    };
    let (exports, grant) = (Exports::new(), export.grant(0).unwrap());
    exports.add(export);
    let (inner, mut receiver) = pair_with(&exports, LoopbackConfig::default());
    let mut sender = Shaped::new(inner, wire(text)).unwrap();
    sender.open(&grant, outboard_wire::Rights::ALL, Token(0)).unwrap();
    let (time, outcome) = run(&mut sender, &mut receiver, Time::ZERO);
    match outcome {
        AccessOutcome::Opened(region) => (sender, receiver, region, time),
        other => panic!("{other:?}"),
    }
}

/// Runs what was begun to its end; returns when it came and what it brought.
fn run(sender: &mut Shaped<LoopbackLink>, receiver: &mut LoopbackLink, from: Time) -> (Time, AccessOutcome) {
    let mut now = from;
    for _ in 0..20 {
        // Both ends are looked after until nothing moves at this moment any more.
        while sender.progress(now).unwrap() | receiver.progress(now).unwrap() {}
        let mut ended = None;
        sender.completions(|completion| ended = Some(completion.result.unwrap()));
        if let Some(outcome) = ended {
            return (now, outcome);
        }
        now = sender.next_deadline().unwrap().max(now);
    }
    panic!("the operation never ended")
}

#[test]
fn an_operation_pays_both_trips() {
    let (mut sender, mut receiver, region, begin) = opened("8gbit,5us");
    let fixed_there = (FrameHeader::LEN + outboard_wire::access::FIXED_LEN_MAX) as u64;
    let fixed_back = (FrameHeader::LEN + outboard_wire::access::AccessReply::FIXED_LEN) as u64;
    let buffer = Buffer::allocate(1 << 16).unwrap();

    sender.read(region, 0, &buffer, 0, 10_000, Token(1)).unwrap();
    let (end, outcome) = run(&mut sender, &mut receiver, begin);
    assert_eq!(outcome, AccessOutcome::Read);
    assert_eq!(end.since(begin), Duration::from_nanos(fixed_there + 5000 + fixed_back + 10_000 + 5000));

    sender.write(region, 0, buffer.window().part(0, 10_000), Token(2)).unwrap();
    let (written, _) = run(&mut sender, &mut receiver, end);
    assert_eq!(written.since(end), Duration::from_nanos(fixed_there + 10_000 + 5000 + fixed_back + 5000));

    sender.fetch_add(region, 0, 1, Token(3)).unwrap();
    let (added, _) = run(&mut sender, &mut receiver, written);
    assert_eq!(added.since(written), Duration::from_nanos(fixed_there + 5000 + fixed_back + 5000));
}

#[test]
fn frames_wait_behind_the_bytes_of_operations() {
    let (mut sender, mut receiver, region, begin) = opened("8gbit,5us");
    let data = vec![1; 20_000];
    sender.send(HEAD, &[]).unwrap();
    sender.flush().unwrap();
    sender.write(region, 0, data[..].into(), Token(1)).unwrap();
    sender.progress(begin).unwrap();
    let alone = begin + Duration::from_nanos(FrameHeader::LEN as u64 + 5000);
    sender.progress(alone).unwrap();
    assert_eq!(receive(&mut receiver, alone).unwrap(), [], "the write is on the wire before it");
    let both = alone + Duration::from_nanos(20_048);
    sender.progress(both).unwrap();
    assert_eq!(receive(&mut receiver, both).unwrap(), [0]);
}

#[test]
fn a_lost_peer_is_reported_and_ends_what_is_on_the_wire() {
    let (mut sender, receiver, region, begin) = opened("8gbit,5us");
    sender.fetch_add(region, 0, 1, Token(7)).unwrap();
    sender.send(HEAD, b"never").unwrap();
    sender.flush().unwrap();
    drop(receiver);
    let lost = loop {
        if let Err(lost) = sender.progress(begin) {
            break lost;
        }
    };
    assert!(lost.to_string().contains("receiver"), "{lost}");
    let mut ended = Vec::new();
    sender.completions(|completion| ended.push(completion));
    assert!(matches!(&ended[..], [only] if only.token == Token(7) && only.result.is_err()), "{ended:?}");
    assert!(matches!(sender.send(HEAD, &[]), Err(FrameSendError::Lost(_))));
    assert_eq!(sender.queued(), 0);
}

#[test]
fn closing_hands_over_what_was_flushed_even_if_there_is_no_room_at_first() {
    // Less room beneath than on the wire.
    let config = LoopbackConfig {
        stream: StreamConfig { buffer_bytes: 1 << 16, ..StreamConfig::default() },
        pipe_bytes: 4096,
    };
    let (inner, mut receiver) = pair_with(&Exports::new(), config);
    let mut sender = Shaped::new(inner, wire("1kbit,10s")).unwrap();
    let count = 100;
    for tag in 0..count {
        sender.send(HEAD.with_tag(tag), &[0; 2000]).unwrap();
    }
    sender.flush().unwrap();
    sender.send(HEAD.with_tag(count), b"not flushed").unwrap();
    sender.close("enough");
    assert!(sender.queued() > 0, "more than there is room for");
    assert!(matches!(sender.send(HEAD, &[]), Err(FrameSendError::Lost(_))));
    let mut tags = Vec::new();
    let lost = loop {
        let here = sender.progress(Time::ZERO).unwrap_err();
        assert_eq!(here.loss, Loss::ClosedHere);
        match receive(&mut receiver, Time::ZERO) {
            Ok(more) => tags.extend(more),
            Err(lost) => break lost,
        }
    };
    assert!(tags.into_iter().eq(0..count));
    assert_eq!(lost.loss, Loss::Closed { reason: "enough".to_owned() });
    assert_eq!(sender.queued(), 0);
}
