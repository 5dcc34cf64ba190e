//! Those who are not let in.

use std::io::{Read, Write};
use std::net::{TcpListener as PlainListener, TcpStream};
use std::sync::Arc;

use outboard_link::tcp::{Distrust, NODE_NAME, TcpConfig, TcpDialing};
use outboard_link::{ConnectError, Exports};
use outboard_wire::{HANDSHAKE_LEN, Time};
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, ServerConnection, StreamOwned};

use crate::authority::{Authority, Validity};
use crate::port::{LIMIT, Port, config, identity, secret, until};

fn distrust(error: &ConnectError) -> &Distrust {
    match error {
        ConnectError::Untrusted { source, .. } => source,
        other => panic!("another error: {other}"),
    }
}

#[test]
fn another_authority() {
    let mut port = Port::new(config(Authority::new().credential()));
    let (dialler, listener) = port.refused(&config(Authority::new().credential()));
    assert_eq!(distrust(&dialler), &Distrust::UnknownIssuer);
    assert!(dialler.to_string().contains("outboard keys issue"), "{dialler}");
    let Distrust::RefusedUs { why } = distrust(&listener) else { panic!("{listener}") };
    assert!(why.contains("authority"), "{listener}");
    assert!(listener.to_string().contains("tcp:127.0.0.1:"), "{listener}");
}

#[test]
fn another_secret() {
    let mut port = Port::new(config(secret("the right one of them")));
    let (dialler, listener) = port.refused(&config(secret("the wrong one of them")));
    assert_eq!(distrust(&dialler), &Distrust::OtherSecret);
    assert!(listener.to_string().contains("link.secret"), "{listener}");
}

#[test]
fn another_kind_of_credential() {
    let authority = Authority::new();
    let mut port = Port::new(config(authority.credential()));
    let (dialler, listener) = port.refused(&config(secret("what only one of them has")));
    for error in [dialler, listener] {
        assert!(error.to_string().contains("kind of credential"), "{error}");
    }
    let mut port = Port::new(config(secret("what only one of them has")));
    let (dialler, listener) = port.refused(&config(authority.credential()));
    for error in [dialler, listener] {
        assert!(error.to_string().contains("kind of credential"), "{error}");
    }
}

#[test]
fn clients_with_certificates_that_are_not_valid_now() {
    let authority = Authority::new();
    let mut port = Port::new(config(authority.credential()));
    for (validity, ours, theirs) in
        [(Validity::Past, "expired", "CertificateExpired"), (Validity::Future, "not valid yet", "")]
    {
        let (client, _) = authority.show(&authority.issue(validity));
        let name = ServerName::try_from(NODE_NAME).unwrap();
        let socket = TcpStream::connect(port.address()).unwrap();
        let mut client = StreamOwned::new(ClientConnection::new(client, name).unwrap(), socket);
        let mut accepting = port.accept();
        let stranger = std::thread::spawn(move || {
            client.write_all(&[7; 100]).unwrap();
            client.read(&mut [0; 100]).unwrap_err().to_string()
        });
        let error = until(|now| accepting.poll(now).err());
        assert!(error.to_string().contains(ours), "{error}");
        // An alert says so to the other side too.
        let heard = stranger.join().unwrap();
        assert!(heard.contains("alert") && heard.contains(theirs), "{heard}");
        port.check_others();
    }
}

#[test]
fn servers_with_certificates_that_are_not_valid_now() {
    let authority = Authority::new();
    let config = config(authority.credential());
    for (validity, expected) in [(Validity::Past, "expired"), (Validity::Future, "not valid yet")] {
        let (_, server) = authority.show(&authority.issue(validity));
        let listener = PlainListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let stranger = std::thread::spawn(move || {
            let socket = listener.accept().unwrap().0;
            let mut server = StreamOwned::new(ServerConnection::new(server).unwrap(), socket);
            server.read(&mut [0; 100]).unwrap_err().to_string()
        });
        let mut dialing =
            TcpDialing::new(address, identity("x"), Exports::new(), config.clone(), Time::ZERO).unwrap();
        let error = until(|_| dialing.poll(Time::ZERO).err());
        assert!(error.to_string().contains(expected), "{error}");
        assert!(stranger.join().unwrap().contains("alert"));
    }
}

#[test]
fn plain_text_in_either_direction() {
    let mut port = Port::new(config(secret("what only the two know")));
    let (dialler, listener) = port.refused(&TcpConfig::default());
    assert_eq!(distrust(&listener), &Distrust::PlainText);
    assert_eq!(distrust(&dialler), &Distrust::WantsTls);

    let mut port = Port::new(TcpConfig::default());
    let (dialler, listener) = port.refused(&config(secret("what only one knows")));
    assert_eq!(distrust(&dialler), &Distrust::PlainText);
    assert!(matches!(listener, ConnectError::TurnedAway { .. }), "{listener}");
    assert!(listener.to_string().contains("this is TLS"), "{listener}");
}

#[test]
fn garbage_and_what_is_cut_short() {
    let mut port = Port::new(config(secret("what only the two know")));
    assert_eq!(distrust(&port.hears(b"GET / HTTP/1.1\r\n\r\n")), &Distrust::PlainText);
    let hello = recorded_handshake(&config(secret("what only the two know"))).swap_remove(0);
    for len in [0, 1, 4, 5, 50, hello.len() - 1] {
        let error = port.hears(&hello[..len]);
        assert!(matches!(error, ConnectError::HungUp { .. }), "{len}: {error}");
    }
    let mut random = fastrand::Rng::with_seed(1);
    for round in 0..200 {
        let mut bytes = hello.clone();
        let at = random.usize(0..bytes.len());
        bytes[at] ^= 1 << random.u8(0..8);
        bytes.extend((0..random.usize(0..400)).map(|_| random.u8(..)));
        if round % 2 == 0 {
            bytes.drain(..random.usize(0..40));
        }
        let error = port.hears(&bytes);
        assert!(
            matches!(error, ConnectError::HungUp { .. } | ConnectError::Untrusted { .. }),
            "round {round}: {error}"
        );
    }
}

#[test]
fn a_message_without_end() {
    let mut port = Port::new(config(secret("what only the two know")));
    // The beginning of a hello that would have 64 KiB, in records that are as long as they may be.
    let mut bytes = Vec::new();
    for number in 0..4 {
        bytes.extend([22, 3, 1, 0x40, 0]);
        let begin = if number == 0 { &[1, 0, 0xff, 0xff][..] } else { &[] };
        bytes.extend(begin);
        bytes.resize(bytes.len() + (1 << 14) - begin.len(), 0);
    }
    let error = port.hears(&bytes);
    assert!(error.to_string().contains("too long"), "{error}");
}

#[test]
fn a_replayed_handshake() {
    let config = config(secret("what only the two know"));
    let flights = recorded_handshake(&config);
    assert!(flights.len() >= 2, "a hello, and then something encrypted");
    let mut port = Port::new(config);
    let mut thief = TcpStream::connect(port.address()).unwrap();
    thief.set_read_timeout(Some(LIMIT)).unwrap();
    let mut accepting = port.accept();
    let mut error = None;
    for flight in flights {
        let _ = thief.write_all(&flight);
        // The answer is new each time, and what was recorded does not go with it.
        let mut answered = false;
        until(|now| {
            error = error.take().or_else(|| accepting.poll(now).err());
            answered |= thief.peek(&mut [0]).is_ok_and(|len| len > 0);
            (answered || error.is_some()).then_some(())
        });
    }
    let error = error.unwrap_or_else(|| until(|now| accepting.poll(now).err()));
    assert!(matches!(distrust(&error), Distrust::Broken { .. }), "{error}");
    assert!(error.to_string().contains("decrypt"), "{error}");
    port.check_others();
}

#[test]
fn silence() {
    let mut port = Port::new(config(secret("what only the two know")));
    let _silent = TcpStream::connect(port.address()).unwrap();
    let mut accepting = port.accept();
    assert!(accepting.poll(Time::ZERO).unwrap().is_none());
    port.check_others();
    let error = until(|_| accepting.poll(accepting.next_look()).err());
    assert!(matches!(error, ConnectError::TimedOut { .. }), "{error}");
}

/// What a client with a right credential says, flight by flight, as a process between it and the server sees it.
fn recorded_handshake(config: &TcpConfig) -> Vec<Vec<u8>> {
    let port = Arc::new(std::sync::Mutex::new(Port::new(config.clone())));
    let server = port.lock().unwrap().address();
    let between = PlainListener::bind("127.0.0.1:0").unwrap();
    let address = between.local_addr().unwrap();
    let mut dialing =
        TcpDialing::new(address, identity("victim"), Exports::new(), config.clone(), Time::ZERO).unwrap();
    let (mut client, mut server) = (between.accept().unwrap().0, TcpStream::connect(server).unwrap());
    client.set_nonblocking(true).unwrap();
    server.set_nonblocking(true).unwrap();
    let mut accepting = port.lock().unwrap().accept();
    let mut flights: Vec<Vec<u8>> = Vec::new();
    let (mut is_answered, mut dialled, mut accepted) = (true, None, None);
    until(|now| {
        dialled = dialled.take().or_else(|| dialing.poll(now).unwrap());
        let mut bytes = [0; 1 << 14];
        if let Ok(len) = client.read(&mut bytes) {
            if std::mem::take(&mut is_answered) {
                flights.push(Vec::new());
            }
            flights.last_mut().unwrap().extend(&bytes[..len]);
            server.write_all(&bytes[..len]).unwrap();
        }
        accepted = accepted.take().or_else(|| accepting.poll(now).unwrap());
        if let Ok(len) = server.read(&mut bytes) {
            is_answered = true;
            client.write_all(&bytes[..len]).unwrap();
        }
        (dialled.is_some() && accepted.is_some()).then_some(())
    });
    assert!(flights.iter().map(Vec::len).sum::<usize>() > HANDSHAKE_LEN);
    flights
}
