//! Clients that have to wait for their turn, and clients for which there is no room: both are told.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::{Duration, Instant};

use outboard_link::shm::{self, ShmListener};
use outboard_link::tcp::{self, TcpListener};
use outboard_link::{Address, ConnectError, Exports, Identity, Link};
use outboard_wire::{Role, Time, Versions};
use rustix::io::Errno;

/// Long enough for a loaded machine; nothing waits so long when all is well.
const PATIENCE: Duration = Duration::from_secs(20);
/// What handshakes are given by default, and how much of it a look counts at most.
const LIMIT: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(100);

fn identity(name: &str) -> Identity {
    Identity::new(Role::MemoryServer, name)
}

fn fresh_name() -> Address {
    Address::Abstract(format!("outboard-queue-{}", identity("").incarnation))
}

fn listen_shm(address: &Address) -> ShmListener {
    ShmListener::bind(address, identity("busy"), Exports::new(), shm::ShmConfig::default()).unwrap()
}

fn dial_shm(address: &Address) -> shm::ShmDialing {
    let config = shm::ShmConfig::default();
    shm::ShmDialing::new(address, identity("client"), Exports::new(), config, Time::ZERO).unwrap()
}

fn listen_tcp() -> TcpListener {
    let any = ([127, 0, 0, 1], 0).into();
    TcpListener::bind(any, identity("busy"), Exports::new(), tcp::TcpConfig::default()).unwrap()
}

fn dial_tcp(listener: &TcpListener) -> tcp::TcpDialing {
    let (address, config) = (listener.address(), tcp::TcpConfig::default());
    tcp::TcpDialing::new(address, identity("client"), Exports::new(), config, Time::ZERO).unwrap()
}

/// Waits until `step` brings something.
#[track_caller]
fn until<T>(mut step: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(value) = step() {
            return value;
        }
        assert!(began.elapsed() < PATIENCE, "waited in vain");
        std::thread::yield_now();
    }
}

/// Lets nearly all of the client's patience pass, in looks as long as they count.
macro_rules! try_its_patience {
    ($dialing:expr, $now:expr) => {
        let end = $now + (LIMIT - LOOK / 2);
        while $now < end {
            $now = ($now + LOOK).min(end);
            assert!($dialing.poll($now).unwrap().is_none());
        }
    };
}

macro_rules! waits_as_long_as_it_is_told_to {
    ($listener:expr, $dialing:expr) => {
        let (listener, mut dialing) = ($listener, $dialing);
        let mut now = Time::ZERO;
        assert!(dialing.poll(now).unwrap().is_none());
        let mut accepting = until(|| listener.accept(Time::ZERO).unwrap());
        until(|| {
            assert!(dialing.poll(now).unwrap().is_none());
            accepting.hear(Time::ZERO).unwrap().then_some(())
        });
        for _ in 0..5 {
            try_its_patience!(dialing, now);
            accepting.reassure(Time::ZERO).unwrap();
            // Once it has heard that, it need not look again so soon.
            until(|| {
                assert!(dialing.poll(now).unwrap().is_none());
                (dialing.next_look() == now + LOOK).then_some(())
            });
        }
        let greeted = until(|| accepting.poll(Time::ZERO).unwrap());
        let link = until(|| dialing.poll(now).unwrap());
        assert_eq!(link.peer().intro().name.as_str(), "busy");
        drop((greeted, link));
    };
}

#[test]
fn a_client_waits_as_long_as_it_is_told_to() {
    let address = fresh_name();
    waits_as_long_as_it_is_told_to!(listen_shm(&address), dial_shm(&address));
    let listener = listen_tcp();
    let dialing = dial_tcp(&listener);
    waits_as_long_as_it_is_told_to!(listener, dialing);
}

/// One that does not know that answer is not given it: here it would have renewed its patience.
macro_rules! is_not_told_to_wait {
    ($listener:expr, $dialing:expr) => {
        let (listener, mut dialing) = ($listener, $dialing);
        let mut now = Time::ZERO;
        assert!(dialing.poll(now).unwrap().is_none());
        let mut accepting = until(|| listener.accept(Time::ZERO).unwrap());
        until(|| {
            assert!(dialing.poll(now).unwrap().is_none());
            accepting.hear(Time::ZERO).unwrap().then_some(())
        });
        accepting.reassure(Time::ZERO).unwrap();
        try_its_patience!(dialing, now);
        let error = dialing.poll(now + LOOK).err().unwrap();
        assert!(matches!(error, ConnectError::TimedOut { .. }), "{error}");
    };
}

#[test]
fn a_client_of_the_first_version_is_not_told_to_wait() {
    let first = Identity { versions: Versions::up_to(1), ..identity("client") };
    let address = fresh_name();
    let listener = listen_shm(&address);
    let config = shm::ShmConfig::default();
    let dialing = shm::ShmDialing::new(&address, first.clone(), Exports::new(), config, Time::ZERO).unwrap();
    is_not_told_to_wait!(listener, dialing);
    let listener = listen_tcp();
    let (address, config) = (listener.address(), tcp::TcpConfig::default());
    let dialing = tcp::TcpDialing::new(address, first, Exports::new(), config, Time::ZERO).unwrap();
    is_not_told_to_wait!(listener, dialing);
}

macro_rules! gives_up_after_silence {
    ($listener:expr, $dialing:expr) => {
        let (listener, mut dialing) = ($listener, $dialing);
        let mut now = Time::ZERO;
        let _accepting = until(|| {
            assert!(dialing.poll(now).unwrap().is_none());
            listener.accept(now).unwrap()
        });
        try_its_patience!(dialing, now);
        let error = dialing.poll(now + LOOK).err().unwrap();
        assert!(matches!(error, ConnectError::TimedOut { .. }), "{error}");
    };
}

#[test]
fn a_client_that_hears_nothing_gives_up() {
    let address = fresh_name();
    gives_up_after_silence!(listen_shm(&address), dial_shm(&address));
    let listener = listen_tcp();
    let dialing = dial_tcp(&listener);
    gives_up_after_silence!(listener, dialing);
}

/// The listener may hang up before the client has said anything, and the client still reads why.
macro_rules! learns_why_there_is_no_room {
    ($listener:expr, $dialing:expr, $heard:expr) => {
        let (listener, mut dialing) = ($listener, $dialing);
        if $heard {
            assert!(dialing.poll(Time::ZERO).unwrap().is_none());
        }
        let mut accepting = until(|| listener.accept(Time::ZERO).unwrap());
        if $heard {
            until(|| {
                assert!(dialing.poll(Time::ZERO).unwrap().is_none());
                accepting.hear(Time::ZERO).unwrap().then_some(())
            });
        }
        let told = accepting.turn_away(("accept", Errno::MFILE), Time::ZERO);
        drop(accepting);
        assert!(matches!(&told, ConnectError::TurnedAway { .. }), "{told}");
        let error = until(|| dialing.poll(Time::ZERO).err());
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap();
        let expected = format!(
            "refused: memory server “busy” has no descriptors left for another client (limit {limit}): raise it with"
        );
        assert!(error.to_string().contains(&expected), "{error}");
    };
}

#[test]
fn a_client_for_which_there_is_no_room_learns_why() {
    for heard in [false, true] {
        let listener = listen_tcp();
        let dialing = dial_tcp(&listener);
        learns_why_there_is_no_room!(listener, dialing, heard);
    }
    let address = fresh_name();
    learns_why_there_is_no_room!(listen_shm(&address), dial_shm(&address), true);
}
