use super::*;
use crate::{Loss, StreamConfig};

const DEADLINE: Duration = Duration::from_secs(5);
const HEARTBEAT: Duration = Duration::from_millis(500);

#[test]
fn idle_links_keep_each_other_alive_at_little_cost() {
    let mut pair = Pair::new(FaultPlan::delayed(Duration::from_millis(1), Duration::from_millis(90)));
    pair.pass(Duration::from_secs(3600)).unwrap();
    let messages = pair.first.counters().doorbells + pair.second.counters().doorbells;
    assert!((7_000..30_000).contains(&messages), "{messages} messages in an idle hour");
}

#[test]
fn a_silent_peer_is_lost_within_the_deadline_and_named() {
    let mut pair = Pair::new(FaultPlan::none());
    pair.settle().unwrap();
    let lost = loop {
        let next = pair.first.next_deadline().unwrap();
        pair.now = next.max(pair.now + Duration::from_nanos(1));
        if let Err(lost) = pair.first.progress(pair.now) {
            break lost;
        }
        assert!(pair.now < Time::ZERO + DEADLINE * 2, "no side noticed");
    };
    assert_eq!(pair.now, Time::ZERO + DEADLINE);
    assert_eq!(lost.loss, Loss::Stalled { silent: DEADLINE, awaited: "a sign of life" });
    assert!(lost.to_string().contains("second"), "{lost}");
    // The peer wakes up at last, and is told why it was left.
    let told = pair.second.progress(pair.now).unwrap_err();
    assert!(matches!(&told.loss, Loss::GivenUp { reason } if reason.contains("silent")), "{told}");
}

#[test]
fn what_was_awaited_is_said() {
    let mut pair = Pair::new(FaultPlan::none());
    let grant = pair.grant;
    pair.first.open(&grant, Rights::READ, Token(8)).unwrap();
    let lost = loop {
        pair.now += HEARTBEAT;
        if let Err(lost) = pair.first.progress(pair.now) {
            break lost;
        }
    };
    assert!(lost.to_string().contains("one-sided operation"), "{lost}");
    let mut ended = Vec::new();
    pair.first.completions(|completion| ended.push(completion));
    assert!(matches!(&ended[..], [Completion { token: Token(8), result: Err(AccessError::Lost(_)) }]));
}

#[test]
fn a_process_that_was_stopped_does_not_blame_its_peer() {
    let mut pair = Pair::new(FaultPlan::none());
    pair.settle().unwrap();
    // The peer lived and spoke, but this side was away.
    for _ in 0..8 {
        pair.now += HEARTBEAT;
        pair.second.progress(pair.now).unwrap();
    }
    pair.now += Duration::from_secs(60);
    pair.first.progress(pair.now).unwrap();
    pair.first.progress(pair.now).unwrap();
    // Both were stopped together, so nothing is there to be heard.
    let mut pair = Pair::new(FaultPlan::none());
    pair.settle().unwrap();
    pair.now += Duration::from_secs(60);
    pair.settle().unwrap();
    pair.pass(Duration::from_secs(60)).unwrap();
}

#[test]
fn a_slow_receiver_is_not_a_lost_one() {
    let mut pair = Pair::new(FaultPlan::none());
    for _ in 0..100 {
        while pair.first.send(NOTE, &[1; 4000]).is_ok() {}
        pair.pass(Duration::from_secs(1)).unwrap();
    }
    let mut frames = 0;
    while frames < pair.first.counters().frames_sent {
        pair.settle().unwrap();
        frames += take_all(&mut pair.second).unwrap().len() as u64;
    }
}

#[test]
fn frames_outlive_their_sender_until_they_are_taken() {
    let mut pair = Pair::new(FaultPlan::none());
    pair.first.send(NOTE, b"legacy").unwrap();
    pair.first.flush().unwrap();
    let Pair { first, mut second, mut now, .. } = pair;
    drop(first);
    for _ in 0..8 {
        now += HEARTBEAT;
        second.progress(now).unwrap();
        assert_eq!(second.receive(1, |_| Disposition::Deferred).unwrap(), 0);
    }
    assert_eq!(take_all(&mut second).unwrap(), [b"legacy".to_vec()]);
    assert_eq!(second.progress(now).unwrap_err().loss, Loss::Gone);
}

#[test]
fn a_peer_that_lives_but_never_answers_is_lost_too() {
    let network = Network::with_config(1, FaultPlan::none(), small());
    let identity = || Identity::new(Role::Application, "asker");
    let (mut dialing, mut raw) = network.dial_raw(identity(), Exports::new()).unwrap();
    assert!(dialing.poll(Time::ZERO).unwrap().is_none());
    let welcome = outboard_wire::Welcome {
        version: 1,
        intro: identity().introduction(1 << 16),
        ring_bytes: 0,
        heartbeat_ms: 500,
        deadline_ms: 5000,
    };
    raw.write(&welcome.encode());
    let mut link = dialing.poll(Time::ZERO).unwrap().expect("the welcome is there");
    let (_, _, grant) = exports();
    link.open(&grant, Rights::READ, Token(1)).unwrap();
    let mut now = Time::ZERO;
    let pong = outboard_wire::liveness::Liveness::Pong(0);
    let lost = loop {
        now += HEARTBEAT;
        raw.write(&record(FrameHead::new(pong.kind()), &[0; 8]));
        match link.progress(now) {
            Ok(_) => assert!(now < Time::ZERO + DEADLINE * 5, "no side noticed"),
            Err(lost) => break lost,
        }
    };
    assert!(lost.to_string().contains("though it lives"), "{lost}");
}

#[test]
fn settings_that_cannot_work_are_refused() {
    let refuse = |change: &dyn Fn(&mut StreamConfig)| {
        let mut config = small();
        change(&mut config.stream);
        let network = Network::with_config(1, FaultPlan::none(), config);
        let refused = network.accept_raw(Identity::new(Role::Tool, "x"), Exports::new());
        refused.err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert!(refuse(&|config| config.buffer_bytes = 100_000).contains("power of two"));
    assert!(refuse(&|config| config.operations_max = 257).contains("operations_max"));
    assert!(refuse(&|config| config.regions_max = 0).contains("regions_max"));
    assert!(refuse(&|config| config.deadline = HEARTBEAT).contains("heartbeats"));
}
