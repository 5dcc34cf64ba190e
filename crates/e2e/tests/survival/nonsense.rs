//! Strangers that send garbage, or nothing, or half of what they should: they cost nobody else anything.

use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use outboard::Address;
use outboard_driver::raise_descriptor_limit;
use outboard_e2e::{Daemon, PATIENCE, Place, Random, await_state, connect, connect_memory, seed};
use outboard_wire::{Auth, Hello, Incarnation, Introduction, JobId, Rank, Role, StoreId, Text, Versions};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType};

/// How many strangers come, half of them by each way.
const STRANGERS: usize = 1000;

/// A connection that was made by hand.
pub(crate) struct Stranger(OwnedFd);

impl Stranger {
    pub(crate) fn connect(at: &Address) -> Self {
        match at {
            Address::Tcp(socket) | Address::Ofi(socket) => Self(TcpStream::connect(socket).unwrap().into()),
            Address::Abstract(name) => Self(connect_unix(name)),
            Address::Path(path) => panic!("{} is not used here", path.display()),
        }
    }

    pub(crate) fn send(&self, bytes: &[u8]) {
        // A daemon that has hung up already has made up its mind.
        let _ = rustix::net::send(&self.0, bytes, SendFlags::NOSIGNAL);
    }

    /// Waits until the daemon has said something, which stays unread.
    pub(crate) fn await_bytes(&self) {
        let limit = Timespec { tv_sec: PATIENCE.as_secs().cast_signed(), tv_nsec: 0 };
        let ready = poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&limit)).unwrap();
        assert!(ready > 0, "the daemon has said nothing for {PATIENCE:?}");
    }

    /// What the daemon says next.
    pub(crate) fn receive(&self) -> Vec<u8> {
        self.await_bytes();
        let mut bytes = [0; 4096];
        let (len, _) = rustix::net::recv(&self.0, &mut bytes[..], RecvFlags::DONTWAIT).unwrap();
        bytes[..len].to_vec()
    }

    /// Waits until the daemon has hung up.
    fn await_end(&self) {
        let mut bytes = [0; 512];
        let limit = Timespec { tv_sec: PATIENCE.as_secs().cast_signed(), tv_nsec: 0 };
        loop {
            let ready = poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&limit)).unwrap();
            assert!(ready > 0, "a stranger is still there after {PATIENCE:?}");
            match rustix::net::recv(&self.0, &mut bytes[..], RecvFlags::DONTWAIT) {
                Ok((0, _)) | Err(Errno::CONNRESET) => return,
                Ok(_) | Err(Errno::AGAIN) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }
}

/// As the links do: whole messages, in order.
fn connect_unix(name: &str) -> OwnedFd {
    let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap();
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
    // It blocks while the daemon has too many to receive.
    rustix::net::connect(&socket, &address).unwrap();
    socket
}

/// What a client says first, if it is one.
pub(crate) fn hello() -> [u8; outboard_wire::HANDSHAKE_LEN] {
    let intro = Introduction {
        incarnation: Incarnation(1),
        role: Role::Application,
        job: JobId(0),
        rank: Rank(0),
        pid: std::process::id(),
        name: Text::new("stranger"),
        max_payload: 1 << 16,
        auth: Auth::NONE,
        store: StoreId::NONE,
    };
    Hello { versions: Versions::OURS, intro }.encode()
}

/// Says something that is no hello, and stays or goes.
fn misbehave(stranger: Stranger, random: &mut Random) -> Option<Stranger> {
    match random.below(6) {
        0 => {}
        1 => stranger.send(&random.bytes(1)),
        2 => {
            let len = 1 + random.below(4000) as usize;
            stranger.send(&random.bytes(len));
        }
        3 => stranger.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        4 => stranger.send(&hello()[..1 + random.below(60) as usize]),
        _ => {
            // The first bytes say which protocol this is.
            let mut broken = hello();
            broken[random.below(4) as usize] ^= 1 + random.below(255) as u8;
            stranger.send(&broken);
        }
    }
    // Some hang up at once, in the middle of it.
    if random.once_in(3) { None } else { Some(stranger) }
}

/// Does something in the end, come what may.
struct Finally<F: Fn()>(F);

impl<F: Fn()> Drop for Finally<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// A client that asks all the while, and whose every question must be answered.
fn ask_until(over: &AtomicBool, memory: &Address, agent: &Address) -> u64 {
    let mut questions = 0;
    while !over.load(Ordering::Relaxed) {
        let mut memory = connect_memory(memory);
        let mut agent = connect(agent);
        for _ in 0..8 {
            let region = memory.reserve(4096, None).unwrap();
            memory.write(&region, 8, b"undisturbed").unwrap();
            let mut read = [0; 11];
            memory.read(&region, 8, &mut read).unwrap();
            assert_eq!(&read, b"undisturbed");
            memory.free(region).unwrap();
            agent.echo(b"still there?").unwrap();
            questions += 1;
        }
        memory.close("served");
        agent.close("served");
    }
    questions
}

#[test]
fn a_thousand_strangers_cost_nobody_anything() {
    raise_descriptor_limit();
    let place = Place::new();
    let mut random = Random::new(seed());
    let (at, quickly) = (place.socket(), ["--link-handshake-timeout", "500ms"]);
    let mut memory = Daemon::memory(&place, &at, &quickly);
    let mut agent = Daemon::agent(&place, &place.socket(), &at, &quickly);
    let doors = [memory.local(), memory.remote(), agent.local(), agent.remote()].map(Address::clone);
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        // Also when this panics, or nobody would ever learn of it.
        let end = Finally(|| over.store(true, Ordering::Relaxed));
        let clients = [0, 1].map(|by| {
            let (over, memory, agent) = (&over, &doors[by], &doors[2 + by]);
            scope.spawn(move || ask_until(over, memory, agent))
        });
        let come = |number: usize| misbehave(Stranger::connect(&doors[number % 4]), &mut random);
        let staying: Vec<Stranger> = (0..STRANGERS).filter_map(come).collect();
        staying.iter().for_each(Stranger::await_end);
        drop(end);
        for client in clients {
            assert!(client.join().unwrap() > 0);
        }
    });
    for daemon in [&mut memory, &mut agent] {
        let counted = daemon.number("errors_total");
        assert!((STRANGERS as u64 / 4..=STRANGERS as u64).contains(&counted), "{counted}");
        assert!(daemon.number("errors_distinct") < 8, "{}", daemon.number("errors_distinct"));
        let lines = daemon.process.said().len();
        assert!(lines < 50, "{lines} lines of log: {:?}", daemon.process.said());
        await_state("the clients to have gone", || match daemon.number("clients") {
            // The agent at the memory server, and whoever looks.
            0..=2 => Ok(()),
            others => Err(others.to_string()),
        });
    }
    assert_eq!(memory.number("used_bytes"), 0);
    agent.end();
    memory.end();
    place.assert_nothing_left();
}

#[test]
fn whoever_dies_between_hello_and_welcome_is_forgotten() {
    let place = Place::new();
    let mut memory = Daemon::memory(&place, &place.socket(), &[]);
    let before = memory.number("clients");
    for round in 0..100 {
        let at = if round % 2 == 0 { memory.local() } else { memory.remote() };
        Stranger::connect(at).send(&hello());
    }
    memory.await_number("clients", before);
    let mut client = connect_memory(memory.local());
    client.reserve(4096, None).unwrap();
    memory.end();
    place.assert_nothing_left();
}

/// Answers everyone as a web server would.
fn speak_http() -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 64]);
            let page = format!("HTTP/1.1 400 Bad Request\r\n\r\n{}", "x".repeat(1000));
            let _ = std::io::Write::write_all(&mut stream, page.as_bytes());
        }
    });
    address
}

#[test]
fn an_agent_whose_memory_server_is_a_web_server_serves_on() {
    let place = Place::new();
    let web = format!("tcp:{}", speak_http());
    let mut agent = Daemon::agent(&place, &place.socket(), &web, &[]);
    let mut client = connect(&agent.local().clone());
    await_state("a few attempts", || {
        client.echo(b"meanwhile").unwrap();
        match agent.number("errors_total") {
            4.. => Ok(()),
            few => Err(few.to_string()),
        }
    });
    assert_eq!((agent.number("errors_distinct"), agent.number("memory_servers_connected")), (1, 0));
    let said = agent.process.said();
    let complaints: Vec<&String> =
        said.iter().filter(|line| line.contains(&web) && line.contains("WARN")).collect();
    assert_eq!(complaints.len(), 1, "once, not at every attempt: {said:?}");
    assert!(complaints[0].contains("does not speak this protocol"), "{complaints:?}");
    agent.end();
}
