//! Clients, agents and memory servers killed in any order at random moments: whoever survives says so by name,
//! what the dead held is given back, and the next one is served.

use std::time::Duration;

use outboard_e2e::{Daemon, Place, Process, Random, await_state, connect_memory, seed};
use outboard_wire::Rights;

use crate::tenant::{Act, COUNT_AT, ENDED_WHEN_ASKED, LOST_EVERYBODY, NEVER_MET, SEED_AT, Tenant, deadline};

const ROUNDS: u64 = 200;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    Client,
    Agent,
    Memory,
}

/// The daemons, which live on from round to round unless they are killed.
struct Cluster<'a> {
    place: &'a Place,
    at: [String; 2],
    agent: Option<Daemon>,
    memory: Option<Daemon>,
    /// How many lives of the memory server the agent has seen end.
    restarts: u64,
}

impl<'a> Cluster<'a> {
    fn new(place: &'a Place) -> Self {
        Self { place, at: [place.socket(), place.socket()], agent: None, memory: None, restarts: 0 }
    }

    /// Starts whoever is dead, and waits until the agent has found the memory server.
    fn heal(&mut self) {
        let [agent_at, memory_at] = &self.at;
        let server_is_new = self.memory.is_none();
        self.memory.get_or_insert_with(|| Daemon::memory(self.place, memory_at, &["--linger", "0s"]));
        let level = ["--log-level", "debug"];
        match &mut self.agent {
            Some(_) if server_is_new => self.restarts += 1,
            Some(_) => {}
            None => {
                self.agent = Some(Daemon::agent(self.place, agent_at, memory_at, &level));
                self.restarts = 0;
            }
        }
        let restarts = self.restarts;
        let agent = self.agent.as_mut().unwrap();
        agent.await_number("memory_servers_connected", 1);
        agent.await_number("memory_servers_restarted_total", restarts);
    }

    fn tenant(&self, random: &mut Random, job: (u32, u32, u64)) -> Tenant {
        let by_tcp = random.once_in(3);
        let at = |daemon: &Option<Daemon>| {
            let daemon = daemon.as_ref().unwrap();
            if by_tcp { daemon.remote().clone() } else { daemon.local().clone() }
        };
        let (agent, memory) = (at(&self.agent), at(&self.memory));
        Tenant { job, ..Tenant::new(Act::Work, Some(&agent), Some(&memory), random.next()) }
    }
}

/// A client and what is to become of it.
struct Client {
    tenant: Tenant,
    process: Process,
    is_working: bool,
}

impl Client {
    /// The client must say that it has lost a daemon, by name and number.
    #[track_caller]
    fn must_mourn(&mut self, what: &str, dead: &Daemon) {
        let number = format!("(process {})", dead.process.pid());
        let line = self.process.line([&format!("lost {what}: ")], deadline() * 2);
        let line =
            line.unwrap_or_else(|| panic!("{what} was lost and not missed: {:?}", self.process.said()));
        assert!(line.contains(&dead.name) && line.contains(&number), "{line}");
    }
}

fn round(cluster: &mut Cluster<'_>, number: u64, seed: u64) {
    let mut random = Random::new(seed);
    cluster.heal();
    let ranks = if random.once_in(4) { 2 } else { 1 };
    let mut clients: Vec<Client> = (0..ranks)
        .map(|rank| {
            let tenant = cluster.tenant(&mut random, (rank, ranks, number + 1));
            Client { process: tenant.start(cluster.place), tenant, is_working: false }
        })
        .collect();
    // Some die before they have met. Ranks that wait for each other would do so for long.
    let have_met = ranks > 1 || !random.once_in(5);
    if have_met {
        for client in &mut clients {
            client.process.await_line(["working"]);
            client.is_working = true;
        }
    }
    let mut victims = [Victim::Client, Victim::Agent, Victim::Memory];
    random.shuffle(&mut victims);
    for victim in &victims[..1 + random.below(3) as usize] {
        let most = if have_met { 20_000 } else { 12_000 };
        clients.first().inspect(|client| client.process.idle(Duration::from_micros(random.below(most))));
        match victim {
            Victim::Client => clients.drain(..1).for_each(|client| kill_client(cluster, client)),
            Victim::Agent => kill_agent(cluster, &mut clients),
            Victim::Memory => kill_memory(cluster, &mut clients),
        }
    }
    for client in clients {
        dismiss(cluster, client);
    }
    assert_books_balance(cluster);
}

fn kill_client(cluster: &mut Cluster<'_>, mut client: Client) {
    let number = format!("(process {})", client.process.pid());
    // It may have come to work without anybody waiting for it to say so.
    let was_working = client.is_working || client.process.said().iter().any(|line| line == "working");
    client.process.kill();
    for daemon in [&mut cluster.agent, &mut cluster.memory].into_iter().flatten() {
        if was_working {
            daemon.process.await_line(["lost application", &number]);
        }
    }
    if let (true, Some(memory)) = (was_working, &mut cluster.memory) {
        check_estate(memory, &client.tenant);
    }
}

/// What a dead client leaves: the region with its name, as it was, and nothing else.
fn check_estate(memory: &mut Daemon, tenant: &Tenant) {
    let mut observer = connect_memory(memory.local());
    let region = observer.open(&tenant.region_name(), Rights::READ.and(Rights::WRITE)).unwrap();
    assert_eq!(region.size(), tenant.sizes()[1]);
    let mut seed = [0; 8];
    observer.read(&region, SEED_AT, &mut seed).unwrap();
    assert_eq!(u64::from_le_bytes(seed), tenant.seed);
    observer.fetch_add(&region, COUNT_AT, 0).unwrap();
    observer.free(region).unwrap();
    observer.close("seen enough");
}

fn kill_agent(cluster: &mut Cluster<'_>, clients: &mut [Client]) {
    let Some(agent) = cluster.agent.take() else { return };
    agent.process.signal(rustix::process::Signal::KILL);
    for client in clients.iter_mut().filter(|client| client.is_working) {
        client.must_mourn("agent", &agent);
    }
    if let Some(memory) = &mut cluster.memory {
        let number = format!("(process {})", agent.process.pid());
        memory.process.await_line(["lost agent “proof-agent”", &number]);
    }
    agent.process.kill();
}

fn kill_memory(cluster: &mut Cluster<'_>, clients: &mut [Client]) {
    let Some(memory) = cluster.memory.take() else { return };
    memory.process.signal(rustix::process::Signal::KILL);
    for client in clients.iter_mut().filter(|client| client.is_working) {
        client.must_mourn("memory", &memory);
    }
    if let Some(agent) = &mut cluster.agent {
        let number = format!("(process {})", memory.process.pid());
        agent.process.await_line(["lost memory server “proof-memory”", &number, "dialling again"]);
        agent.await_number("memory_servers_connected", 0);
    }
    memory.process.kill();
}

/// Ends a client that nobody killed. One that had not met everybody may have failed, by name.
fn dismiss(cluster: &mut Cluster<'_>, mut client: Client) {
    client.process.close_stdin();
    let (status, said) = client.process.exit();
    match status.code() {
        Some(ENDED_WHEN_ASKED | LOST_EVERYBODY) => {}
        Some(NEVER_MET) if !client.is_working => {
            let addresses = [&client.tenant.agent, &client.tenant.memory].into_iter().flatten();
            let named =
                addresses.map(ToString::to_string).any(|at| said.iter().any(|line| line.contains(&at)));
            assert!(named, "who was not met is not named: {said:?}");
        }
        other => panic!("a client ended with {other:?}: {said:?}"),
    }
    if let (true, Some(memory)) = (client.is_working, &mut cluster.memory) {
        let name = client.tenant.region_name();
        let mut observer = connect_memory(memory.local());
        // If this is a later life of the server there is nothing to free.
        if let Ok(region) = observer.open_shared(&name, Rights::READ.and(Rights::WRITE)) {
            observer.free(region).unwrap();
        }
        observer.close("seen enough");
    }
}

/// With all clients gone only named regions are left, and no byte is counted besides.
fn assert_books_balance(cluster: &mut Cluster<'_>) {
    let Some(memory) = &mut cluster.memory else { return };
    let mut observer = connect_memory(memory.local());
    let named = await_state("only named regions", || {
        let regions = observer.list().unwrap();
        let is_orphan = |region: &&outboard::RegionEntry| region.name.is_none() || region.owner.is_some();
        match regions.iter().find(is_orphan) {
            Some(orphan) => Err(format!("{orphan:?}")),
            None => Ok(regions.iter().map(|region| region.size).sum()),
        }
    });
    observer.close("seen enough");
    memory.await_number("used_bytes", named);
}

#[test]
fn whoever_survives_says_so_and_the_next_is_served() {
    let first = seed();
    let place = Place::new();
    let mut cluster = Cluster::new(&place);
    for number in 0..ROUNDS {
        let seed = first.wrapping_add(number);
        let result =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| round(&mut cluster, number, seed)));
        assert!(result.is_ok(), "round {number} failed; OUTBOARD_SEED={seed} makes it the first");
    }
    cluster.heal();
    // In whatever order: here the agent is left without its server first.
    cluster.memory.take().into_iter().chain(cluster.agent.take()).for_each(|daemon| drop(daemon.end()));
    place.assert_nothing_left();
}

/// A client that only touches mapped memory hears nothing, and must notice all the same.
#[test]
fn a_client_that_speaks_to_nobody_notices_the_death_of_its_server() {
    let place = Place::new();
    for by_tcp in [false, true] {
        let memory = Daemon::memory(&place, &place.socket(), &[]);
        let at = if by_tcp { memory.remote() } else { memory.local() };
        let tenant = Tenant::new(Act::Add, None, Some(at), 7);
        let mut client = Client { process: tenant.start(&place), tenant, is_working: true };
        client.process.await_line(["working"]);
        memory.process.signal(rustix::process::Signal::KILL);
        client.must_mourn("memory", &memory);
        memory.process.kill();
        assert_eq!(client.process.exit().0.code(), Some(LOST_EVERYBODY));
    }
    place.assert_nothing_left();
}
