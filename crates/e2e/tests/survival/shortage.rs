//! Daemons and clients that have run out of something: whoever is not served reads why, and everybody else is served on.

use std::fs::File;

use outboard::{Address, Client, Memory, Settings};
use outboard_driver::raise_descriptor_limit;
use outboard_e2e::{Daemon, Place, Process, await_state, connect, connect_memory};
use outboard_link::Identity;
use outboard_wire::{HandshakeAnswer, Rights, Role};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit, setrlimit};

const VARIABLE: &str = "PROOF_FRUGAL";

fn try_connect(at: &Address) -> Result<Client, String> {
    let identity = Identity::new(Role::Application, "one more");
    Client::connect(at, identity, &Settings::default().link).map_err(|error| error.to_string())
}

/// Sets a limit of a daemon that runs.
fn limit(daemon: &Daemon, resource: Resource, most: u64) {
    let pid = Pid::from_raw(daemon.process.pid().cast_signed());
    let limits = Rlimit { current: Some(most), maximum: getrlimit(resource).maximum };
    prlimit(pid, resource, limits).expect("a child's limits can be set");
}

/// What the kernel says of a daemon, in its own units.
fn status_of(daemon: &Daemon, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", daemon.process.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Clients by both ways, by turns.
fn doors(daemon: &Daemon) -> [Address; 2] {
    [daemon.local().clone(), daemon.remote().clone()]
}

#[test]
fn whoever_finds_no_descriptor_reads_why_and_the_others_are_served_on() {
    const LIMIT: u64 = 96;
    const SILENT: usize = 600;
    raise_descriptor_limit();
    let place = Place::new();
    let mut memory = Daemon::memory(&place, &place.socket(), &[]);
    let mut observer = connect_memory(memory.local());
    assert_eq!(memory.number("clients_refused_total"), 0);
    limit(&memory, Resource::Nofile, LIMIT);
    let wanted = format!(
        "memory server “proof-memory” has no descriptors left for another client (limit {LIMIT}): raise it with \
         `ulimit -n` or LimitNOFILE="
    );
    for at in doors(&memory) {
        let mut clients = Vec::new();
        let error = loop {
            match try_connect(&at) {
                Ok(client) => clients.push(client),
                Err(error) => break error,
            }
            assert!(clients.len() < LIMIT as usize, "there are no more descriptors");
        };
        assert!(error.contains(&wanted), "{error}");
        // Strangers that say nothing are in nobody's way, not even now that there are many.
        let silent: Vec<_> = (0..SILENT).map(|_| crate::nonsense::Stranger::connect(&at)).collect();
        for at in doors(&memory) {
            let error = try_connect(&at).err().expect("there is still none");
            assert!(error.contains(&wanted), "{error}");
        }
        // Each of them might be a client that has no processor at the moment: it reads why, however late it looks.
        for stranger in &silent {
            let told = HandshakeAnswer::decode(&stranger.receive());
            assert!(
                matches!(&told, Ok(HandshakeAnswer::Refusal(refusal)) if refusal.detail.as_str().starts_with(&wanted)),
                "{told:?}"
            );
        }
        drop(silent);
        for client in &mut clients {
            client.echo(b"still here").unwrap();
        }
        // Nor is there one for a region, as soon as the desk has taken back what it needs for strangers.
        let mut regions = Vec::new();
        let error = loop {
            match observer.reserve(4096, None) {
                Ok(region) => regions.push(region),
                Err(error) => break error.to_string(),
            }
            assert!(regions.len() < LIMIT as usize, "there are no more descriptors");
        };
        assert!(error.contains("the memory server has no descriptors left (limit"), "{error}");
        regions.into_iter().for_each(|region| observer.free(region).unwrap());
        // More than the desk keeps for strangers.
        assert!(clients.len() > 30, "{} were served", clients.len());
        clients.truncate(clients.len() - 20);
        let came = await_state("room for another", || try_connect(&at));
        drop((came, clients));
        memory.await_number("clients", 0);
    }
    assert!(memory.number("clients_refused_total") >= 4);
    assert_eq!(memory.number("clients_lost_total"), 0);
    limit(&memory, Resource::Nofile, 10 * LIMIT);
    let many: Vec<Client> = (0..LIMIT).map(|_| connect(memory.local())).collect();
    drop((many, observer));
    memory.end();
    place.assert_nothing_left();
}

#[test]
fn whoever_finds_no_memory_reads_why_and_the_others_are_served_on() {
    let place = Place::new();
    let mut memory = Daemon::memory(&place, &place.socket(), &[]);
    let mut client = connect_memory(memory.local());
    let region = client.reserve(1 << 20, None).unwrap();
    let ten_times: Vec<Client> = (0..10).map(|_| connect(memory.local())).collect();
    // Less than a link's queues or a thread's stack, and enough for small things.
    limit(&memory, Resource::As, (status_of(&memory, "VmSize") + 512) << 10);
    for at in doors(&memory) {
        let error = try_connect(&at).err().expect("there is no memory");
        let wanted = "memory server “proof-memory” has no memory or mappings left for another client: raise";
        assert!(error.contains(wanted), "{error}");
    }
    let error = client.reserve(1 << 20, None).unwrap_err().to_string();
    assert!(error.contains("the memory server has no memory or mappings left"), "{error}");
    let error = client.populate(&region).unwrap_err().to_string();
    assert!(error.contains("no thread could be started"), "{error}");
    client.write(&region, 0, b"still here").unwrap();
    drop(ten_times);
    await_state("room for another", || try_connect(memory.local()));
    drop(client);
    assert_eq!(memory.number("clients_lost_total"), 0);
    memory.end();
    place.assert_nothing_left();
}

/// A client that has few descriptors left when it connects.
pub(crate) struct Frugal {
    at: Address,
    left: usize,
}

impl Frugal {
    fn start(&self, place: &Place) -> Process {
        let mut command = outboard_child::again();
        command.env(VARIABLE, format!("{} {}", self.left, self.at));
        place.mark(&mut command);
        Process::start_told(command)
    }

    /// What this process was started as, if it is one.
    pub(crate) fn from_environment() -> Option<Self> {
        let text = std::env::var(VARIABLE).ok()?;
        let (left, at) = text.split_once(' ')?;
        Some(Self { at: at.parse().ok()?, left: left.parse().ok()? })
    }

    /// Plays it; returns the exit code.
    pub(crate) fn run(&self) -> i32 {
        let limits = Rlimit { current: Some(64), maximum: Some(64) };
        setrlimit(Resource::Nofile, limits).expect("less is always allowed");
        let mut used: Vec<File> = Vec::new();
        while let Ok(file) = File::open("/dev/null") {
            used.push(file);
        }
        used.truncate(used.len() - self.left);
        let said = match try_connect(&self.at).map(Memory::new) {
            Err(error) => error,
            Ok(mut memory) => match memory.open_shared("shared", Rights::READ.and(Rights::WRITE)) {
                Err(error) => error.to_string(),
                Ok(_) => "served".to_owned(),
            },
        };
        println!("said {said}");
        0
    }
}

#[test]
fn a_client_without_descriptors_reads_that_it_is_its_own_limit() {
    let place = Place::new();
    let memory = Daemon::memory(&place, &place.socket(), &[]);
    let mut owner = connect_memory(memory.local());
    owner.reserve_shared(4096, "shared").unwrap();
    let own = "this process has no descriptors left (limit 64): raise it with `ulimit -n`";
    let [local, remote] = doors(&memory);
    // A socket; a link's memory, which is closed when it is mapped; a region.
    for (at, left, wanted) in [(&local, 0, own), (&local, 1, own), (&local, 2, "served"), (&remote, 0, own)] {
        let mut client = Frugal { at: at.clone(), left }.start(&place);
        let line = client.await_line(["said"]);
        assert!(line.contains(wanted), "{at} with {left} left: {line}");
        assert!(client.exit().0.success());
    }
    drop(owner);
    memory.end();
    place.assert_nothing_left();
}
