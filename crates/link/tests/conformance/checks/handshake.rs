//! Strangers are turned away with a clear word on both sides.

use outboard_link::{ConnectError, Link};
use outboard_wire::{
    Auth, HANDSHAKE_LEN, Hello, Incarnation, Introduction, JobId, Rank, Refusal, RefusalReason, Rights, Role,
    StoreId, Text, Versions,
};

use crate::fixture::{ADA, Fixture, Met, Sides};
use crate::pair::{ALL, Pair, region};

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
        store: StoreId::NONE,
    };
    Hello { versions, intro }
}

/// What came of it when a side of a build of `versions` said this in place of its hello.
fn say<F: Fixture>(versions: Versions, hello: &[u8; HANDSHAKE_LEN]) -> Met<()> {
    let (ada, ben) = F::meet(&Sides::speaking(versions, Versions::OURS), Some(hello));
    (ada.map(drop), ben.map(drop))
}

/// A build of another release, by how many it is newer or older.
fn build(releases: i32) -> Versions {
    let newest = i32::from(Versions::NEWEST) + releases;
    Versions::up_to(u16::try_from(newest).unwrap())
}

/// Builds one release apart agree on what the older of them speaks best, whichever of the two connects, and everything
/// works.
pub(crate) fn agrees_with_the_next_release_and_the_one_before<F: Fixture>() {
    let (before, ours, next) = (build(-1), Versions::OURS, build(1));
    for (ada, ben) in
        [(ours, ours), (before, ours), (ours, before), (next, ours), (ours, next), (next, before)]
    {
        let Some(agreed) = ada.common(ben) else {
            assert_eq!((ada, ben), (next, before), "two releases apart");
            continue;
        };
        assert_eq!(agreed, ada.max.min(ben.max));
        let sides = Sides::speaking(ada, ben);
        sides.ben.add(region(1));
        let mut pair = Pair::<F>::with(&sides);
        assert_eq!((pair.ada.peer().version(), pair.ben.peer().version()), (agreed, agreed));
        pair.assert_alive();
        let opened = pair.open(&region(1).grant(ALL).unwrap(), Rights::ALL).unwrap();
        pair.write(opened, 8, &[7; 8]).unwrap();
        assert_eq!(pair.read(opened, 8, 8).unwrap(), [7; 8]);
    }
}

/// Both sides name the versions of both.
#[track_caller]
fn assert_parted((dialler, acceptor): Met<()>, (ada, ben): (Versions, Versions)) {
    let (refused, turned_away) = (dialler.unwrap_err(), acceptor.unwrap_err());
    let reason = |refusal: &Refusal| assert_eq!(refusal.reason, RefusalReason::Version);
    match &refused {
        ConnectError::Refused { refusal, .. } => reason(refusal),
        other => panic!("{other}"),
    }
    match &turned_away {
        ConnectError::TurnedAway { refusal, .. } => reason(refusal),
        other => panic!("{other}"),
    }
    let words = format!("the side that connects speaks {ada}, the other {ben}");
    for told in [refused.to_string(), turned_away.to_string()] {
        assert!(told.contains(&words), "{told}");
    }
}

/// Builds that are more than a release apart part, and each says which versions both speak, whichever of the two connects.
pub(crate) fn parts_with_builds_of_no_common_version<F: Fixture>() {
    let far = Versions { min: 900, max: 901 };
    let ours = Versions::OURS;
    for (ada, ben) in [(build(2), ours), (ours, build(2)), (far, ours), (ours, far)] {
        let (dialler, acceptor) = F::meet(&Sides::speaking(ada, ben), None);
        assert_parted((dialler.map(drop), acceptor.map(drop)), (ada, ben));
    }
}

/// Of a hello that is none of ours the versions are understood, whatever else is in it.
pub(crate) fn understands_the_versions_of_any_hello<F: Fixture>() {
    let mut random = fastrand::Rng::with_seed(6);
    let theirs = Versions { min: 900, max: 901 };
    for _ in 0..8 {
        let mut bytes = hello(theirs).encode();
        // The magic and the versions.
        random.fill(&mut bytes[12..]);
        assert_parted(say::<F>(theirs, &bytes), (theirs, Versions::OURS));
    }
}

/// A proof that cannot be checked is no proof.
pub(crate) fn refuses_unknown_authentication<F: Fixture>() {
    let mut hello = hello(Versions::OURS);
    hello.intro.auth = Auth { method: 9, proof: [1; 64] };
    let (dialler, acceptor) = say::<F>(Versions::OURS, &hello.encode());
    match dialler.unwrap_err() {
        ConnectError::Refused { refusal, .. } => assert_eq!(refusal.reason, RefusalReason::Credentials),
        other => panic!("{other}"),
    }
    assert!(acceptor.is_err());
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
        let (dialler, acceptor) = say::<F>(Versions::OURS, &bytes);
        let turned_away = acceptor.expect_err("garbage was welcomed");
        assert!(!turned_away.to_string().is_empty());
        let refused = dialler.expect_err("garbage was welcomed");
        let is_clear = matches!(refused, ConnectError::Refused { .. } | ConnectError::HungUp { .. });
        assert!(is_clear, "{refused}");
    }
}

/// The right words open a link, and each side knows the other.
pub(crate) fn introduces_both_sides<F: Fixture>() {
    let mut pair = Pair::<F>::new();
    assert_eq!(pair.ada.peer().intro().name.as_str(), crate::fixture::BEN);
    assert_eq!(pair.ben.peer().intro().name.as_str(), ADA);
    assert_ne!(pair.ada.peer().incarnation(), pair.ben.peer().incarnation());
    assert!(!pair.ada.peer().address().is_empty());
    pair.assert_alive();
    let (dialler, acceptor) = say::<F>(Versions::OURS, &hello(Versions::OURS).encode());
    dialler.unwrap();
    acceptor.unwrap();
}
