//! Many clients, busy clients, and a daemon that is asked to end among them.

use std::sync::{Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use outboard::Address;
use outboard_driver::raise_descriptor_limit;
use outboard_e2e::{Daemon, PATIENCE, Place, connect, connect_memory};
use outboard_wire::Rights;
use rustix::process::Signal;

use crate::tenant::{Act, LOST_EVERYBODY, Tenant};

const CLIENTS: u64 = 300;
const TIMES: u64 = 20;

/// Where the clients wait for each other.
#[derive(Default)]
struct Crowd {
    here: Mutex<u64>,
    complete: Condvar,
}

impl Crowd {
    fn await_everyone(&self) {
        let mut here = self.here.lock().unwrap();
        *here += 1;
        self.complete.notify_all();
        let (here, _) = self.complete.wait_timeout_while(here, PATIENCE, |here| *here < CLIENTS).unwrap();
        assert_eq!(*here, CLIENTS, "after {PATIENCE:?} some are missing");
    }
}

/// Reserves, waits until all have, counts, and finds its own bytes untouched.
fn take_part(number: u64, memory: &Address, agent: &Address, all: &Crowd) {
    let (mut memory, mut agent) = (connect_memory(memory), connect(agent));
    let own = memory.reserve(4096, None).unwrap();
    memory.write(&own, 0, &number.to_le_bytes()).unwrap();
    all.await_everyone();
    let shared = memory.open_shared("crowd", Rights::READ.and(Rights::WRITE)).unwrap();
    for _ in 0..TIMES {
        memory.fetch_add(&shared, 0, 1).unwrap();
        agent.echo(&number.to_le_bytes()).unwrap();
    }
    let mut read = [0; 8];
    memory.read(&own, 0, &mut read).unwrap();
    assert_eq!(u64::from_le_bytes(read), number);
    memory.close("done");
    agent.close("done");
}

#[test]
fn three_hundred_clients_are_served_at_once() {
    raise_descriptor_limit();
    let place = Place::new();
    let at = place.socket();
    let patiently = ["--link-handshake-timeout", "30s"];
    let mut memory = Daemon::memory(&place, &at, &patiently);
    let mut agent = Daemon::agent(&place, &place.socket(), &at, &patiently);
    let mut observer = connect_memory(memory.local());
    let shared = observer.reserve_shared(4096, "crowd").unwrap();
    let all = Crowd::default();
    thread::scope(|scope| {
        let doors = [(memory.local(), agent.local()), (memory.remote(), agent.remote())];
        let all = &all;
        for number in 0..CLIENTS {
            let (memory, agent) = doors[number as usize % 2];
            scope.spawn(move || take_part(number, memory, agent, all));
        }
    });
    assert_eq!(observer.fetch_add(&shared, 0, 0).unwrap(), CLIENTS * TIMES);
    observer.free(shared).unwrap();
    observer.close("done");
    memory.await_number("used_bytes", 0);
    for daemon in [&mut memory, &mut agent] {
        assert_eq!(daemon.number("clients_lost_total"), 0);
    }
    assert_eq!(agent.number("echoes_total"), CLIENTS * TIMES);
    agent.end();
    memory.end();
    place.assert_nothing_left();
}

/// An agent whose thread never sleeps because of what its clients ask, and one that sleeps whenever it can.
#[test]
fn busy_clients_keep_neither_newcomers_nor_the_end_waiting() {
    let place = Place::new();
    for (spin, by_tcp) in [("5ms", false), ("0ms", false), ("5ms", true), ("0ms", true)] {
        let agent = Daemon::agent(&place, &place.socket(), "none", &["--workers", "1", "--spin", spin]);
        let at = if by_tcp { agent.remote() } else { agent.local() }.clone();
        let mut busy: Vec<_> =
            (0..3).map(|number| Tenant::new(Act::Echo, Some(&at), None, number).start(&place)).collect();
        for client in &mut busy {
            client.await_line(["working"]);
        }
        let mut newcomer = connect(&at);
        for _ in 0..10 {
            newcomer.echo(b"me too").unwrap();
        }
        agent.process.signal(Signal::TERM);
        let name = format!("(process {})", agent.process.pid());
        let (status, said) = agent.process.exit();
        assert_eq!(status.code(), Some(0), "{said:?}");
        assert!(said.iter().any(|line| line.contains("has ended, as asked")), "{said:?}");
        for mut client in busy {
            let line = client.await_line(["lost agent: "]);
            assert!(line.contains(&name) && line.contains("it was asked to end"), "{line}");
            assert_eq!(client.exit().0.code(), Some(LOST_EVERYBODY));
        }
        let error = newcomer.echo(b"and now?").unwrap_err().to_string();
        assert!(error.contains(&name) && error.contains("it was asked to end"), "{error}");
    }
    place.assert_nothing_left();
}

/// A client that computes for longer than the daemon's deadline makes no calls meanwhile, and is still there.
#[test]
fn a_client_that_computes_for_long_is_not_given_up() {
    const DEADLINE: Duration = Duration::from_secs(3);
    let place = Place::new();
    let mut memory = Daemon::memory(&place, &place.socket(), &["--link-deadline", "3s"]);
    let mut client = connect_memory(memory.remote());
    let region = client.reserve(4096, None).unwrap();
    client.write(&region, 0, b"kept").unwrap();
    let began = Instant::now();
    while began.elapsed() < DEADLINE * 2 {
        thread::park_timeout(DEADLINE * 2);
    }
    let mut bytes = [0; 4];
    client.read(&region, 0, &mut bytes).unwrap();
    assert_eq!(&bytes, b"kept");
    assert_eq!(memory.number("clients_lost_total"), 0);
    drop(client);
    memory.end();
    place.assert_nothing_left();
}
