//! A desk and a worker with real sockets: links come, go and are dialled again, whatever else is going on.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use outboard_driver::{
    Dial, FrontDesk, FrontDeskConfig, LinkId, LinkOrigin, Listener, Service, Worker, WorkerConfig,
    WorkerHandle,
};
use outboard_link::shm::{self, ShmLink};
use outboard_link::{
    Address, Clock, Disposition, Exports, Frame, Identity, Link, LinkError, Loss, Peer, RemoteMemory, Waiter,
};
use outboard_wire::{FrameHead, FrameKind, Role, Room, Time};

/// Long enough for a loaded machine; nothing waits so long when all is well.
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Debug, PartialEq)]
enum Event {
    Opened(String, LinkOrigin),
    Lost(String),
}

/// Counts frames and tells what happens to links. If `is_restless`, it never lets its worker sleep.
struct Witness {
    events: Sender<Event>,
    is_restless: bool,
    frames: Arc<Mutex<u64>>,
    names: Vec<(LinkId, String)>,
}

impl Service for Witness {
    type Note = ();

    fn on_open(&mut self, link: LinkId, peer: &Peer, origin: LinkOrigin, _now: Time) {
        let name = peer.intro().name.to_string();
        self.names.push((link, name.clone()));
        let _ = self.events.send(Event::Opened(name, origin));
    }

    fn on_frame(&mut self, _link: LinkId, _frame: Frame<'_>, _now: Time) -> Disposition {
        *self.frames.lock().unwrap() += 1;
        Disposition::Taken
    }

    fn send<L: Link + RemoteMemory>(&mut self, _: LinkId, _: &mut L, _: Time) -> Result<bool, LinkError> {
        Ok(self.is_restless)
    }

    fn on_lost(&mut self, link: LinkId, error: &LinkError, _now: Time) {
        let (_, name) = self.names.iter().find(|(id, _)| *id == link).unwrap();
        assert!(error.to_string().contains(name.as_str()), "{error}");
        let _ = self.events.send(Event::Lost(name.clone()));
    }
}

struct Running {
    address: Address,
    events: Receiver<Event>,
    frames: Arc<Mutex<u64>>,
    worker: WorkerHandle<()>,
    stop_desk: Box<dyn Fn()>,
    threads: Vec<JoinHandle<()>>,
}

fn fresh(what: &str) -> Address {
    let unique = Identity::new(Role::Tool, "").incarnation;
    Address::Abstract(format!("outboard-driver-{what}-{unique}"))
}

fn start(name: &str, address: &Address, dials: &[Address], is_restless: bool) -> Running {
    let config = FrontDeskConfig { redial: Duration::from_millis(1), ..FrontDeskConfig::default() };
    start_with(config, name, address, dials, is_restless)
}

fn start_with(
    config: FrontDeskConfig,
    name: &str,
    address: &Address,
    dials: &[Address],
    is_restless: bool,
) -> Running {
    let (sender, events) = channel();
    let frames = Arc::new(Mutex::new(0));
    let witness = Witness { events: sender, is_restless, frames: Arc::clone(&frames), names: Vec::new() };
    let clock = Clock::start();
    let identity = Identity::new(Role::Agent, name);
    let exports = Exports::new();
    let listener = Listener::bind(address, &identity, &exports, &config).unwrap();
    let address = listener.address();
    let dial = |address: &Address| Dial {
        address: address.clone(),
        identity: identity.clone(),
        exports: Arc::clone(&exports),
        worker: None,
    };
    let dials = dials.iter().map(dial).collect();
    let (worker, handle) = Worker::new(WorkerConfig::default(), clock, witness).unwrap();
    let desk = FrontDesk::new(config, clock, (vec![listener], dials), vec![handle.clone()], |_| {}).unwrap();
    let stop_desk = Box::new(desk.stopper());
    let threads = vec![
        std::thread::spawn(move || drop(worker.run().unwrap())),
        std::thread::spawn(move || desk.run().unwrap()),
    ];
    Running { address, events, frames, worker: handle, stop_desk, threads }
}

impl Running {
    fn next(&self) -> Event {
        self.events.recv_timeout(PATIENCE).unwrap()
    }

    fn stop(self) {
        (self.stop_desk)();
        self.worker.stop("test over");
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}

fn connect(address: &Address, name: &str) -> ShmLink {
    shm::connect(address, Identity::new(Role::Tool, name), Exports::new(), shm::ShmConfig::default()).unwrap()
}

/// Waits until the link ends, and says how.
fn end_of(mut link: ShmLink) -> Loss {
    let waited: Result<(), LinkError> = Waiter::new().until(&mut link, PATIENCE, "the end", |_| Ok(None));
    waited.unwrap_err().loss
}

#[test]
fn a_worker_without_a_pause_takes_new_links_and_can_be_stopped() {
    let daemon = start("busy", &fresh("busy"), &[], true);
    let first = connect(&daemon.address, "first");
    assert_eq!(daemon.next(), Event::Opened("first".into(), LinkOrigin::Accepted));
    let mut second = connect(&daemon.address, "second");
    assert_eq!(daemon.next(), Event::Opened("second".into(), LinkOrigin::Accepted));
    second.send(FrameHead::new(FrameKind::new(Room::Trial, 1)), b"x").unwrap();
    second.close("done");
    assert_eq!(daemon.next(), Event::Lost("second".into()));
    assert_eq!(*daemon.frames.lock().unwrap(), 1, "what was sent before the goodbye is not lost");
    daemon.stop();
    assert_eq!(end_of(first), Loss::Closed { reason: "test over".into() });
}

#[test]
fn a_lost_peer_is_dialled_until_it_is_back() {
    let server_address = fresh("server");
    let agent = start("agent", &fresh("agent"), std::slice::from_ref(&server_address), false);
    for _ in 0..3 {
        let server = start("server", &server_address, &[], false);
        assert_eq!(agent.next(), Event::Opened("server".into(), LinkOrigin::Dialled(0)));
        assert_eq!(server.next(), Event::Opened("agent".into(), LinkOrigin::Accepted));
        server.stop();
        assert_eq!(agent.next(), Event::Lost("server".into()));
    }
    agent.stop();
}

#[test]
fn strangers_that_say_nothing_do_not_keep_others_out() {
    let tcp = "tcp:127.0.0.1:0".parse().unwrap();
    let daemon = start("open", &tcp, &[], false);
    let Address::Tcp(socket) = daemon.address else { panic!("it listens on tcp") };
    let silent: Vec<_> = (0..200).map(|_| std::net::TcpStream::connect(socket).unwrap()).collect();
    let identity = Identity::new(Role::Tool, "friend");
    let mut config = outboard_link::tcp::TcpConfig::default();
    config.stream.handshake_timeout = PATIENCE;
    let friend = outboard_link::tcp::connect(socket, identity, Exports::new(), config).unwrap();
    assert_eq!(daemon.next(), Event::Opened("friend".into(), LinkOrigin::Accepted));
    drop(friend);
    assert_eq!(daemon.next(), Event::Lost("friend".into()));
    drop(silent);
    daemon.stop();
}

#[test]
fn a_flood_does_not_make_a_desk_forget_whom_it_dials() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let server_address = silent.local_addr().unwrap();
    let mut config =
        FrontDeskConfig { handshakes_max: 2, redial: Duration::from_millis(1), ..FrontDeskConfig::default() };
    config.links.tcp.stream.handshake_timeout = Duration::from_millis(300);
    let dials = [Address::Tcp(server_address)];
    let agent = start_with(config, "agent", &"tcp:127.0.0.1:0".parse().unwrap(), &dials, false);
    // The dial is under way, with a peer that says nothing.
    let (held, _) = silent.accept().unwrap();
    let Address::Tcp(socket) = agent.address else { panic!("it listens on tcp") };
    let strangers: Vec<_> = (0..20).map(|_| std::net::TcpStream::connect(socket).unwrap()).collect();
    // Each stranger that was dropped for a later one is told so; then the flood has had its effect.
    let mut first = &strangers[0];
    first.set_read_timeout(Some(PATIENCE)).unwrap();
    let told = std::io::Read::read(&mut first, &mut [0; 1]);
    assert!(!matches!(&told, Err(error) if error.kind() == std::io::ErrorKind::WouldBlock), "{told:?}");
    drop((silent, held));
    let server = start("server", &Address::Tcp(server_address), &[], false);
    assert_eq!(agent.next(), Event::Opened("server".into(), LinkOrigin::Dialled(0)));
    drop(strangers);
    server.stop();
    agent.stop();
}

/// By the desk and the worker on both sides, which sleep in between: a side that does not wake is missed.
#[test]
fn fabrics_are_listened_on_and_dialled() {
    for provider in ["tcp;ofi_rxm", "shm"] {
        if let Err(why) = outboard_link::ofi::choose(None, Some(provider)) {
            println!("skipped: {why}");
            continue;
        }
        let mut config = FrontDeskConfig { redial: Duration::from_millis(1), ..FrontDeskConfig::default() };
        config.links.ofi.provider = Some(provider.to_owned());
        config.links.ofi.stream.handshake_timeout = PATIENCE;
        let any = "ofi:127.0.0.1:0".parse().unwrap();
        let server = start_with(config.clone(), "server", &any, &[], false);
        let Address::Ofi(socket) = server.address else { panic!("it listens on a fabric") };
        let silent: Vec<_> = (0..50).map(|_| std::net::TcpStream::connect(socket).unwrap()).collect();
        // Endpoints are dear: there is room for a few, and the first is told that it had to go.
        let mut first = &silent[0];
        first.set_read_timeout(Some(PATIENCE)).unwrap();
        let told = std::io::Read::read(&mut first, &mut [0; 1]);
        assert!(!matches!(&told, Err(error) if error.kind() == std::io::ErrorKind::WouldBlock), "{told:?}");
        let dials = [server.address.clone()];
        let agent = start_with(config.clone(), "agent", &fresh("fabric"), &dials, false);
        assert_eq!(agent.next(), Event::Opened("server".into(), LinkOrigin::Dialled(0)));
        assert_eq!(server.next(), Event::Opened("agent".into(), LinkOrigin::Accepted));
        let identity = Identity::new(Role::Tool, "friend");
        let mut friend =
            outboard_link::ofi::connect(socket, identity, Exports::new(), config.links.ofi).unwrap();
        assert_eq!(server.next(), Event::Opened("friend".into(), LinkOrigin::Accepted));
        let waiter = Waiter::new();
        for count in 1..=20 {
            friend.send(FrameHead::new(FrameKind::new(Room::Trial, 1)), &[7; 5000]).unwrap();
            friend.flush().unwrap();
            let taken = waiter.until(&mut friend, PATIENCE, "a frame to be taken", |_| {
                Ok((*server.frames.lock().unwrap() == count).then_some(()))
            });
            taken.unwrap();
        }
        friend.close("enough");
        drop(friend);
        assert_eq!(server.next(), Event::Lost("friend".into()));
        server.stop();
        assert_eq!(agent.next(), Event::Lost("server".into()));
        drop(silent);
        agent.stop();
    }
}
