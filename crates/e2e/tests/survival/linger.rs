//! Processes whose links are lost, and what they find when they come back.

use outboard::{AccessError, Address, AskError, Client};
use outboard_e2e::{Daemon, PATIENCE, Place, await_state, connect_memory};
use outboard_link::tcp::TcpLink;
use outboard_link::{Clock, Disposition, Exports, Identity, Link, Loss, Waiter, tcp};
use outboard_settings::LinkSettings;
use outboard_wire::control::{ControlAnswer, ControlFailure, Question, RegionSharing};
use outboard_wire::{FrameHead, Grant, Rights, Role, Text};

use crate::tenant::{Act, Tenant};

const BOTH: Rights = Rights::READ.and(Rights::WRITE);
const OWN: u64 = 1 << 20;
const NAMED: u64 = 4096;

/// A process that travels: its links end, and it opens others.
struct Traveller {
    identity: Identity,
    at: Address,
    own: Grant,
    named: Grant,
}

impl Traveller {
    /// Reserves a region for itself and one with a name, by its only link.
    fn set_out(memory: &Daemon) -> (Self, TcpLink) {
        let (identity, at) = (Identity::new(Role::Application, "proof-traveller"), memory.remote().clone());
        let Address::Tcp(port) = at else { panic!("{at} is no port") };
        let terms = patient().tcp();
        let mut link = tcp::connect(port, identity.clone(), Exports::new(), terms).unwrap();
        let [own, named] = [(OWN, ""), (NAMED, "graph")].map(|(size, name)| reserve(&mut link, size, name));
        (Self { identity, at, own, named }, link)
    }

    fn come_back(&self) -> Client {
        connect(&self.at, &self.identity)
    }
}

/// Links for a machine on which daemons get a processor late.
fn patient() -> LinkSettings {
    LinkSettings { handshake_timeout: PATIENCE, ..LinkSettings::default() }
}

fn connect(at: &Address, identity: &Identity) -> Client {
    Client::connect(at, identity.clone(), &patient()).unwrap()
}

/// Asks over a bare link, which can be dropped without a word as no client of the library can.
fn reserve(link: &mut TcpLink, size: u64, name: &str) -> Grant {
    let (name, sharing) = (Text::new(name), RegionSharing::Leased);
    let question = Question::Reserve { size, chunk_log2: 16, name, sharing };
    let mut payload = Vec::new();
    question.encode(&mut payload);
    link.send(FrameHead::new(question.kind()), &payload).unwrap();
    link.flush().unwrap();
    let mut answer = None;
    let answered = Waiter::new().until(link, PATIENCE, "a region", |link| {
        link.receive(1, |frame| {
            answer = Some(ControlAnswer::decode(frame.head.kind, &frame.payload.to_vec()).unwrap());
            Disposition::Taken
        })?;
        Ok(answer.take())
    });
    match answered.unwrap() {
        ControlAnswer::Region(descriptor) => descriptor.grant,
        other => panic!("expected a region, got {other:?}"),
    }
}

/// What nobody else may have yet, and why not.
#[track_caller]
fn refusal(memory: &Daemon) -> String {
    match connect_memory(memory.local()).open("graph", Rights::READ) {
        Err(AskError::Refused { failure: ControlFailure::InUse, detail, .. }) => detail,
        other => panic!("expected that it is in use, got {other:?}"),
    }
}

/// The traveller is back and has all that it had, until it says goodbye.
fn check_possessions(memory: &mut Daemon, traveller: &Traveller) {
    let mut client = traveller.come_back();
    memory.await_number("clients_awaited", 0);
    client.open(&traveller.own, BOTH).unwrap();
    let open = client.open(&traveller.named, BOTH).unwrap();
    client.write(open, 0, b"mine").unwrap();
    let detail = refusal(memory);
    assert!(detail.contains("wait until it is released"), "{detail}");
    client.close("home again");
    memory.await_number("used_bytes", NAMED);
    let mut observer = connect_memory(memory.local());
    let region = await_state("the lease of one that said goodbye", || {
        observer.open("graph", BOTH).map_err(|error| error.to_string())
    });
    let mut bytes = [0; 4];
    observer.read(&region, 0, &mut bytes).unwrap();
    assert_eq!(&bytes, b"mine");
}

#[test]
fn whoever_comes_back_in_time_has_what_it_had() {
    let place = Place::new();
    let mut memory = Daemon::memory(&place, &place.socket(), &["--linger", "1h"]);
    let (traveller, link) = Traveller::set_out(&memory);
    drop(link);
    memory.await_number("clients_awaited", 1);
    assert_eq!(memory.number("used_bytes"), OWN + NAMED);
    let detail = refusal(&memory);
    for part in ["“proof-traveller”", "links are lost", " s you can have it"] {
        assert!(detail.contains(part), "{detail}");
    }
    check_possessions(&mut memory, &traveller);
    memory.end();
    place.assert_nothing_left();
}

/// The server is stopped for longer than links wait for a sign of life. What it reads first when it goes on is that
/// its clients have given their links up.
#[test]
fn a_server_that_was_stopped_and_goes_on_is_found_as_it_was_left() {
    let place = Place::new();
    let terms = ["--linger", "1h", "--link-deadline", "2s", "--link-heartbeat", "100ms"];
    let mut memory = Daemon::memory(&place, &place.socket(), &terms);
    let (traveller, mut link) = Traveller::set_out(&memory);
    memory.process.stop();
    let clock = Clock::start();
    let lost = await_state("the silence of the server", || match link.progress(clock.now()) {
        Err(lost) => Ok(lost),
        Ok(_) => Err("not noticed".to_owned()),
    });
    assert!(matches!(lost.loss, Loss::Stalled { .. }), "{lost}");
    drop(link);
    memory.process.go_on();
    memory.await_number("clients_awaited", 1);
    check_possessions(&mut memory, &traveller);
    memory.end();
    place.assert_nothing_left();
}

#[test]
fn whoever_comes_too_late_is_refused() {
    let place = Place::new();
    let mut memory = Daemon::memory(&place, &place.socket(), &["--linger", "1ms"]);
    let (traveller, link) = Traveller::set_out(&memory);
    drop(link);
    memory.await_number("used_bytes", NAMED);
    let mut observer = connect_memory(memory.local());
    let region = observer.open("graph", BOTH).unwrap();
    observer.write(&region, 0, b"mine").unwrap();
    let mut client = traveller.come_back();
    for grant in [&traveller.own, &traveller.named] {
        for rights in [Rights::READ, BOTH] {
            let refused = client.open(grant, rights);
            assert!(matches!(refused, Err(AskError::Access(AccessError::NotOpen))), "{refused:?}");
        }
    }
    observer.release(region).unwrap();
    memory.end();
    place.assert_nothing_left();
}

/// By a Unix socket the kernel tells that a process is dead.
#[test]
fn the_dead_are_not_waited_for() {
    let place = Place::new();
    let mut memory = Daemon::memory(&place, &place.socket(), &["--linger", "1h"]);
    let tenant = Tenant::new(Act::Lease, None, Some(memory.local()), 3);
    let mut holder = tenant.start(&place);
    holder.await_line(["working"]);
    holder.kill();
    let mut observer = connect_memory(memory.local());
    await_state("the lease of a dead process", || {
        observer.open(&tenant.region_name(), BOTH).map_err(|error| error.to_string())
    });
    assert_eq!(memory.number("clients_awaited"), 0);
    memory.end();
    place.assert_nothing_left();
}
