//! Thousands of clients that come at once: all are served, and each costs little while it asks nothing.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use outboard::Address;
use outboard_driver::raise_descriptor_limit;
use outboard_e2e::{Daemon, PATIENCE, Place, Process, connect};
use outboard_link::shm::{self, ShmLink};
use outboard_link::tcp::{self, TcpLink};
use outboard_link::{Disposition, Exports, Identity, Link, LinkError, Waiter};
use outboard_wire::{FrameHead, FrameKind, Role, Room};

const VARIABLE: &str = "PROOF_THRONG";

/// How many clients come, by how many processes.
const CLIENTS: usize = 2000;
const PROCESSES: usize = 8;

/// A process that connects many times at once, has every connection answered once, and then keeps them all.
pub(crate) struct Throng {
    at: Address,
    links: usize,
}

enum AnyLink {
    Shm(Box<ShmLink>),
    Tcp(Box<TcpLink>),
}

impl Throng {
    fn start(&self, place: &Place) -> Process {
        let mut command = outboard_child::again();
        command.env(VARIABLE, format!("{} {}", self.links, self.at));
        place.mark(&mut command);
        Process::start_told(command)
    }

    /// What this process was started as, if it is a throng.
    pub(crate) fn from_environment() -> Option<Self> {
        let text = std::env::var(VARIABLE).ok()?;
        let (links, at) = text.split_once(' ')?;
        Some(Self { at: at.parse().ok()?, links: links.parse().ok()? })
    }

    /// Plays it; returns the exit code.
    pub(crate) fn run(&self) -> i32 {
        raise_descriptor_limit();
        let waiter = Waiter::new();
        let together = Barrier::new(self.links + 1);
        let attached: Vec<Result<AnyLink, String>> = thread::scope(|scope| {
            let attach = |_| {
                scope.spawn(|| {
                    together.wait();
                    attach(&self.at, waiter)
                })
            };
            let threads: Vec<_> = (0..self.links).map(attach).collect();
            println!("ready");
            await_word();
            together.wait();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let mut errors: BTreeMap<&str, usize> = BTreeMap::new();
        attached.iter().filter_map(|link| link.as_ref().err()).for_each(|error| {
            *errors.entry(error).or_default() += 1;
        });
        let failed: usize = errors.values().sum();
        println!("attached {} failed {failed} {errors:?}", self.links - failed);
        let over = thread::spawn(await_word);
        let mut links: Vec<AnyLink> = attached.into_iter().flatten().collect();
        while !over.is_finished() {
            let now = waiter.clock.now();
            let live = links.iter_mut().all(|link| match link {
                AnyLink::Shm(link) => link.progress(now).is_ok(),
                AnyLink::Tcp(link) => link.progress(now).is_ok(),
            });
            if !live {
                println!("lost a link");
                return 1;
            }
            thread::park_timeout(Duration::from_millis(50));
        }
        for link in &mut links {
            match link {
                AnyLink::Shm(link) => link.close("done"),
                AnyLink::Tcp(link) => link.close("done"),
            }
        }
        0
    }
}

/// Waits for a line, or the end of what the test says.
fn await_word() {
    let _ = std::io::stdin().lock().read_line(&mut String::new());
}

/// Connects with the settings that everybody has, and waits for an answer.
fn attach(at: &Address, waiter: Waiter) -> Result<AnyLink, String> {
    let identity = Identity::new(Role::Application, "one of many");
    if let Address::Tcp(socket) = at {
        let link = tcp::connect(*socket, identity, Exports::new(), tcp::TcpConfig::default());
        let mut link = link.map_err(|error| error.to_string())?;
        echo(&mut link, waiter).map_err(|error| error.to_string())?;
        return Ok(AnyLink::Tcp(Box::new(link)));
    }
    let link = shm::connect(at, identity, Exports::new(), shm::ShmConfig::default());
    let mut link = link.map_err(|error| error.to_string())?;
    echo(&mut link, waiter).map_err(|error| error.to_string())?;
    Ok(AnyLink::Shm(Box::new(link)))
}

fn echo(link: &mut impl Link, waiter: Waiter) -> Result<(), LinkError> {
    let sent = link.send(FrameHead::new(FrameKind::new(Room::Trial, 0)), b"here");
    assert!(sent.is_ok(), "a new link has room");
    link.flush()?;
    waiter.until(link, PATIENCE, "an answer", |link| {
        Ok((link.receive(1, |_| Disposition::Taken)? > 0).then_some(()))
    })
}

/// What a daemon uses: KiB of memory, descriptors and mappings.
#[derive(Clone, Copy, Debug)]
struct Usage([u64; 3]);

impl Usage {
    fn of(daemon: &Daemon) -> Self {
        let pid = daemon.process.pid();
        let read = |file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap();
        let (status, maps) = (read("status"), read("maps"));
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        let resident = resident.trim().trim_end_matches(" kB").parse().unwrap();
        let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count() as u64;
        Self([resident, descriptors, maps.lines().count() as u64])
    }

    /// How much more there is than before for each of so many clients, rounded.
    fn growth(self, before: Self, clients: u64) -> [u64; 3] {
        std::array::from_fn(|at| (self.0[at].saturating_sub(before.0[at]) + clients / 2) / clients)
    }
}

/// Has all clients come at once, and returns them when all were answered.
fn attach_all(place: &Place, at: &Address) -> Vec<Process> {
    let throng = Throng { at: at.clone(), links: CLIENTS / PROCESSES };
    let mut processes: Vec<Process> = (0..PROCESSES).map(|_| throng.start(place)).collect();
    processes.iter_mut().for_each(|process| drop(process.await_line(["ready"])));
    let began = Instant::now();
    processes.iter_mut().for_each(|process| process.tell("go"));
    let told: Vec<String> = processes.iter_mut().map(|process| process.await_line(["attached"])).collect();
    println!("{at}: {CLIENTS} clients were answered after {:?}", began.elapsed());
    assert!(told.iter().all(|line| line.contains(" failed 0 ")), "{told:?}");
    processes
}

/// A crowd comes to where the daemon listens, and each of it costs no more than this many KiB, descriptors and mappings.
fn attach_and_leave(at: impl Fn(&Daemon) -> Address, cost: [u64; 3]) {
    raise_descriptor_limit();
    let place = Place::new();
    let mut memory = Daemon::memory(&place, &place.socket(), &[]);
    let at = at(&memory);
    let mut busy = connect(&at);
    busy.echo(b"alone").unwrap();
    assert_eq!(memory.number("clients"), 0);
    let before = Usage::of(&memory);
    let processes = attach_all(&place, &at);
    memory.await_number("clients", CLIENTS as u64);
    let growth = Usage::of(&memory).growth(before, CLIENTS as u64);
    println!("{at}: each costs {growth:?} KiB, descriptors and mappings");
    assert!(growth.iter().zip(cost).all(|(grown, most)| *grown <= most), "{growth:?} are more than {cost:?}");
    for _ in 0..100 {
        busy.echo(b"among many").unwrap();
    }
    for mut process in processes {
        process.close_stdin();
        let (status, said) = process.exit();
        assert!(status.success(), "{said:?}");
    }
    memory.await_number("clients", 0);
    assert_eq!((memory.number("clients_lost_total"), memory.number("clients_refused_total")), (0, 0));
    drop(busy);
    memory.end();
    place.assert_nothing_left();
}

#[test]
fn two_thousand_clients_attach_at_once_by_shared_memory() {
    attach_and_leave(|memory| memory.local().clone(), [32, 1, 5]);
}

#[test]
fn two_thousand_clients_attach_at_once_by_tcp() {
    attach_and_leave(|memory| memory.remote().clone(), [64, 1, 4]);
}
