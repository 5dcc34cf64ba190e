//! What is particular about frames on encrypted links.

use std::io::{Read, Write};
use std::net::{TcpListener as PlainListener, TcpStream};
use std::time::Duration;

use outboard_link::tcp::{TcpConfig, TcpListener, connect};
use outboard_link::{Disposition, Exports, FrameSendError, Link, Loss, StreamConfig, Waiter};
use outboard_wire::Time;

use crate::port::{LIMIT, NOTE, config, identity, meet, secret, until};

/// So seldom that no side is woken by it.
fn quiet() -> TcpConfig {
    let stream = StreamConfig {
        heartbeat: Duration::from_secs(600),
        deadline: Duration::from_secs(1800),
        buffer_bytes: 1 << 16,
        ..StreamConfig::default()
    };
    TcpConfig { stream, ..config(secret("what only the two know")) }
}

#[test]
fn a_sleeper_is_not_left_alone_with_what_was_decrypted() {
    let listener =
        TcpListener::bind("127.0.0.1:0".parse().unwrap(), identity("a"), Exports::new(), quiet()).unwrap();
    let address = listener.address();
    const COUNT: usize = 3000;
    let sender = std::thread::spawn(move || {
        let mut link = connect(address, identity("sender"), Exports::new(), quiet()).unwrap();
        let waiter = Waiter::new();
        for number in 0..COUNT {
            let payload = vec![number as u8; number * 37 % 3000];
            waiter
                .until(&mut link, LIMIT, "room", |link| match link.send(NOTE, &payload) {
                    Ok(()) => Ok(Some(())),
                    Err(FrameSendError::Full) => link.flush().map(|()| None),
                    Err(error) => panic!("{error}"),
                })
                .unwrap();
        }
        link.flush().unwrap();
        let ended = waiter.until(&mut link, LIMIT, "the end", |link| {
            link.receive(1, |_| Disposition::Taken).map(|_| None::<()>)
        });
        assert_eq!(ended.unwrap_err().loss, Loss::Closed { reason: "got it".to_owned() });
    });
    let mut accepting = until(|now| listener.accept(now).unwrap());
    let mut link = until(|now| accepting.poll(now).unwrap());
    let waiter = Waiter::new();
    for number in 0..COUNT {
        // One frame at a time, with a sleep whenever there seems to be nothing.
        let mut payload = None;
        waiter
            .until(&mut link, LIMIT, "a frame", |link| {
                link.receive(1, |frame| {
                    payload = Some(frame.payload.to_vec());
                    Disposition::Taken
                })?;
                Ok(payload.take())
            })
            .map(|payload| assert_eq!(payload, vec![number as u8; number * 37 % 3000]))
            .unwrap();
    }
    link.close("got it");
    sender.join().unwrap();
}

#[test]
fn a_bit_that_is_turned_on_the_way_ends_the_link_and_nothing_of_it_arrives() {
    let config = config(secret("what only the two know"));
    let listener =
        TcpListener::bind("127.0.0.1:0".parse().unwrap(), identity("a"), Exports::new(), config.clone())
            .unwrap();
    let between = PlainListener::bind("127.0.0.1:0").unwrap();
    let address = between.local_addr().unwrap();
    let dialler =
        std::thread::spawn(move || connect(address, identity("b"), Exports::new(), config).unwrap());
    let (mut client, mut server) =
        (between.accept().unwrap().0, TcpStream::connect(listener.address()).unwrap());
    client.set_nonblocking(true).unwrap();
    server.set_nonblocking(true).unwrap();
    let mut accepting = until(|now| listener.accept(now).unwrap());
    let mut relay = |is_evil: bool| {
        let mut bytes = [0; 1 << 14];
        if let Ok(len) = client.read(&mut bytes) {
            if is_evil {
                bytes[len - 1] ^= 1;
            }
            server.write_all(&bytes[..len]).unwrap();
        }
        if let Ok(len) = server.read(&mut bytes) {
            client.write_all(&bytes[..len]).unwrap();
        }
    };
    let mut receiver = until(|now| {
        relay(false);
        accepting.poll(now).unwrap()
    });
    let mut sender = {
        until(|_| {
            relay(false);
            dialler.is_finished().then_some(())
        });
        dialler.join().unwrap()
    };
    sender.send(NOTE, b"a bill over 100").unwrap();
    sender.flush().unwrap();
    let lost = until(|now| {
        relay(true);
        receiver.progress(now).err()
    });
    assert!(matches!(lost.loss, Loss::Untrusted(_)), "{lost}");
    assert!(receiver.receive(1, |_| Disposition::Taken).is_err());
}

#[test]
fn what_travels_cannot_be_read() {
    let config = config(secret("what only the two know"));
    let listener =
        TcpListener::bind("127.0.0.1:0".parse().unwrap(), identity("a"), Exports::new(), config.clone())
            .unwrap();
    // A process between the two sees the handshake and the frame.
    let between = PlainListener::bind("127.0.0.1:0").unwrap();
    let address = between.local_addr().unwrap();
    let words = b"what no other should read";
    let dialler = std::thread::spawn(move || {
        let mut link = connect(address, identity("someone"), Exports::new(), config).unwrap();
        link.send(NOTE, words).unwrap();
        link.flush().unwrap();
        link
    });
    let (mut client, mut server) =
        (between.accept().unwrap().0, TcpStream::connect(listener.address()).unwrap());
    client.set_nonblocking(true).unwrap();
    server.set_nonblocking(true).unwrap();
    let mut accepting = until(|now| listener.accept(now).unwrap());
    let (mut seen, mut link) = (Vec::<u8>::new(), None);
    until(|now| {
        let mut bytes = [0; 1 << 14];
        if let Ok(len) = client.read(&mut bytes) {
            seen.extend(&bytes[..len]);
            server.write_all(&bytes[..len]).unwrap();
        }
        if let Ok(len) = server.read(&mut bytes) {
            seen.extend(&bytes[..len]);
            client.write_all(&bytes[..len]).unwrap();
        }
        match &mut link {
            None => {
                link = accepting.poll(now).unwrap();
                None
            }
            Some(link) => {
                link.progress(now).unwrap();
                let mut heard = None;
                link.receive(1, |frame| {
                    heard = Some(frame.payload.to_vec());
                    Disposition::Taken
                })
                .unwrap();
                heard.filter(|heard| heard == words)
            }
        }
    });
    drop(dialler.join().unwrap());
    for secret in [&words[..], b"someone", b"what only the two know"] {
        assert!(!seen.windows(secret.len()).any(|window| window == secret));
    }
}

#[test]
fn long_and_short_frames_pass_when_the_peer_is_slow() {
    let config = config(secret("what only the two know"));
    let listener =
        TcpListener::bind("127.0.0.1:0".parse().unwrap(), identity("a"), Exports::new(), config.clone())
            .unwrap();
    let (dialled, accepted) = meet(&listener, &config);
    let (mut from, mut to) = (dialled.unwrap(), accepted.unwrap());
    let longest = from.capabilities().max_payload;
    let lens: Vec<usize> =
        (0..400).map(|number| [1, 16, 100, 16_384, 16_385, 65_536, longest][number % 7]).collect();
    let (mut next_out, mut next_in) = (0, 0);
    until(|now| {
        // The sender fills everything up before the receiver takes one frame.
        while let Some(len) = lens.get(next_out) {
            let sent = from.send(NOTE, &vec![next_out as u8; *len]);
            from.flush().unwrap();
            match sent {
                Ok(()) => next_out += 1,
                Err(FrameSendError::Full) => break,
                Err(error) => panic!("{error}"),
            }
        }
        from.progress(now.max(Time::ZERO)).unwrap();
        to.progress(now).unwrap();
        to.receive(1, |frame| {
            let payload = frame.payload.to_vec();
            assert_eq!(payload.len(), lens[next_in], "frame {next_in}");
            assert!(payload.iter().all(|byte| *byte == next_in as u8));
            next_in += 1;
            Disposition::Taken
        })
        .unwrap();
        (next_in == lens.len()).then_some(())
    });
}
