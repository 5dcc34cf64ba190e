//! Strangers are turned away with a clear word on both sides.

use outboard_link::ConnectError;
use outboard_wire::{
    Auth, HANDSHAKE_LEN, Hello, Incarnation, Introduction, JobId, Rank, RefusalReason, Role, Text, Versions,
};

use crate::fixture::{ADA, Fixture};
use crate::pair::Pair;

fn hello(versions: Versions) -> Hello {
    let intro = Introduction {
        incarnation: Incarnation(77),
        role: Role::Tool,
        job: JobId(0),
        rank: Rank(0),
        pid: 1,
        name: Text::new(ADA),
        max_payload: 1 << 16,
        auth: Auth::NONE,
    };
    Hello { versions, intro }
}

/// A peer of another version is told which versions there are, and so is the side that turned it away.
pub(crate) fn refuses_another_version<F: Fixture>() {
    let theirs = Versions { min: 900, max: 901 };
    let handshake = F::dial_raw(&hello(theirs).encode());
    let refused = handshake.dialler.unwrap_err();
    match &refused {
        ConnectError::Refused { refusal, .. } => assert_eq!(refusal.reason, RefusalReason::Version),
        other => panic!("{other}"),
    }
    assert!(refused.to_string().contains(&Versions::OURS.to_string()), "{refused}");
    let turned_away = handshake.acceptor.unwrap_err();
    assert!(matches!(turned_away, ConnectError::TurnedAway { .. }), "{turned_away}");
    assert!(turned_away.to_string().contains("900"), "{turned_away}");
}

/// A proof that nobody can check is no proof.
pub(crate) fn refuses_unknown_authentication<F: Fixture>() {
    let mut hello = hello(Versions::OURS);
    hello.intro.auth = Auth { method: 9, proof: [1; 64] };
    let handshake = F::dial_raw(&hello.encode());
    match handshake.dialler.unwrap_err() {
        ConnectError::Refused { refusal, .. } => assert_eq!(refusal.reason, RefusalReason::Credentials),
        other => panic!("{other}"),
    }
    assert!(handshake.acceptor.is_err());
}

/// Bytes that are no hello open no link, and never bring the listening side down.
pub(crate) fn refuses_garbage<F: Fixture>() {
    let mut random = fastrand::Rng::with_seed(5);
    let right = hello(Versions::OURS).encode();
    for round in 0..60 {
        let mut bytes = right;
        match round % 3 {
            0 => random.fill(&mut bytes),
            1 => bytes[random.usize(0..8)] ^= 1 << random.u8(0..8),
            _ => {
                let from = random.usize(0..HANDSHAKE_LEN);
                random.fill(&mut bytes[from..]);
            }
        }
        if Hello::decode(&bytes).is_ok() {
            continue;
        }
        let handshake = F::dial_raw(&bytes);
        let turned_away = handshake.acceptor.expect_err("garbage was welcomed");
        assert!(!turned_away.to_string().is_empty());
        let refused = handshake.dialler.expect_err("garbage was welcomed");
        let is_clear = matches!(refused, ConnectError::Refused { .. } | ConnectError::HungUp { .. });
        assert!(is_clear, "{refused}");
    }
}

/// The right words open a link, and each side knows the other.
pub(crate) fn introduces_both_sides<F: Fixture>() {
    use outboard_link::Link;
    let mut pair = Pair::<F>::new();
    assert_eq!(pair.ada.peer().intro().name.as_str(), crate::fixture::BEN);
    assert_eq!(pair.ben.peer().intro().name.as_str(), ADA);
    assert_ne!(pair.ada.peer().incarnation(), pair.ben.peer().incarnation());
    assert!(!pair.ada.peer().address().is_empty());
    pair.assert_alive();
    let handshake = F::dial_raw(&hello(Versions::OURS).encode());
    handshake.dialler.unwrap();
    handshake.acceptor.unwrap();
}
