//! Links over real sockets on this machine.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use outboard_wire::{
    FrameHead, FrameKind, HANDSHAKE_LEN, HandshakeAnswer, Hello, Refusal, RefusalReason, Role, Room, Time,
    Versions, Welcome,
};

use super::{TcpAccepting, TcpConfig, TcpDialing, TcpLink, TcpListener, connect};
use crate::{
    Clock, ConnectError, Disposition, Exports, FrameSendError, Identity, Link, LinkError, Loss, WaitOn,
    Waiter,
};

const NOTE: FrameHead = FrameHead::new(FrameKind::new(Room::Trial, 1));
const LIMIT: Duration = Duration::from_secs(20);

fn identity(name: &str) -> Identity {
    Identity::new(Role::Tool, name)
}

fn any_port() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

fn listen() -> TcpListener {
    TcpListener::bind(any_port(), identity("listener"), Exports::new(), TcpConfig::default()).unwrap()
}

fn dial(listener: &TcpListener) -> TcpDialing {
    let address = listener.address();
    TcpDialing::new(address, identity("dialer"), Exports::new(), TcpConfig::default(), Time::ZERO).unwrap()
}

/// Waits until `step` brings something.
fn until<T>(mut step: impl FnMut(Time) -> Option<T>) -> T {
    let clock = Clock::start();
    loop {
        if let Some(value) = step(clock.now()) {
            return value;
        }
        assert!(clock.now() < Time::ZERO + LIMIT, "waited in vain");
        std::thread::yield_now();
    }
}

fn accept(listener: &TcpListener) -> TcpAccepting {
    until(|now| listener.accept(now).unwrap())
}

/// A link and its other end, connected from one thread.
fn pair() -> (TcpLink, TcpLink) {
    let listener = listen();
    let mut dialing = dial(&listener);
    let mut accepting = accept(&listener);
    let (mut first, mut second) = (None, None);
    until(|now| {
        first = first.take().or_else(|| dialing.poll(now).unwrap());
        second = second.take().or_else(|| accepting.poll(now).unwrap());
        (first.is_some() && second.is_some()).then_some(())
    });
    (first.unwrap(), second.unwrap())
}

#[test]
fn frames_cross_between_threads_in_order() {
    let listener = listen();
    let address = listener.address();
    const COUNT: u32 = 2000;
    let sender = std::thread::spawn(move || {
        let mut link = connect(address, identity("sender"), Exports::new(), TcpConfig::default()).unwrap();
        let waiter = Waiter::new();
        for number in 0..COUNT {
            let payload = vec![number as u8; (number as usize * 97) % 70_000];
            let sent = waiter.until(&mut link, LIMIT, "room", |link| match link.send(NOTE, &payload) {
                Ok(()) => Ok(Some(())),
                Err(FrameSendError::Full) => Ok(None),
                Err(error) => panic!("{error}"),
            });
            sent.unwrap();
            if number % 5 == 0 {
                link.flush().unwrap();
            }
        }
        link.flush().unwrap();
        link.close("all sent");
        while !matches!(link.wait_on(), Some(WaitOn { writable: false, .. })) {
            let _ = link.progress(waiter.clock.now());
        }
    });
    let mut accepting = accept(&listener);
    let mut link = until(|now| accepting.poll(now).unwrap());
    assert_eq!(link.peer().intro().name.as_str(), "sender");
    let mut next = 0u32;
    let lost = Waiter::new().until(&mut link, LIMIT, "frames", |link| {
        link.receive(16, |frame| {
            let bytes = frame.payload.to_vec();
            assert_eq!(bytes.len(), (next as usize * 97) % 70_000);
            assert!(bytes == vec![next as u8; bytes.len()]);
            next += 1;
            Disposition::Taken
        })?;
        Ok(None::<()>)
    });
    assert_eq!(lost.unwrap_err().loss, Loss::Closed { reason: "all sent".to_owned() });
    assert_eq!(next, COUNT);
    sender.join().unwrap();
}

#[test]
fn a_peer_that_dies_in_the_middle_of_a_batch_is_gone() {
    let (mut first, mut second) = pair();
    for _ in 0..3 {
        first.send(NOTE, b"whole").unwrap();
    }
    first.flush().unwrap();
    drop(first);
    let mut taken = 0;
    let lost: LinkError = until(|now| match second.progress(now) {
        Ok(_) => {
            taken += second.receive(1, |_| Disposition::Taken).unwrap_or(0);
            None
        }
        Err(lost) => Some(lost),
    });
    assert_eq!((lost.loss.clone(), taken), (Loss::Gone, 3));
    assert!(lost.to_string().contains("tcp:127.0.0.1:"), "{lost}");
}

#[test]
fn addresses_are_guarded() {
    let everywhere = SocketAddr::from(([0, 0, 0, 0], 0));
    let refused = TcpListener::bind(everywhere, identity("x"), Exports::new(), TcpConfig::default());
    assert!(matches!(refused, Err(ConnectError::NotLoopback { .. })));
    let config = TcpConfig { allow_remote: true, ..TcpConfig::default() };
    TcpListener::bind(everywhere, identity("x"), Exports::new(), config).unwrap();
    let listener = listen();
    let again = TcpListener::bind(listener.address(), identity("x"), Exports::new(), TcpConfig::default());
    assert!(matches!(again, Err(ConnectError::InUse { .. })));
    let address = listener.address();
    drop(listener);
    let refused = connect(address, identity("x"), Exports::new(), TcpConfig::default());
    let error = refused.err().expect("no process listens").to_string();
    assert!(error.contains(&address.to_string()) && error.contains("is the process started"), "{error}");
}

#[test]
fn a_silent_client_keeps_no_other_waiting() {
    let listener = listen();
    let _silent = TcpStream::connect(listener.address()).unwrap();
    let mut stuck = accept(&listener);
    assert!(stuck.poll(Time::ZERO).unwrap().is_none());
    let mut dialing = dial(&listener);
    let mut accepting = accept(&listener);
    until(|now| {
        dialing.poll(now).unwrap();
        accepting.poll(now).unwrap()
    });
    let error = until(|_| stuck.poll(stuck.next_look()).err());
    assert!(matches!(error, ConnectError::TimedOut { .. }), "{error}");
}

/// Says `bytes` to a listener and returns its answer and its error.
fn say(bytes: &[u8]) -> (Option<Refusal>, ConnectError) {
    let listener = listen();
    let mut client = TcpStream::connect(listener.address()).unwrap();
    client.write_all(bytes).unwrap();
    let mut accepting = accept(&listener);
    let error = until(|now| accepting.poll(now).err());
    let mut answer = Vec::new();
    client.set_read_timeout(Some(LIMIT)).unwrap();
    let _ = client.read_to_end(&mut answer);
    match HandshakeAnswer::decode(&answer) {
        Ok(HandshakeAnswer::Refusal(refusal)) => (Some(refusal), error),
        other => panic!("answered {other:?}"),
    }
}

#[test]
fn strangers_and_other_versions_are_told_why_they_are_refused() {
    let (refusal, error) = say(b"GET / HTTP/1.1\r\n\r\n");
    let refusal = refusal.unwrap();
    assert_eq!(refusal.reason, RefusalReason::Malformed);
    assert!(refusal.detail.as_str().contains("expected an Outboard hello"), "{}", refusal.detail);
    assert!(matches!(error, ConnectError::TurnedAway { .. }));

    let intro = identity("future").introduction(1 << 16);
    let hello = Hello { versions: Versions { min: 7, max: 9 }, intro };
    let (refusal, error) = say(&hello.encode());
    assert_eq!(refusal.unwrap().reason, RefusalReason::Version);
    assert!(error.to_string().contains("7–9"), "{error}");

    let mut hello = Hello { versions: Versions::OURS, intro };
    hello.intro.auth.method = 3;
    let (refusal, error) = say(&hello.encode());
    assert_eq!(refusal.unwrap().reason, RefusalReason::Credentials);
    assert!(error.to_string().contains("method 3"), "{error}");
}

#[test]
fn answers_that_make_no_sense_are_refused_by_the_dialer() {
    let answer = |bytes: Vec<u8>| {
        let server = std::net::TcpListener::bind(any_port()).unwrap();
        let address = server.local_addr().unwrap();
        let mut dialing =
            TcpDialing::new(address, identity("x"), Exports::new(), TcpConfig::default(), Time::ZERO)
                .unwrap();
        let mut stream = server.accept().unwrap().0;
        assert!(dialing.poll(Time::ZERO).unwrap().is_none());
        stream.read_exact(&mut [0; HANDSHAKE_LEN]).unwrap();
        stream.write_all(&bytes).unwrap();
        until(|_| dialing.poll(Time::ZERO).err())
    };
    assert!(matches!(answer(b"SSH-2.0-OpenSSH_9.2".to_vec()), ConnectError::Garbage { .. }));
    let intro = identity("server").introduction(1 << 16);
    let right = Welcome { version: 1, intro, ring_bytes: 0, heartbeat_ms: 500, deadline_ms: 5000 };
    for wrong in [
        Welcome { version: Versions::OURS.max + 1, ..right },
        Welcome { heartbeat_ms: 0, ..right },
        Welcome { deadline_ms: 600, ..right },
        Welcome { ring_bytes: 1 << 16, ..right },
    ] {
        let error = answer(wrong.encode().to_vec());
        assert!(matches!(error, ConnectError::Garbage { .. }), "{error}");
    }
    let refused = answer(Refusal::new(RefusalReason::Busy, "come back later").encode().to_vec());
    assert!(refused.to_string().contains("come back later"), "{refused}");
}

#[test]
fn exports_are_served_across_threads() {
    use crate::memory::{Buffer, Segment};
    use crate::{AccessOutcome, Export, RemoteMemory, Token};
    use outboard_wire::{Generation, RegionId, RegionKey, Rights};

    let memory = Arc::new(Segment::create(c"test", 1 << 20).unwrap());
    let export = Export {
        region: RegionId(1),
        generation: Generation(0),
        memory: Arc::clone(&memory),
        keys: vec![(RegionKey([1; 16]), Rights::ALL)],
    };
    let grant = export.grant(0).unwrap();
    let exports = Exports::new();
    exports.add(export);
    let listener = TcpListener::bind(any_port(), identity("owner"), exports, TcpConfig::default()).unwrap();
    let address = listener.address();
    let user = std::thread::spawn(move || {
        let mut link = connect(address, identity("user"), Exports::new(), TcpConfig::default()).unwrap();
        let waiter = Waiter::new();
        let ended = |link: &mut TcpLink| {
            waiter.until(link, LIMIT, "an operation", |link| {
                let mut outcome = None;
                link.completions(|completion| outcome = Some(completion.result.unwrap()));
                Ok(outcome)
            })
        };
        link.open(&grant, Rights::ALL, Token(0)).unwrap();
        let AccessOutcome::Opened(region) = ended(&mut link).unwrap() else { panic!("not open") };
        let into = Buffer::allocate(1 << 16).unwrap();
        for round in 0..200u64 {
            let data = vec![round as u8; 1 << 16];
            link.write(region, (round % 15) << 16, data[..].into(), Token(1)).unwrap();
            assert_eq!(ended(&mut link).unwrap(), AccessOutcome::Written);
            link.read(region, (round % 15) << 16, &into, 0, 1 << 16, Token(2)).unwrap();
            assert_eq!(ended(&mut link).unwrap(), AccessOutcome::Read);
            assert_eq!(into.window().to_vec(), data);
            link.fetch_add(region, 15 << 16, 1, Token(3)).unwrap();
            assert_eq!(ended(&mut link).unwrap(), AccessOutcome::Old(round));
        }
        link.close("done");
    });
    let mut accepting = accept(&listener);
    let mut link = until(|now| accepting.poll(now).unwrap());
    let lost = Waiter::new().until(&mut link, LIMIT, "the end", |_| Ok(None::<()>)).unwrap_err();
    assert_eq!(lost.loss, Loss::Closed { reason: "done".to_owned() });
    assert_eq!(memory.window(15 << 16, 8).word(0), 200);
    user.join().unwrap();
}

/// The number of the listener at which a connection of this slot arrives.
fn arrives_at(listeners: &[TcpListener], slot: Option<u8>) -> usize {
    let config = TcpConfig { slot, ..TcpConfig::default() };
    let (address, caller) = (listeners[0].address(), identity("caller"));
    let mut dialing = TcpDialing::new(address, caller, Exports::new(), config, Time::ZERO).unwrap();
    let (mut accepting, mut link) = (None, None);
    until(|now| {
        link = link.take().or_else(|| dialing.poll(now).unwrap());
        for (number, listener) in listeners.iter().enumerate() {
            if let Some(taken) = listener.accept(now).unwrap() {
                assert!(accepting.replace((number, taken)).is_none(), "one connection arrives once");
            }
        }
        let (number, taken) = accepting.as_mut()?;
        taken.poll(now).unwrap().map(|_| *number)
    })
}

#[test]
fn connections_of_a_slot_arrive_at_its_listener() {
    let address = SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, 0));
    let (who, config) = (identity("server"), TcpConfig::default());
    if let Err(why) = std::net::TcpListener::bind(address) {
        println!("skipped: no IPv6: {why}");
        return;
    }
    let listeners = TcpListener::bind_by_slot(address, 3, &who, &Exports::new(), &config).unwrap();
    assert_eq!(listeners.len(), 4);
    for slot in [0, 1, 2, 3, 100, 255] {
        assert_eq!(arrives_at(&listeners, Some(slot)), usize::from(slot % 3), "slot {slot}");
    }
    // Those without a slot have a listener of their own.
    for _ in 0..5 {
        assert_eq!(arrives_at(&listeners, None), 3);
    }
    // A port that is shared is not shared with strangers.
    let taken = listeners[0].address();
    let second = TcpListener::bind_by_slot(taken, 3, &who, &Exports::new(), &config);
    assert!(matches!(second, Err(ConnectError::InUse { .. })));
}
