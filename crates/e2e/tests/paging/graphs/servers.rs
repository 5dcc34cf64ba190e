//! Memory servers that are lost, and such as the agent does not know.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use outboard::Client;
use outboard_agent::{Daemon, STATUS_GRANT, StatusView};
use outboard_e2e::{Process, outboard};
use outboard_link::{Address, Identity};
use outboard_settings::Settings;
use outboard_wire::Role;
use serde_json::Value;

use super::cluster::socket;
use super::command::{Place, text};

const PATIENCE: Duration = Duration::from_secs(60);

/// A memory server in a process of its own, which is killed in the end.
struct Server {
    _process: Process,
    address: Address,
}

impl Server {
    fn start() -> Self {
        // Over TCP it counts what is asked of it.
        let at = ["--listen", "tcp:127.0.0.1:0", "--capacity", "256MiB"];
        let daemon = outboard_e2e::Daemon::of(outboard(&[&["memory"], &at[..]].concat()));
        Self { address: daemon.remote().clone(), _process: daemon.process }
    }

    /// How much was asked of it.
    fn served(&self) -> u64 {
        let link = Settings::default().link;
        let mut client = Client::connect(&self.address, Identity::new(Role::Tool, "test"), &link).unwrap();
        let page = client.read_region(&STATUS_GRANT).unwrap();
        StatusView::read(&page).unwrap().get("accesses_served_total").unwrap()
    }
}

#[test]
fn the_loss_of_a_server_ends_the_program_with_a_clear_word() {
    let place = Place::new();
    // An agent that keeps nothing has to ask a server for everything.
    for path in [&["direct"][..], &["agent", "--cache", "off"]] {
        let servers = [Server::start(), Server::start()];
        let both = format!("{},{}", servers[0].address, servers[1].address);
        let mut run = place.command(&["run", "pagerank", "--graph", "directed.graph", "--memory", "far"]);
        run.args(["--server", &both, "--iterations", "1000000", "--chunk", "4KiB", "--buffer", "1/4"]);
        run.args(["--far-stripe", "64KiB", "--far-grace", "200ms", "--path"]).args(path);
        let run = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // More than it takes to bring the graph there: it is worked on.
        let began = Instant::now();
        while servers[1].served() < 2000 {
            assert!(began.elapsed() < PATIENCE, "{path:?}: {} accesses", servers[1].served());
            std::thread::park_timeout(Duration::from_millis(5));
        }
        let [_alive, lost] = servers;
        let name = lost.address.to_string();
        drop(lost);
        let output = run.wait_with_output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{path:?}: {:?} {said}", output.status);
        assert!(said.contains("lost") && said.contains(&name), "{path:?}: {said}");
        assert!(!said.contains("SIGBUS"), "{path:?}: {said}");
    }
}

#[test]
fn the_death_of_a_server_is_told_at_once() {
    let place = Place::new();
    for path in ["direct", "agent"] {
        let server = Server::start();
        let address = server.address.to_string();
        let mut run = place.command(&["run", "pagerank", "--graph", "directed.graph", "--memory", "far"]);
        run.args(["--server", &address, "--iterations", "1000000", "--chunk", "4KiB", "--buffer", "1/4"]);
        // Whoever would wait for the end of it would wait for too long.
        run.args(["--far-grace", "1h", "--path", path]);
        let mut run = run.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let began = Instant::now();
        while server.served() < 2000 {
            assert!(began.elapsed() < PATIENCE, "{path}: {} accesses", server.served());
            std::thread::park_timeout(Duration::from_millis(5));
        }
        drop(server);
        let mut said = String::new();
        let mut lines = BufReader::new(run.stderr.take().unwrap());
        while !said.contains("outboard: lost memory server") {
            assert!(lines.read_line(&mut said).unwrap() > 0, "{path}: it ends without a word: {said}");
        }
        assert!(said.contains(&address) && said.contains("3600 s at most"), "{path}: {said}");
        assert!(run.try_wait().unwrap().is_none(), "{path}: it does not wait: {said}");
        run.kill().unwrap();
        run.wait().unwrap();
    }
}

/// How many regions a directed graph has.
const GRAPH: u64 = 4;

/// The memory server that a run has started by itself, once it has the graph and more, and its process.
fn own_server(run: &Child) -> (Address, i32) {
    let (id, began) = (run.id(), Instant::now());
    loop {
        assert!(began.elapsed() < PATIENCE, "no memory server of process {id} has a graph");
        std::thread::park_timeout(Duration::from_millis(5));
        let sockets = std::fs::read_to_string("/proc/net/unix").unwrap();
        let name = sockets
            .split(['@', '\n'])
            .find(|name| name.contains(&format!("outboard-graph-{id}-")) && name.ends_with("-memory"));
        let Some(name) = name else { continue };
        let address: Address = format!("unix:@{name}").parse().unwrap();
        let link = Settings::default().link;
        let Ok(mut client) = Client::connect(&address, Identity::new(Role::Tool, "test"), &link) else {
            continue;
        };
        let status = StatusView::read(&client.read_region(&STATUS_GRANT).unwrap()).unwrap();
        if status.get("regions").unwrap() > GRAPH {
            return (address, status.pid.cast_signed());
        }
    }
}

#[test]
fn nobody_waits_for_a_server_that_was_started_for_the_run_and_has_died() {
    let place = Place::new();
    for path in ["direct", "agent"] {
        let mut run = place.command(&["run", "pagerank", "--graph", "directed.graph", "--memory", "far"]);
        run.args(["--iterations", "1000000", "--chunk", "4KiB", "--buffer", "1/4", "--path", path]);
        // What is computed is far too, so that it shows that the graph has come.
        run.args(["--state", "far"]);
        let run = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (address, server) = own_server(&run);
        rustix::process::kill_process(
            rustix::process::Pid::from_raw(server).unwrap(),
            rustix::process::Signal::KILL,
        )
        .unwrap();
        let output = run.wait_with_output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{path}: {said}");
        assert!(said.contains(&address.to_string()), "{path}: {said}");
        assert!(!said.contains("10 s"), "{path}: it was waited for: {said}");
    }
}

#[test]
fn what_lies_at_a_server_that_the_agent_does_not_know_goes_past_it() {
    let place = Place::new();
    let servers = [0, 1].map(|_| {
        let mut settings = Settings::default();
        settings.memory.listen = vec![socket()];
        (settings.memory.listen[0].clone(), Daemon::memory(&settings).unwrap())
    });
    let agent_of = |known: &[&Address]| {
        let mut settings = Settings::default();
        settings.agent.listen = vec![socket()];
        settings.agent.memory_servers = known.iter().map(|address| (*address).clone()).collect();
        (settings.agent.listen[0].to_string(), Daemon::agent(&settings).unwrap())
    };
    let (half, stranger) = (agent_of(&[&servers[0].0]), agent_of(&[]));
    let both = format!("{},{}", servers[0].0, servers[1].0);
    let run = |agent: &str| {
        let mut run = place.command(&["run", "pagerank", "--graph", "directed.graph", "--memory", "far"]);
        run.args(["--server", &both, "--chunk", "4KiB", "--buffer", "1/4", "--far-stripe", "64KiB"]);
        run.args(["--path", "agent", "--agent", agent, "--json"]).output().unwrap()
    };
    let output = run(&half.0);
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    let unknown = servers[1].0.to_string();
    assert!(said.contains("goes past it") && said.contains(&unknown), "{said}");
    assert!(!said.contains(&servers[0].0.to_string()), "only the one that it does not know: {said}");
    let far: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(far["result"], place.in_dram("pagerank", "directed.graph"));
    let output = run(&stranger.0);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("does not know the memory server") && said.contains(&unknown), "{said}");
    for (_, daemon) in servers.into_iter().map(|(_, daemon)| ((), daemon)) {
        daemon.stop("done").unwrap();
    }
    half.1.stop("done").unwrap();
    stranger.1.stop("done").unwrap();
}

#[test]
fn a_server_with_two_addresses_is_one_server() {
    let place = Place::new();
    let mut settings = Settings::default();
    settings.memory.listen = vec![socket(), "tcp:127.0.0.1:0".parse().unwrap()];
    let memory = Daemon::memory(&settings).unwrap();
    let [one, other] = [0, 1].map(|at| memory.listening()[at].to_string());
    let both = format!("{one},{other}");
    let run = ["run", "pagerank", "--graph", "directed.graph", "--memory", "far", "--server", &both];
    let output = place.run(&run);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("named twice") && said.contains(&other), "{said}");
    memory.stop("done").unwrap();
}
